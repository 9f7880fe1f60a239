//! What is coded and decoded is what it was, or as near as it is to be; and what is no payload does no harm.

use tautline_codec::{LosslessEncoder, OpusDecoder, OpusEncoder, decoder, encoder};
use tautline_dsp::format::{self, SampleFormat};
use tautline_proto::coder::{Coder, Decode, Encode, Opus, OpusTuning};
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::Frames;
use tautline_proto::units::{Channels, Rate};

fn stream(coder: Coder, sample: SampleFormat, channels: Channels, packet: i64) -> StreamFormat {
    StreamFormat {
        rate: Rate::HZ_48000,
        channels,
        sample,
        coder: Some(coder),
        packet: Frames::new(packet),
        payload_type: StreamFormat::usual_payload_type(sample, Some(coder)),
    }
}

/// A tone and a sweep for each channel, and a little noise: no delay of it is like another.
fn music(frames: usize, channels: usize) -> Vec<f32> {
    let mut random = fastrand::Rng::with_seed(7);
    let sample = |at: usize| {
        let (t, channel) = ((at / channels) as f32 / 48_000.0, (at % channels) as f32);
        let tone = |hertz: f32| (t * hertz * core::f32::consts::TAU).sin();
        0.1 * tone(440.0)
            + 0.4 * tone(200.0 + 1_500.0 * t + 10.0 * channel)
            + 0.002 * (random.f32() - 0.5)
    };
    (0..frames * channels).map(sample).collect()
}

/// The numbers that a format has for these samples.
fn whole(sample: SampleFormat, samples: &[f32]) -> Vec<u8> {
    let mut bytes = vec![0; samples.len() * sample.bytes()];
    format::encode(sample, samples, &mut bytes);
    bytes
}

