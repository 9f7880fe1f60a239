#![expect(clippy::unwrap_used, reason = "what a coder refuses to code here is a failure")]

use tautline_codec::{
    LosslessDecoder, LosslessEncoder, OpusDecoder, OpusEncoder, decoder, encoder,
};
use tautline_dsp::format::{self, SampleFormat};
use tautline_proto::codec::{Codec, Decode, Encode, Opus, OpusTuning};
use tautline_proto::stream::{PTIME_RANGE, StreamFormat};
use tautline_proto::time::Frames;
use tautline_proto::units::{Channels, Rate};

fn stream(codec: Codec, sample: SampleFormat, channels: Channels, packet: i64) -> StreamFormat {
    StreamFormat {
        rate: Rate::HZ_48000,
        channels,
        sample,
        codec: Some(codec),
        packet: Frames::new(packet),
        payload_type: StreamFormat::usual_payload_type(sample, Some(codec)),
    }
}

/// Every delay is distinguishable.
fn music(frames: usize, channels: usize) -> Vec<f32> {
    let mut random = fastrand::Rng::with_seed(7);
    let sample = |at: usize| {
        let (t, channel) = ((at / channels) as f32 / 48_000.0, (at % channels) as f32);
        let tone = |hertz: f32| (t * hertz * core::f32::consts::TAU).sin();
        0.1 * tone(440.0)
            + 0.4 * tone(200.0 + 1_500.0 * t + 700.0 * channel)
            + 0.002 * (random.f32() - 0.5)
    };
    (0..frames * channels).map(sample).collect()
}

fn rounded(sample: SampleFormat, samples: &[f32]) -> Vec<f32> {
    let mut rounded = vec![0.0; samples.len()];
    format::decode(sample, &whole(sample, samples), &mut rounded);
    rounded
}

fn whole(sample: SampleFormat, samples: &[f32]) -> Vec<u8> {
    let mut bytes = vec![0; samples.len() * sample.bytes()];
    format::encode(sample, samples, &mut bytes);
    bytes
}

#[test]
fn lossless_codec_returns_every_sample() {
    let mut random = fastrand::Rng::with_seed(1);
    for sample in [SampleFormat::L16, SampleFormat::L24] {
        for channels in [1, 2, 3, 8] {
            let channels = Channels::new(channels).unwrap();
            let count = channels.count();
            let format = stream(Codec::Lossless, sample, channels, 480);
            let mut encoder = encoder(&format).unwrap().unwrap();
            let mut decoder = decoder(Codec::Lossless, format.shape()).unwrap();
            let loud: Vec<f32> =
                (0..480 * count).map(|at| if at % 2 == 0 { 1.0 } else { -1.0 }).collect();
            let noise: Vec<f32> = (0..480 * count).map(|_| random.f32() * 2.0 - 1.0).collect();
            for sound in [music(480, count), vec![0.0; 480 * count], loud, noise] {
                for frames in [4, 5, 48, 240, 480] {
                    let sound = &rounded(sample, &sound[..frames * count]);
                    let mut room = [0; 1 << 14];
                    let bytes = encoder.encode(sound, &mut room).unwrap();
                    let maximum = 2 + count + sound.len() * sample.bytes();
                    assert!(bytes <= maximum, "{bytes} bytes for {frames} frames of {count}");
                    let payload = &room[..bytes];
                    assert_eq!(Codec::Lossless.frames(payload), Some(Frames::from_len(frames)));
                    let mut out = vec![0.0; sound.len()];
                    decoder.decode(payload, &mut out).unwrap();
                    assert_eq!(whole(sample, &out), whole(sample, sound), "{sample:?} {frames}");
                }
            }
        }
    }
}

fn exactly(sample: SampleFormat, channels: Channels, sound: &[f32]) -> Vec<u8> {
    let sound = &rounded(sample, sound);
    let mut room = [0; 1 << 14];
    let bytes = LosslessEncoder::new(sample, channels).encode(sound, &mut room).unwrap();
    let mut out = vec![0.0; sound.len()];
    LosslessDecoder::new(channels).decode(&room[..bytes], &mut out).unwrap();
    assert_eq!(whole(sample, &out), whole(sample, sound));
    room[..bytes].to_vec()
}

