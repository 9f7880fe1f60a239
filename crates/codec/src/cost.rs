//! Measures the time that coding takes on this machine.

use tautline_proto::coding_time::{LongCoding, long_coding};
use tautline_proto::device::Direction;
use tautline_proto::stream::{PTIME_RANGE, StreamFormat, packet_frames};
use tautline_proto::time::{Frames, Span};

use crate::{decoder, encoder};

/// Untimed packets, which fill the caches.
const FIRST: usize = 2;
/// Timed packets. An odd number has a median.
const TIMED: usize = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CodingTimes {
    encoding: Span,
    decoding: Span,
}

/// Whether coding takes too much of a device's period. Takes as long as coding some packets.
/// `clock` is the time of the calling thread.
pub fn coding_cost(
    format: &StreamFormat,
    direction: Direction,
    streams: usize,
    period: Frames,
    clock: &mut impl FnMut() -> Span,
) -> Option<LongCoding> {
    let format = coded(format)?;
    let times = timed(&format, clock)?;
    let each = match direction {
        Direction::Capture => times.encoding,
        Direction::Playback => times.decoding,
    };
    long_coding(each, streams, &format, period)
}

fn coded(format: &StreamFormat) -> Option<StreamFormat> {
    format.codec?;
    let within = (format.ptime(), PTIME_RANGE.1);
    let packet = packet_frames(format.rate, format.coding().shortest(format.shape(), within)?);
    Some(StreamFormat { packet: packet.ok()?, ..*format })
}

fn timed(format: &StreamFormat, clock: &mut impl FnMut() -> Span) -> Option<CodingTimes> {
    let mut encoder = encoder(format).ok()??;
    let mut decoder = decoder(format.codec?, format.shape())?;
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

fn middle(all: &[Span]) -> Option<Span> {
    let mut counted = all.get(FIRST..)?.to_vec();
    counted.sort_unstable();
    counted.get(counted.len() / 2).copied()
}

/// Noise alone costs the lossless codec no work.
fn sound(samples: usize) -> Vec<f32> {
    let mut state = 1_u32;
    let sample = |at: usize| {
        // Numerical Recipes, §7.1.
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let noise = state.cast_signed() as f32 / i32::MAX as f32;
        let level = if (at / 4096).is_multiple_of(2) { 0.4 } else { 0.1 };
        let tone = |turns: f32| (at as f32 * turns * core::f32::consts::TAU).sin();
        level * (tone(0.005) + 0.4 * tone(0.0137)) + 0.005 * noise
    };
    (0..samples).map(sample).collect()
}

#[cfg(test)]
mod tests {
    use tautline_proto::stream::Coding;
    use tautline_proto::units::{Channels, Rate};

    use super::*;

    fn of(coding: Coding, packet: i64) -> StreamFormat {
        let Coding { sample, codec } = coding;
        let payload_type = StreamFormat::usual_payload_type(sample, codec);
        let (rate, channels) = (Rate::HZ_48000, Channels::STEREO);
        StreamFormat { rate, channels, sample, codec, packet: Frames::new(packet), payload_type }
    }

    fn timed_by(format: &StreamFormat, steps: &[i64]) -> Option<CodingTimes> {
        let (mut steps, mut at) = (steps.iter().cycle(), Span::ZERO);
        timed(format, &mut || {
            at += Span::from_micros(*steps.next().unwrap());
            at
        })
    }

    #[test]
    fn coding_time_is_the_median() {
        let micros = Span::from_micros;
        // Between packets, for encoding, for decoding.
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
    fn short_packets_use_the_codecs_minimum_length() {
        let packet =
            |coding, packet| coded(&of(coding, packet)).map(|format| format.packet.count());
        assert_eq!(packet(Coding::OPUS, 48), Some(120));
        assert_eq!(packet(Coding::OPUS, 480), Some(480));
        assert_eq!(packet(Coding::LOSSLESS_24, 48), Some(48));
        assert_eq!(packet(tautline_dsp::format::SampleFormat::L24.into(), 48), None);
    }
}
