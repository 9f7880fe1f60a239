//! Whether a device's thread has the time to code.
//!
//! A packet that is compressed is coded whole in the period that completes it, and decoded whole in the one that plays its
//! first frame, on the thread that the device calls: however many periods a packet holds, one of them has all the work of
//! it. What that takes is measured by whoever has a clock; here is decided whether it is too much.

use crate::stream::StreamFormat;
use crate::time::{Frames, Span};

/// Coding may take a period's time divided by this: the rest is for what else is done in it, and for sound that takes
/// longer, on a core that runs slower, than what was measured.
const PARTS: i64 = 2;

/// Periods that are proposed, the shortest first.
const USUAL_PERIODS: [Span; 7] = [
    Span::from_micros(250),
    Span::from_micros(500),
    Span::from_millis(1),
    Span::from_micros(2_500),
    Span::from_millis(5),
    Span::from_millis(10),
    Span::from_millis(20),
];

/// Coding that takes more than half of a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LongCoding {
    /// What it takes in a period that has to code: of all packets that one period may complete.
    pub takes: Span,
    /// What the period lasts.
    pub period: Span,
    /// A longer period, in frames, in which it takes no more than half; `None` where no usual one is long enough.
    pub enough: Option<Frames>,
}

/// Whether coding takes too much of a period of so many frames, where a packet takes `each` and so many streams of this
/// format are coded on one thread. Their packets may all be complete in the same period.
pub fn long_coding(
    each: Span,
    streams: usize,
    format: &StreamFormat,
    period: Frames,
) -> Option<LongCoding> {
    let streams = i64::try_from(streams).unwrap_or(i64::MAX);
    let takes_in = |period: Frames| {
        // A period that is no multiple of packets completes one more now and then.
        let packets = (period.count().max(1) - 1) / format.packet.count().max(1) + 1;
        Span::from_nanos(each.as_nanos().saturating_mul(packets).saturating_mul(streams))
    };
    let is_long = |period: Frames| {
        takes_in(period).as_nanos().saturating_mul(PARTS) > format.rate.span_of(period).as_nanos()
    };
    let usual = || USUAL_PERIODS.into_iter().map(|usual| format.rate.frames_within(usual));
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

    /// Stereo at 48 kHz in packets of so many frames.
    fn of(packet: i64) -> StreamFormat {
        StreamFormat {
            rate: Rate::HZ_48000,
            channels: Channels::STEREO,
            sample: SampleFormat::L24,
            coder: Some(Codec::OPUS),
            packet: Frames::new(packet),
            payload_type: 100,
        }
    }

    fn long(micros: i64, streams: usize, packet: i64, period: i64) -> Option<LongCoding> {
        long_coding(Span::from_micros(micros), streams, &of(packet), Frames::new(period))
    }

    #[test]
    fn a_packet_of_many_periods_is_coded_in_one_of_them_and_may_take_half_of_it() {
        // 20 ms in periods of 0.5 ms: what it takes on the average is nothing.
        assert_eq!(long(250, 1, 960, 24), None);
        let told = LongCoding {
            takes: Span::from_micros(251),
            period: Span::from_micros(500),
            enough: Some(Frames::new(48)),
        };
        assert_eq!(long(251, 1, 960, 24), Some(told));
    }

    #[test]
    fn a_longer_period_is_proposed_in_which_it_fits_and_none_where_no_usual_one_does() {
        let enough = |micros, packet, period| long(micros, 1, packet, period).unwrap().enough;
        assert_eq!(enough(501, 960, 12), Some(Frames::new(120)));
        assert_eq!(enough(1_250, 960, 12), Some(Frames::new(120)));
        assert_eq!(enough(1_251, 960, 12), Some(Frames::new(240)));
        assert_eq!(enough(10_001, 960, 12), None);
        // Packets of 1 ms that take 0.6 ms each: a period that is longer has as many more of them.
        assert_eq!(enough(600, 48, 48), None);
    }

    #[test]
    fn all_packets_that_a_period_may_complete_are_counted() {
        let takes = |packet, period| long(400, 1, packet, period).map(|long| long.takes);
        assert_eq!(takes(48, 48), None);
        assert_eq!(takes(48, 96), None);
        // Two periods of 36 frames in three complete a packet of 24 frames twice.
        assert_eq!(takes(24, 36), Some(Span::from_micros(800)));
        assert_eq!(takes(24, 24), Some(Span::from_micros(400)));
    }

    #[test]
    fn what_streams_take_on_one_thread_is_added_up() {
        assert_eq!(long(100, 5, 960, 48), None);
        assert_eq!(long(100, 6, 960, 48).unwrap().takes, Span::from_micros(600));
        assert!(long(i64::MAX / 1_000, usize::MAX, 960, 48).is_some(), "however many");
        assert_eq!(long(0, 1, 960, 1), None);
    }
}