#[test]
fn similar_channels_compress_together() {
    let mut random = fastrand::Rng::with_seed(5);
    let noise: Vec<f32> = (0..480).map(|_| random.f32() / 2.0 - 1.0).collect();
    let both = |other: &mut dyn FnMut(f32) -> f32| -> Vec<f32> {
        noise.iter().flat_map(|one| [*one, other(*one)]).collect()
    };
    for sample in [SampleFormat::L16, SampleFormat::L24] {
        let bytes = |channels, sound: &[f32]| exactly(sample, channels, sound).len();
        let one = bytes(Channels::MONO, &noise);
        // Needs one more bit than a sample.
        let alike = bytes(Channels::STEREO, &both(&mut |one| one + 1.5));
        assert!(alike < one + 480 / 4, "{alike} of {one} bytes");
        let mut random = fastrand::Rng::with_seed(6);
        let unlike = bytes(Channels::STEREO, &both(&mut |_| random.f32() / 2.0 - 1.0));
        assert!(unlike <= 2 * one + 2, "{unlike} of {one} bytes");
    }
}

#[test]
fn lossless_payload_with_a_wrong_length_is_invalid() {
    let stereo = Channels::STEREO;
    let mut random = fastrand::Rng::with_seed(8);
    let noise: Vec<f32> = (0..480).map(|_| random.f32() * 2.0 - 1.0).collect();
    for sound in [music(240, 2), noise] {
        let payload = exactly(SampleFormat::L24, stereo, &sound);
        let read = |payload: &[u8], frames: usize| {
            LosslessDecoder::new(stereo).decode(payload, &mut vec![0.0; 2 * frames])
        };
        assert!(read(&payload, 240).is_ok());
        for frames in [239, 241] {
            assert!(read(&payload, frames).is_err(), "as {frames} frames");
        }
        for more in [&[0][..], &[1], &[0; 6]] {
            assert!(
                read(&[&payload[..], more].concat(), 240).is_err(),
                "{} bytes more",
                more.len()
            );
        }
    }
    let mut opus = OpusDecoder::new(Rate::HZ_48000, stereo).unwrap();
    assert!(opus.decode(&[], &mut [0.0; 480]).is_err(), "of nothing there is no sound");
}

#[test]
fn music_is_shorter_without_loss_and_silence_is_next_to_nothing() {
    let mut encoder = LosslessEncoder::new(SampleFormat::L16, Channels::STEREO);
    let mut room = [0; 4096];
    let music = encoder.encode(&music(240, 2), &mut room).unwrap();
    assert!(music < 960 * 7 / 10, "{music} of 960 bytes");
    let silence = encoder.encode(&[0.0; 480], &mut room).unwrap();
    assert!(silence <= 4 + 60, "{silence} bytes");
}

fn by_opus(opus: Opus, channels: Channels, packet: usize, sound: &[f32]) -> Vec<f32> {
    let encoder = OpusEncoder::new(opus, channels).expect("libopus codes it");
    decoded((encoder, opus), channels, packet, sound)
}

fn payload_bytes(opus: Opus, packet: usize) -> usize {
    let packet = Frames::from_len(packet);
    Codec::Opus(opus).payload_bytes((Channels::MONO, packet), 0)
}

fn decoded(
    (mut encoder, opus): (OpusEncoder, Opus),
    channels: Channels,
    packet: usize,
    sound: &[f32],
) -> Vec<f32> {
    let mut decoder = OpusDecoder::new(Rate::HZ_48000, channels).expect("libopus reads it");
    let mut received = Vec::new();
    for block in sound.chunks_exact(packet * channels.count()) {
        let mut room = [0; 1500];
        let bytes = encoder.encode(block, &mut room).expect("a packet");
        assert_eq!(bytes, payload_bytes(opus, packet), "all are as long");
        assert_eq!(Codec::OPUS.frames(&room[..bytes]), Some(Frames::from_len(packet)));
        let mut out = vec![0.0; block.len()];
        decoder.decode(&room[..bytes], &mut out).expect("its own packet");
        received.extend(out);
    }
    received
}

fn best_delay(sound: &[f32], received: &[f32], channels: usize, maximum: usize) -> (usize, f32) {
    let error = |delay: usize| {
        let (from, until) = (4800 * channels, sound.len() - maximum * channels);
        let power = |all: &mut dyn Iterator<Item = f32>| all.map(|x| x * x).sum::<f32>();
        let apart = sound[from..until].iter().zip(&received[from + delay * channels..]);
        let error = power(&mut apart.map(|(a, b)| a - b));
        10.0 * (error / power(&mut sound[from..until].iter().copied())).log10()
    };
    (0..=maximum)
        .map(|delay| (delay, error(delay)))
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .expect("one at least")
}