#[test]
fn without_loss_every_number_comes_back_whatever_the_sound() {
    let mut random = fastrand::Rng::with_seed(1);
    for sample in [SampleFormat::L16, SampleFormat::L24] {
        for channels in [1, 2, 3, 8] {
            let channels = Channels::new(channels).unwrap();
            let count = channels.count();
            let format = stream(Coder::Lossless, sample, channels, 480);
            let mut encoder = encoder(&format).unwrap().unwrap();
            let mut decoder = decoder(Coder::Lossless, &format).unwrap();
            let loud: Vec<f32> =
                (0..480 * count).map(|at| if at % 2 == 0 { 1.0 } else { -1.0 }).collect();
            let noise: Vec<f32> = (0..480 * count).map(|_| random.f32() * 2.0 - 1.0).collect();
            for sound in [music(480, count), vec![0.0; 480 * count], loud, noise] {
                for frames in [4, 5, 48, 240, 480] {
                    let sound = &sound[..frames * count];
                    let mut room = [0; 1 << 14];
                    let bytes = encoder.encode(sound, &mut room).unwrap();
                    let most = 2 + count + sound.len() * sample.bytes();
                    assert!(bytes <= most, "{bytes} bytes for {frames} frames of {count}");
                    let payload = &room[..bytes];
                    assert_eq!(Coder::Lossless.frames(payload), Some(Frames::from_len(frames)));
                    let mut out = vec![0.0; sound.len()];
                    decoder.decode(payload, &mut out).unwrap();
                    assert_eq!(whole(sample, &out), whole(sample, sound), "{sample:?} {frames}");
                }
            }
        }
    }
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

/// What comes out of a coder and a decoder of so many packets.
fn by_opus(opus: Opus, channels: Channels, packet: usize, sound: &[f32]) -> Vec<f32> {
    let mut encoder = OpusEncoder::new(opus, channels).expect("libopus codes it");
    let mut decoder = OpusDecoder::new(Rate::HZ_48000, channels).expect("libopus reads it");
    let mut heard = Vec::new();
    for block in sound.chunks_exact(packet * channels.count()) {
        let mut room = [0; 1500];
        let bytes = encoder.encode(block, &mut room).expect("a packet");
        assert_eq!(bytes, opus.payload_bytes(Frames::from_len(packet)), "all are as long");
        assert_eq!(Coder::OPUS.frames(&room[..bytes]), Some(Frames::from_len(packet)));
        let mut out = vec![0.0; block.len()];
        decoder.decode(&room[..bytes], &mut out).expect("its own packet");
        heard.extend(out);
    }
    heard
}

/// How far below `sound` the difference is that is least of all delays up to `most` frames, in dB, and that delay.
fn best_delay(sound: &[f32], heard: &[f32], channels: usize, most: usize) -> (usize, f32) {
    let error = |delay: usize| {
        let (from, until) = (4800 * channels, sound.len() - most * channels);
        let power = |all: &mut dyn Iterator<Item = f32>| all.map(|x| x * x).sum::<f32>();
        let apart = sound[from..until].iter().zip(&heard[from + delay * channels..]);
        let error = power(&mut apart.map(|(a, b)| a - b));
        10.0 * (error / power(&mut sound[from..until].iter().copied())).log10()
    };
    (0..=most)
        .map(|delay| (delay, error(delay)))
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .expect("one at least")
}

#[test]
fn opus_delays_by_what_its_coder_says_and_gives_the_sound_back() {
    for (tuning, packets, least) in [
        (OpusTuning::Music, &[120, 240, 480, 960][..], -9.0),
        (OpusTuning::Voice, &[480, 960], -1.0),
    ] {
        for channels in [Channels::MONO, Channels::STEREO] {
            for packet in packets {
                let each = if tuning == OpusTuning::Music { 192_000 } else { 64_000 };
                let opus = Opus { bitrate: each * channels.count() as u32, tuning };
                let mut encoder = OpusEncoder::new(opus, channels).unwrap();
                assert_eq!(i64::from(encoder.lookahead()), opus.delay().count(), "{tuning:?}");
                let sound = music(48_000, channels.count());
                let heard = by_opus(opus, channels, *packet, &sound);
                let (delay, error) = best_delay(&sound, &heard, channels.count(), 480);
                let off = (delay as i64 - opus.delay().count()).abs();
                // Speech is coded at 16 kHz, and its waveform is not kept.
                assert!(off <= 4, "{tuning:?} {packet}: {delay} frames, {error} dB");
                assert!(error < least, "{tuning:?} {packet}: {error} dB");
            }
        }
    }
}

#[test]
fn what_the_next_packet_carries_of_a_lost_one_is_heard_and_music_is_concealed() {
    let mono = Channels::MONO;
    // What is taken for a voice: a steady tone with one overtone, and a little noise.
    let mut random = fastrand::Rng::with_seed(7);
    let tones = |at: usize| {
        let tone = |hertz: f32| (at as f32 / 48_000.0 * hertz * core::f32::consts::TAU).sin();
        0.4 * tone(440.0) + 0.2 * tone(1_300.0) + 0.002 * (random.f32() - 0.5)
    };
    let sound: Vec<f32> = (0..48_000).map(tones).collect();
    let packets = |opus: Opus| -> Vec<Vec<u8>> {
        let mut encoder = OpusEncoder::new(opus, mono).unwrap();
        let coded = sound.chunks_exact(960).map(|block| {
            let mut room = [0; 1500];
            let bytes = encoder.encode(block, &mut room).unwrap();
            room[..bytes].to_vec()
        });
        coded.collect()
    };
    let mut out = [0.0; 960];
    let voice = packets(Opus { tuning: OpusTuning::Voice, bitrate: 24_000 });
    let mut decoder = OpusDecoder::new(Rate::HZ_48000, mono).unwrap();
    voice[..20].iter().for_each(|packet| decoder.decode(packet, &mut out).unwrap());
    assert!(decoder.recover(&voice[21], &mut out), "speech carries the packet before");
    assert!(!decoder.recover(&voice[21], &mut out[..480]), "of another length there is none");
    let music = packets(Opus::usual(OpusTuning::Music, mono));
    let mut decoder = OpusDecoder::new(Rate::HZ_48000, mono).unwrap();
    music[..20].iter().for_each(|packet| decoder.decode(packet, &mut out).unwrap());
    assert!(!decoder.recover(&music[21], &mut out), "music does not");
    assert!(decoder.conceal(&mut out) && out.iter().any(|sample| sample.abs() > 0.05));
    assert!(!decoder.conceal(&mut out[..100]), "of no whole steps there is nothing");
}

#[test]
fn what_is_cut_changed_or_random_does_no_harm() {
    let mut random = fastrand::Rng::with_seed(3);
    let stereo = Channels::STEREO;
    let voice = Coder::Opus(Opus::usual(OpusTuning::Voice, stereo));
    for (coder, packet) in [(Coder::Lossless, 240), (Coder::OPUS, 240), (voice, 960)] {
        let format = stream(coder, SampleFormat::L24, stereo, packet);
        let mut encoder = encoder(&format).unwrap().unwrap();
        let mut decoder = decoder(coder, &format).unwrap();
        let mut room = [0; 8192];
        let mut out = vec![0.0; 2 * 5760];
        let mut taken = 0;
        for round in 0..20_000 {
            let bytes = encoder.encode(&music(packet as usize, 2), &mut room).unwrap();
            let mut payload = room[..bytes].to_vec();
            match round % 3 {
                0 => payload.truncate(random.usize(..bytes)),
                1 => {
                    let at = random.usize(..bytes);
                    payload[at] ^= 1 << random.u32(..8);
                }
                _ => random.fill(&mut payload),
            }
            let Some(frames) = coder.frames(&payload).filter(|f| f.count() <= 5760) else {
                continue;
            };
            let out = &mut out[..stereo.samples_in(frames)];
            taken += usize::from(decoder.decode(&payload, out).is_ok());
            decoder.recover(&payload, out);
            decoder.conceal(out);
            assert!(out.iter().all(|sample| sample.is_finite()));
            if round > 2_000 && coder != Coder::Lossless {
                break;
            }
        }
        assert!(taken > 0, "some are read as something");
    }
}
