//! What codes and decodes streams, made for engines that link no codec; and what that takes on this machine, told where it is
//! too much of a device's period: the device's thread does it.

use tautline_audio::DeviceSpec;
use tautline_codec::{decoder, encoder};
use tautline_io::clock::thread_time;
use tautline_proto::coder::{Encode, MakeDecoder};
use tautline_proto::coding_time::{LongCoding, long_coding};
use tautline_proto::device::{Direction, Settings};
use tautline_proto::stream::{Coding, PTIME_RANGE, StreamFormat, packet_frames};
use tautline_proto::time::{Frames, Span};
use tautline_proto::units::Channels;

use crate::failure::Failure;
use crate::voice::Voice;

/// What reads streams that are compressed.
pub(crate) const DECODERS: MakeDecoder = decoder;

/// A coding in so many bits per second, or the usual for these channels.
pub(crate) fn in_bits(
    coding: Coding,
    bitrate: Option<u32>,
    channels: Channels,
) -> Result<Coding, Failure> {
    match (coding.bitrate(), bitrate) {
        (Some(_), Some(bitrate)) => Ok(coding.at_bitrate(bitrate)),
        (_, None) => Ok(coding.usual_for(channels)),
        (_, Some(_)) => Err(Failure::usage(format!(
            "--bitrate is of Opus, and {} takes what its sound takes; leave --bitrate out, or give --format opus",
            coding.name()
        ))),
    }
}

/// What codes this stream, and, where its coding `may_change`, what else it may be coded by: Opus in so many bits per
/// second, or in the usual for these channels, as a change asks for it.
pub(crate) fn encoders(
    format: &StreamFormat,
    may_change: bool,
    bitrate: Option<u32>,
) -> Result<Vec<Box<dyn Encode>>, Failure> {
    let made = encoder(format).map_err(|error| Failure::usage(error.to_string()))?;
    let mut all: Vec<Box<dyn Encode>> = made.into_iter().collect();
    if !may_change {
        return Ok(all);
    }
    for coding in Coding::compressed() {
        let usual = || coding.usual_for(format.channels);
        let Coding { sample, coder } = bitrate.map_or_else(usual, |bits| coding.at_bitrate(bits));
        // In whatever packets it takes: they are asked for before it.
        let format = StreamFormat { sample, coder, packet: longest(format), ..*format };
        let is_had = all.iter().any(|encoder| encoder.coding().is_coded_as(format.coding()));
        if !is_had && let Ok(Some(encoder)) = encoder(&format) {
            all.push(encoder);
        }
    }
    Ok(all)
}

/// The longest packet of such a stream.
fn longest(format: &StreamFormat) -> Frames {
    format.rate.frames_within(PTIME_RANGE.1)
}

/// Packets before those that are timed: code and tables are in the caches then, and the coder is past its beginning.
const FIRST: usize = 2;
/// Packets that are timed, an odd number: the one in the middle counts, as some meet an interrupt.
const TIMED: usize = 5;

/// What one packet takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CodingTimes {
    encoding: Span,
    decoding: Span,
}

/// Tells it if the coding of so many streams takes too much of the periods of `device`, which is called `spec`: of what is
/// captured their packets are coded in it, and of what is played they are decoded. Takes as long as some packets take.
pub(crate) fn tell_of_coding_time(
    voice: Voice,
    (spec, device, direction): (&DeviceSpec, &Settings, Direction),
    streams: usize,
    format: &StreamFormat,
) {
    let Some(format) = coded(format) else { return };
    // By the time that this thread itself takes: others run beside it, and the device's goes before them.
    let Some(times) = timed(&format, &mut thread_time) else { return };
    let each = match direction {
        Direction::Capture => times.encoding,
        Direction::Playback => times.decoding,
    };
    if let Some(long) = long_coding(each, streams, &format, device.period) {
        voice.tell(&in_words(&long, (spec, direction), streams, &format));
    }
}

/// The stream in packets that its coder takes, as who hears it may not know how long they are; `None` where nothing
/// compresses it.
fn coded(format: &StreamFormat) -> Option<StreamFormat> {
    format.coder?;
    let within = (format.ptime(), PTIME_RANGE.1);
    let packet = packet_frames(format.rate, format.coding().shortest(format.shape(), within)?);
    Some(StreamFormat { packet: packet.ok()?, ..*format })
}

/// What packets of a stream take, by a clock; `None` where nothing compresses them.
fn timed(format: &StreamFormat, clock: &mut impl FnMut() -> Span) -> Option<CodingTimes> {
    let mut encoder = encoder(format).ok()??;
    let mut decoder = decoder(format.coder?, format.shape())?;
    let samples = format.channels.samples_in(format.packet);
    let (mut room, mut out) = (vec![0; format.payload_bytes()], vec![0.0; samples]);
    let sound = sound(samples * (FIRST + TIMED));
    let (mut encoding, mut decoding) = (Vec::new(), Vec::new());
    for packet in sound.chunks_exact(samples) {
        let begun = clock();
        let bytes = encoder.encode(packet, &mut room)?;
        let coded = clock();
        decoder.decode(room.get(..bytes)?, &mut out).ok()?;
        let decoded = clock();
        encoding.push(coded - begun);
        decoding.push(decoded - coded);
    }
    Some(CodingTimes { encoding: middle(&encoding)?, decoding: middle(&decoding)? })
}

/// The one in the middle of those that count.
fn middle(all: &[Span]) -> Option<Span> {
    let mut counted = all.get(FIRST..)?.to_vec();
    counted.sort_unstable();
    counted.get(counted.len() / 2).copied()
}