#[test]
fn opus_has_its_reported_delay_and_returns_the_sound() {
    let (music_packets, voice_packets) = (&[120, 240, 480, 960][..], &[480, 960][..]);
    for (tuning, packets, maximum) in [
        (OpusTuning::Music, music_packets, [-36.0, -20.0]),
        (OpusTuning::Voice, voice_packets, [-15.0, -20.0]),
    ] {
        for (channels, maximum) in [Channels::MONO, Channels::STEREO].into_iter().zip(maximum) {
            let count = channels.count();
            for packet in packets {
                let each = if tuning == OpusTuning::Music { 192_000 } else { 64_000 };
                let opus = Opus { bitrate: each * count as u32, tuning };
                let mut encoder = OpusEncoder::new(opus, channels).unwrap();
                assert_eq!(
                    i64::from(encoder.lookahead()),
                    Codec::Opus(opus).delay().count(),
                    "{tuning:?}"
                );
                encoder.expect_loss(0);
                // Opus does not preserve different channels' waveforms.
                let sound = match tuning {
                    OpusTuning::Music => music(48_000, count),
                    OpusTuning::Voice => in_the_middle(&music(48_000, 1), count),
                };
                let received = decoded((encoder, opus), channels, *packet, &sound);
                let (delay, error) = best_delay(&sound, &received, count, 480);
                let off = (delay as i64 - Codec::Opus(opus).delay().count()).abs();
                assert!(off <= 4, "{tuning:?} {packet}: {delay} frames, {error} dB");
                assert!(error < maximum, "{tuning:?} {count} {packet}: {error} dB");
            }
        }
    }
}

fn in_the_middle(mono: &[f32], count: usize) -> Vec<f32> {
    mono.iter().flat_map(|sample| core::iter::repeat_n(*sample, count)).collect()
}

/// FEC copies take bits from the packet that carries them. Syllables leave enough; for the sweep,
/// libopus codes frames without a residual ("Clear all pulses" in silk/float/encode_frame_FLP.c).
#[test]
fn copies_neither_delay_speech_nor_spoil_it() {
    for channels in [Channels::MONO, Channels::STEREO] {
        let count = channels.count();
        let opus = Opus { bitrate: 64_000 * count as u32, tuning: OpusTuning::Voice };
        for packet in [480, 960] {
            // Syllables repeat their waveform.
            let sweep = in_the_middle(&music(48_000, 1), count);
            let received = by_opus(opus, channels, packet, &sweep);
            let (delay, error) = best_delay(&sweep, &received, count, 480);
            let off = (delay as i64 - Codec::Opus(opus).delay().count()).abs();
            assert!(off <= 4, "{count} {packet}: {delay} frames, {error} dB");
            let spoken = in_the_middle(&syllables(48_000), count);
            let received = by_opus(opus, channels, packet, &spoken);
            let late = (Codec::Opus(opus).delay().as_len() - 2) * count;
            let from = 4800 * count..spoken.len() - late;
            let error = apart(&spoken[from.clone()], &received[from.start + late..]);
            assert!(error < -8.0, "{count} {packet}: {error} dB");
        }
    }
}

/// libopus classifies it as voice.
fn syllables(frames: usize) -> Vec<f32> {
    let mut random = fastrand::Rng::with_seed(7);
    let sample = |at: usize| {
        let tone = |hertz: f32| (at as f32 / 48_000.0 * hertz * core::f32::consts::TAU).sin();
        let sound = 0.4 * tone(440.0) + 0.2 * tone(1_300.0) + 0.002 * (random.f32() - 0.5);
        sound * (0.55 + 0.45 * tone(8.0))
    };
    (0..frames).map(sample).collect()
}

fn apart(wanted: &[f32], received: &[f32]) -> f32 {
    let power = |all: &mut dyn Iterator<Item = f32>| all.map(|x| x * x).sum::<f32>();
    let error = power(&mut wanted.iter().zip(received).map(|(a, b)| a - b));
    10.0 * (error / power(&mut wanted.iter().copied())).log10()
}

