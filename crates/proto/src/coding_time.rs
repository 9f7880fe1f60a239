//! Checks whether a device thread has time for its codec. All work on a packet falls in one period.

use crate::stream::StreamFormat;
use crate::time::{Frames, Span};

/// Divisor of the period that gives the time for coding. The rest is for other work and slower
/// cores.
const PARTS: i64 = 2;

/// Proposed periods, ascending.
const DEFAULT_PERIODS: [Span; 7] = [
    Span::from_micros(250),
    Span::from_micros(500),
    Span::from_millis(1),
    Span::from_micros(2_500),
    Span::from_millis(5),
    Span::from_millis(10),
    Span::from_millis(20),
];

/// Coding longer than half a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LongCoding {
    /// Coding time in the worst period.
    pub takes: Span,
    /// Duration of the period.
    pub period: Span,
    /// Sufficient period in frames; `None` if no usual period is sufficient.
    pub enough: Option<Frames>,
}

/// Checks one thread whose `streams` streams may all complete a packet in one period; each takes
/// `each`.
pub fn long_coding(
    each: Span,
    streams: usize,
    format: &StreamFormat,
    period: Frames,
) -> Option<LongCoding> {
    let streams = i64::try_from(streams).unwrap_or(i64::MAX);
    let takes_in = |period: Frames| {
        // Periods that are not multiples of packets may complete one more packet.
        let packets = (period.count().max(1) - 1) / format.packet.count().max(1) + 1;
        Span::from_nanos(each.as_nanos().saturating_mul(packets).saturating_mul(streams))
    };
    let is_long = |period: Frames| {
        takes_in(period).as_nanos().saturating_mul(PARTS) > format.rate.span_of(period).as_nanos()
    };
    let usual = || DEFAULT_PERIODS.into_iter().map(|usual| format.rate.frames_within(usual));
    is_long(period).then(|| LongCoding {
        takes: takes_in(period),
        period: format.rate.span_of(period),
        enough: usual().find(|usual| *usual > period && !is_long(*usual)),
    })
}

#[cfg(test)]
mod tests {
    use tautline_dsp::format::SampleFormat;

    use super::*;
    use crate::codec::Codec;
    use crate::units::{Channels, Rate};

    fn of(packet: i64) -> StreamFormat {
        StreamFormat {
            rate: Rate::HZ_48000,
            channels: Channels::STEREO,
            sample: SampleFormat::L24,
            codec: Some(Codec::OPUS),
            packet: Frames::new(packet),
            payload_type: 100,
        }
    }

    fn long(micros: i64, streams: usize, packet: i64, period: i64) -> Option<LongCoding> {
        long_coding(Span::from_micros(micros), streams, &of(packet), Frames::new(period))
    }

    #[test]
    fn packet_of_many_periods_may_take_half_of_one_period() {
        // 20 ms in 0.5 ms: negligible on average.
        assert_eq!(long(250, 1, 960, 24), None);
        let reported = LongCoding {
            takes: Span::from_micros(251),
            period: Span::from_micros(500),
            enough: Some(Frames::new(48)),
        };
        assert_eq!(long(251, 1, 960, 24), Some(reported));
    }

    #[test]
    fn sufficient_longer_period_is_proposed_if_there_is_one() {
        let enough = |micros, packet, period| long(micros, 1, packet, period).unwrap().enough;
        assert_eq!(enough(501, 960, 12), Some(Frames::new(120)));
        assert_eq!(enough(1_250, 960, 12), Some(Frames::new(120)));
        assert_eq!(enough(1_251, 960, 12), Some(Frames::new(240)));
        assert_eq!(enough(10_001, 960, 12), None);
        assert_eq!(enough(600, 48, 48), None);
    }

    #[test]
    fn all_packets_that_a_period_may_complete_are_counted() {
        let takes = |packet, period| long(400, 1, packet, period).map(|long| long.takes);
        assert_eq!(takes(48, 48), None);
        assert_eq!(takes(48, 96), None);
        // 36-frame periods may complete two 24-frame packets.
        assert_eq!(takes(24, 36), Some(Span::from_micros(800)));
        assert_eq!(takes(24, 24), Some(Span::from_micros(400)));
    }

    #[test]
    fn coding_times_on_one_thread_are_summed() {
        assert_eq!(long(100, 5, 960, 48), None);
        assert_eq!(long(100, 6, 960, 48).unwrap().takes, Span::from_micros(600));
        assert!(long(i64::MAX / 1_000, usize::MAX, 960, 48).is_some(), "however many");
        assert_eq!(long(0, 1, 960, 1), None);
    }
}