/// What might be a voice: a tone with an overtone and a little noise, loud and soft by turns. Of noise alone a coder without
/// loss makes nothing, and has no work of it.
fn sound(samples: usize) -> Vec<f32> {
    let mut state = 1_u32;
    let sample = |at: usize| {
        // Numerical Recipes, §7.1: a quick generator.
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let noise = state.cast_signed() as f32 / i32::MAX as f32;
        let level = if (at / 4096).is_multiple_of(2) { 0.4 } else { 0.1 };
        let tone = |turns: f32| (at as f32 * turns * core::f32::consts::TAU).sin();
        level * (tone(0.005) + 0.4 * tone(0.0137)) + 0.005 * noise
    };
    (0..samples).map(sample).collect()
}

fn in_words(
    long: &LongCoding,
    (spec, direction): (&DeviceSpec, Direction),
    streams: usize,
    format: &StreamFormat,
) -> String {
    let LongCoding { takes, period, enough } = *long;
    let (does, ptime) = match direction {
        Direction::Capture => ("coding", "a shorter --ptime or another --format"),
        Direction::Playback => {
            ("decoding", "or have the sender use a shorter --ptime or another --format")
        }
    };
    let longer = enough.map(|enough| match spec {
        DeviceSpec::Jack(_) => format!("a period of {enough} frames of the JACK server (jackd -p)"),
        _ => format!("--period {enough}"),
    });
    let mend = match (longer, direction) {
        (Some(longer), _) => format!("use {longer}, {ptime}"),
        (None, Direction::Capture) => format!("use {ptime}"),
        (None, Direction::Playback) => {
            "have the sender use a shorter --ptime or another --format".to_owned()
        }
    };
    let of = match streams {
        0 | 1 => String::new(),
        several => format!(" for {several} streams"),
    };
    format!(
        "{does} packets of {}{of} takes {takes} at a time on this machine, more than half of a period of {period} of {spec}, \
         whose thread does it: expect xruns; {mend}",
        format.coding_name()
    )
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use tautline_proto::stream::Coding;
    use tautline_proto::time::Frames;
    use tautline_proto::units::{Channels, Rate};

    use super::*;

    fn of(coding: Coding, packet: i64) -> StreamFormat {
        let Coding { sample, coder } = coding;
        let payload_type = StreamFormat::usual_payload_type(sample, coder);
        let (rate, channels) = (Rate::HZ_48000, Channels::STEREO);
        StreamFormat { rate, channels, sample, coder, packet: Frames::new(packet), payload_type }
    }

    /// By a clock that goes on by these at each look, over and over.
    fn timed_by(format: &StreamFormat, steps: &[i64]) -> Option<CodingTimes> {
        let (mut steps, mut at) = (steps.iter().cycle(), Span::ZERO);
        timed(format, &mut || {
            at += Span::from_micros(*steps.next().unwrap());
            at
        })
    }

    #[test]
    fn what_coding_takes_is_that_of_the_packet_in_the_middle() {
        let micros = Span::from_micros;
        // What is between two packets, what coding takes and what decoding does.
        let steady = CodingTimes { encoding: micros(300), decoding: micros(80) };
        for coding in Coding::compressed() {
            assert_eq!(timed_by(&of(coding, 960), &[7, 300, 80]), Some(steady), "{coding:?}");
        }
        let [cold, frozen] = [[7, 9_000, 9_000], [7, 36_000, 36_000]];
        let packets = [cold, cold, frozen, [7, 300, 80], frozen, [7, 200, 70], [7, 250, 60]];
        assert_eq!(timed_by(&of(Coding::OPUS, 240), &packets.concat()), Some(steady));
        assert_eq!(timed_by(&of(tautline_dsp::format::SampleFormat::L24.into(), 48), &[1]), None);
    }

    #[test]
    fn who_hears_a_stream_takes_the_shortest_packets_that_it_may_have() {
        let packet =
            |coding, packet| coded(&of(coding, packet)).map(|format| format.packet.count());
        assert_eq!(packet(Coding::OPUS, 48), Some(120));
        assert_eq!(packet(Coding::OPUS, 480), Some(480));
        assert_eq!(packet(Coding::LOSSLESS_24, 48), Some(48));
        assert_eq!(packet(tautline_dsp::format::SampleFormat::L24.into(), 48), None);
    }

    #[test]
    fn it_is_told_in_one_sentence_with_the_mend() {
        let long = LongCoding {
            takes: Span::from_micros(400),
            period: Span::from_micros(500),
            enough: Some(Frames::new(48)),
        };
        let card: DeviceSpec = "alsa:hw:1".parse().unwrap();
        let voice = of(Coding::OPUS_VOICE, 960);
        assert_eq!(
            in_words(&long, (&card, Direction::Capture), 1, &voice),
            "coding packets of opus-voice takes 400us at a time on this machine, more than half of a period of 500us of \
             alsa:hw:1, whose thread does it: expect xruns; use --period 48, a shorter --ptime or another --format"
        );
        let told = in_words(&long, (&"jack:taut".parse().unwrap(), Direction::Playback), 8, &voice);
        snapshot!(told);
        let never = LongCoding { enough: None, ..long };
        let told = in_words(&never, (&card, Direction::Playback), 1, &voice);
        assert!(
            told.ends_with("; have the sender use a shorter --ptime or another --format"),
            "{told}"
        );
    }
}