#[test]
fn lost_speech_uses_fec_and_lost_music_is_concealed() {
    const LOST: usize = 18;
    let mono = Channels::MONO;
    let sound = syllables(48_000);
    let packets = |opus: Opus| -> Vec<Vec<u8>> {
        let mut encoder = OpusEncoder::new(opus, mono).unwrap();
        let coded = sound.chunks_exact(960).map(|block| {
            let mut room = [0; 1500];
            let bytes = encoder.encode(block, &mut room).unwrap();
            room[..bytes].to_vec()
        });
        coded.collect()
    };
    let before = |packets: &[Vec<u8>], lost: usize| {
        let mut decoder = OpusDecoder::new(Rate::HZ_48000, mono).unwrap();
        let mut out = [0.0; 960];
        packets[..lost].iter().for_each(|packet| decoder.decode(packet, &mut out).unwrap());
        decoder
    };
    let voice = packets(Opus::usual(OpusTuning::Voice, mono));
    let (mut carried, mut nearer) = (0, 0);
    for lost in 10..45 {
        let [mut original, mut recovered, mut concealed] = [[0.0; 960]; 3];
        before(&voice, lost).decode(&voice[lost], &mut original).unwrap();
        let mut decoder = before(&voice, lost);
        if !decoder.recover(&voice[lost + 1], Frames::ZERO, &mut recovered) {
            continue;
        }
        assert!(
            !decoder.recover(&voice[lost + 1], Frames::ZERO, &mut recovered[..480]),
            "of another length"
        );
        assert!(before(&voice, lost).conceal(&mut concealed));
        carried += 1;
        let [with, without] = [recovered, concealed].map(|received| apart(&original, &received));
        nearer += usize::from(with < without - 3.0);
    }
    assert!(carried >= 20 && nearer * 10 > carried * 8, "{nearer} of {carried} are nearer");
    let mut out = [0.0; 960];
    let music = packets(Opus::usual(OpusTuning::Music, mono));
    let mut decoder = before(&music, LOST);
    assert!(!decoder.recover(&music[LOST + 1], Frames::ZERO, &mut out), "music does not");
    assert!(decoder.conceal(&mut out) && out.iter().any(|sample| sample.abs() > 0.05));
    assert!(!decoder.conceal(&mut out[..100]), "of no whole steps there is nothing");
}

/// libopus adds redundancy.
#[cfg(feature = "bundled")]
fn gliding_voice(frames: usize) -> Vec<f32> {
    let mut phase = 0.0_f32;
    let sample = |at: usize| {
        let tone = |hertz: f32| (at as f32 / 48_000.0 * hertz * core::f32::consts::TAU).sin();
        phase = (phase + 120.0 * (1.0 + 0.15 * tone(3.0)) / 48_000.0).fract();
        let harmonic = |n: f32| (n * phase * core::f32::consts::TAU).sin() / n;
        (1..30).map(|n| harmonic(n as f32)).sum::<f32>() * 0.2 * (0.55 + 0.45 * tone(4.0))
    };
    (0..frames).map(sample).collect()
}

#[test]
#[cfg(feature = "bundled")]
fn lost_speech_is_decoded_from_deep_redundancy() {
    const PACKET: usize = 960;
    let mono = Channels::MONO;
    let opus = Opus::usual(OpusTuning::Voice, mono);
    let mut encoder = OpusEncoder::new(opus, mono).unwrap();
    encoder.carry_dred().unwrap();
    encoder.expect_loss(20);
    let mut decoder = OpusDecoder::new(Rate::HZ_48000, mono).unwrap();
    let (mut recovered, mut out) = (0, [0.0; PACKET]);
    for (at, block) in gliding_voice(96_000).chunks_exact(PACKET).enumerate() {
        let mut room = [0; 1500];
        let bytes = encoder.encode(block, &mut room).unwrap();
        assert_eq!(bytes, payload_bytes(opus, PACKET), "packet {at}");
        let payload = &room[..bytes];
        assert_eq!(Codec::OPUS.frames(payload), Some(Frames::from_len(PACKET)));
        if at % 4 < 2 {
            decoder.decode(payload, &mut out).unwrap();
        } else if at % 4 == 3 {
            assert!(!decoder.recover(payload, Frames::new(48_000), &mut out), "a second before");
            for ahead in [PACKET, 0] {
                let is_had = decoder.recover(payload, Frames::from_len(ahead), &mut out);
                let is_received = out.iter().any(|sample| sample.abs() > 0.01);
                recovered += usize::from(is_had && is_received);
            }
        }
    }
    assert!(recovered >= 40, "{recovered} of 50");
}

#[test]
fn opus_goes_to_other_bits_within_its_sound_without_a_break() {
    const PACKET: usize = 240;
    let (stereo, sound) = (Channels::STEREO, music(48_000, 2));
    let usual = Opus::usual(OpusTuning::Music, stereo);
    let received_in = |bitrate_of: &dyn Fn(usize) -> u32| {
        let mut encoder = OpusEncoder::new(usual, stereo).unwrap();
        let mut decoder = OpusDecoder::new(Rate::HZ_48000, stereo).unwrap();
        let mut received = Vec::new();
        for (at, block) in sound.chunks_exact(PACKET * 2).enumerate() {
            let bitrate = bitrate_of(at);
            encoder.set_bitrate(bitrate);
            let mut room = [0; 1500];
            let bytes = encoder.encode(block, &mut room).unwrap();
            let packet = Frames::from_len(PACKET);
            assert_eq!(bytes, payload_bytes(Opus { bitrate, ..usual }, PACKET), "packet {at}");
            assert_eq!(Codec::OPUS.bitrate_of(bytes, packet), Some(bitrate / 1600 * 1600));
            let mut out = vec![0.0; block.len()];
            decoder.decode(&room[..bytes], &mut out).unwrap();
            received.extend(out);
        }
        received
    };
    let moved = received_in(&|at| if at % 40 < 20 { 256_000 } else { 96_000 });
    let steady = received_in(&|_| 96_000);
    let delay = 2 * Codec::Opus(usual).delay().as_len();
    for change in (20..190).step_by(20) {
        let around = (change - 2) * PACKET * 2..(change + 3) * PACKET * 2;
        let late = around.start + delay..around.end + delay;
        let [with, without] = [&moved, &steady]
            .map(|received| apart(&sound[around.clone()], &received[late.clone()]));
        assert!(with < without + 3.0, "at packet {change}: {with} dB, and {without} dB throughout");
    }
}

#[test]
fn speech_carries_fec_only_with_packet_loss() {
    let mono = Channels::MONO;
    let opus = Opus::usual(OpusTuning::Voice, mono);
    let sound = syllables(96_000);
    let mut encoder = OpusEncoder::new(opus, mono).unwrap();
    let mut carried = [0, 0];
    for (at, block) in sound.chunks_exact(960).enumerate() {
        let is_lossy = at >= 50;
        encoder.expect_loss(if is_lossy { 10 } else { 0 });
        let mut room = [0; 1500];
        let bytes = encoder.encode(block, &mut room).unwrap();
        assert_eq!(bytes, payload_bytes(opus, 960));
        let mut decoder = OpusDecoder::new(Rate::HZ_48000, mono).unwrap();
        let mut out = [0.0; 960];
        carried[usize::from(is_lossy)] +=
            usize::from(decoder.recover(&room[..bytes], Frames::ZERO, &mut out));
    }
    assert!(carried[0] == 0 && carried[1] > 25, "{carried:?} of 50 each");
}

#[test]
fn reset_restores_the_initial_codec_state() {
    const PACKET: usize = 960;
    let stereo = Channels::STEREO;
    let sound = music(20 * PACKET, 2);
    let (before, after) = sound.split_at(10 * PACKET * 2);
    for tuning in [OpusTuning::Music, OpusTuning::Voice] {
        let opus = Opus::usual(tuning, stereo);
        let made = || {
            let decoder = OpusDecoder::new(Rate::HZ_48000, stereo).unwrap();
            (OpusEncoder::new(opus, stereo).unwrap(), decoder)
        };
        let through = |(encoder, decoder): &mut (OpusEncoder, OpusDecoder), sound: &[f32]| {
            let each = sound.chunks_exact(PACKET * 2).map(|block| {
                let (mut room, mut out) = ([0; 1500], vec![0.0; block.len()]);
                let bytes = encoder.encode(block, &mut room).unwrap();
                decoder.decode(&room[..bytes], &mut out).unwrap();
                (room[..bytes].to_vec(), out)
            });
            each.collect::<Vec<_>>()
        };
        let anew = through(&mut made(), after);
        let mut used = made();
        through(&mut used, before);
        let mut other = made();
        through(&mut other, before);
        assert!(through(&mut other, after) != anew, "{tuning:?} goes by what was before");
        used.0.reset();
        used.1.reset();
        assert!(through(&mut used, after) == anew, "{tuning:?}");
    }
}

#[test]
fn only_speech_packets_with_fec_supply_the_lost_one() {
    // RFC 6716 §3.1: 8 to 11 are speech; bit 2 is stereo, bits 0 and 1 count frames.
    let (speech, stereo, celt) = (9 << 3, 1 << 2, 31 << 3);
    // §4.2.3: per channel, voice activity and redundancy.
    let (mid, side) = (0x40, 0x10);
    for (head, flags, carries) in [
        (speech, mid, true),
        (speech, 0, false),
        (speech, side, false),
        (speech | stereo, side, true),
        (speech | stereo, mid, true),
        (speech | stereo, !(mid | side), false),
        // Two frames of 10 ms.
        (8 << 3 | 1, mid, false),
        (celt, mid, false),
    ] {
        let mut payload = [0x55; 80];
        (payload[0], payload[1]) = (head, flags);
        let mut decoder = OpusDecoder::new(Rate::HZ_48000, Channels::MONO).unwrap();
        let frames = Codec::OPUS.frames(&payload).unwrap();
        let recovered = decoder.recover(&payload, Frames::ZERO, &mut vec![0.0; frames.as_len()]);
        assert_eq!(recovered, carries, "{head:#x} {flags:#x}");
    }
}

#[test]
fn damaged_payloads_do_no_harm() {
    const ROUNDS: usize = 20_000;
    let mut random = fastrand::Rng::with_seed(3);
    let stereo = Channels::STEREO;
    let voice = Codec::Opus(Opus::usual(OpusTuning::Voice, stereo));
    for (codec, packet) in [(Codec::Lossless, 240), (Codec::OPUS, 240), (voice, 960)] {
        let format = stream(codec, SampleFormat::L24, stereo, packet);
        let mut encoder = encoder(&format).unwrap().unwrap();
        let mut decoder = decoder(codec, format.shape()).unwrap();
        let sound = music(50 * packet as usize, 2);
        let coded = sound.chunks_exact(2 * packet as usize).map(|block| {
            let mut room = [0; 8192];
            let bytes = encoder.encode(block, &mut room).unwrap();
            room[..bytes].to_vec()
        });
        let packets: Vec<Vec<u8>> = coded.collect();
        let mut out = vec![0.0; 2 * 5760];
        let mut taken = 0;
        for (round, whole) in packets.iter().cycle().take(ROUNDS).enumerate() {
            let mut payload = whole.clone();
            let is_cut = round % 3 == 0;
            match round % 3 {
                0 => payload.truncate(random.usize(..whole.len())),
                1 => {
                    let at = random.usize(..whole.len());
                    payload[at] ^= 1 << random.u32(..8);
                }
                _ => random.fill(&mut payload),
            }
            let Some(frames) = codec.frames(&payload).filter(|f| f.count() <= 5760) else {
                continue;
            };
            let out = &mut out[..stereo.samples_in(frames)];
            let is_taken = decoder.decode(&payload, out).is_ok();
            // Opus fills a short packet with zero-cost symbols (RFC 6716 §4.1.2).
            assert!(!(is_cut && is_taken && codec == Codec::Lossless), "cut to {}", payload.len());
            taken += usize::from(is_taken);
            decoder.recover(&payload, Frames::ZERO, out);
            decoder.conceal(out);
            assert!(out.iter().all(|sample| sample.is_finite()));
        }
        assert!(taken > 0, "some are read as something");
    }
}

#[test]
fn no_packet_without_loss_is_longer_than_streams_have() {
    let maximum = Rate::new(192_000).unwrap().frames_within(PTIME_RANGE.1).as_len();
    let mut encoder = LosslessEncoder::new(SampleFormat::L16, Channels::MONO);
    let mut decoder = LosslessDecoder::new(Channels::MONO);
    let (mut room, mut out) = (vec![0; 4 * maximum], vec![0.0; maximum]);
    let bytes = encoder.encode(&music(maximum, 1), &mut room).expect("the longest");
    decoder.decode(&room[..bytes], &mut out).expect("the longest");
    assert_eq!(encoder.encode(&music(maximum + 1, 1), &mut room), None);
}

#[test]
fn music_passes_at_the_minimum_bitrate_and_fewer_is_refused() {
    let mono = Channels::MONO;
    for (packet, minimum) in [(120, 9_600), (240, 6_000)] {
        let opus = |bitrate| Opus { tuning: OpusTuning::Music, bitrate };
        let received = by_opus(opus(minimum), mono, packet, &music(48_000, 1));
        let loudest = received.iter().fold(0.0_f32, |maximum, sample| maximum.max(sample.abs()));
        assert!(loudest > 0.05, "{packet} frames: {loudest}");
        let codec = Codec::Opus(opus(minimum - 1));
        let format = stream(codec, SampleFormat::L24, mono, packet as i64);
        assert!(encoder(&format).is_err(), "{packet} frames in {} bit/s", minimum - 1);
    }
}
