//! Decides which packets to space. Every path accepts bursts of one full frame; each wake-up costs
//! more than its packet.

use crate::stream::StreamFormat;
use crate::time::{Frames, LocalTime, Span};
use crate::wire::rtp::STAMPED_HEADER_BYTES;

/// Bytes of a full frame: 1500 plus framing.
const FULL_FRAME: usize = 1500 + AROUND_FRAME;
/// Framing bytes: preamble, header, check sequence and gap (IEEE 802.3 §3.1.1, §4.4.2).
const AROUND_FRAME: usize = 8 + 14 + 4 + 12;
/// Bytes of UDP and IPv6 headers.
const AROUND_DATAGRAM: usize = 8 + 40;
/// Maximum span of packets that leave together. Packets of 1 ms still leave separately.
const STEP: Span = Span::from_micros(900);

const fn on_the_wire(datagram: usize) -> usize {
    datagram + AROUND_DATAGRAM + AROUND_FRAME
}

/// Whether to space a period's packets: several that are long, or form a burst.
pub fn is_spaced(format: &StreamFormat, period: Frames) -> bool {
    let packet = format.packet.count().max(1);
    let packets = period.count().div_euclid(packet) + i64::from(period.count() % packet != 0);
    let together = packets.unsigned_abs() as usize
        * on_the_wire(format.payload_bytes() + STAMPED_HEADER_BYTES);
    packets > 1 && (format.ptime() >= STEP || together > FULL_FRAME)
}

/// Packets that leave together, some early.
#[derive(Debug, Clone, Copy)]
pub struct Together {
    until: LocalTime,
    bytes: usize,
}

impl Together {
    /// Starts with one datagram.
    pub const fn begin(due: LocalTime, datagram: usize) -> Self {
        let until = LocalTime::from_nanos(due.as_nanos() + STEP.as_nanos());
        Self { until, bytes: on_the_wire(datagram) }
    }

    /// Adds a datagram if it may leave together with the datagrams so far.
    pub fn takes(&mut self, due: LocalTime, datagram: usize) -> bool {
        let bytes = self.bytes + on_the_wire(datagram);
        let takes = due < self.until && bytes <= FULL_FRAME;
        if takes {
            self.bytes = bytes;
        }
        takes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{Channels, Rate};
    use tautline_dsp::format::SampleFormat;

    fn format(channels: u32, packet: i64) -> StreamFormat {
        let sample = SampleFormat::L24;
        StreamFormat {
            codec: None,
            rate: Rate::HZ_48000,
            channels: Channels::new(channels).unwrap(),
            sample,
            packet: Frames::new(packet),
            payload_type: StreamFormat::default_payload_type(sample),
        }
    }

    #[test]
    fn only_short_packets_of_a_short_period_are_not_spaced() {
        for (channels, packet, period, spaced) in [
            (2, 48, 48, false),
            (2, 48, 256, true),
            (1, 48, 96, true),
            (2, 6, 48, false),
            (2, 6, 256, true),
            (8, 6, 48, true),
            (2, 240, 48, false),
        ] {
            let reported = is_spaced(&format(channels, packet), Frames::new(period));
            assert_eq!(reported, spaced, "{channels} channels, {packet} of {period}");
        }
    }

    #[test]
    fn batched_packets_fit_a_step_and_a_full_frame() {
        let at = |micros: i64| LocalTime::ZERO + Span::from_micros(micros);
        let taken = |bytes: usize, apart: i64| {
            let mut together = Together::begin(at(0), bytes);
            (1..100).take_while(|n| together.takes(at(n * apart), bytes)).count()
        };
        assert_eq!(taken(60, 125), 7, "the next is due a millisecond later");
        assert_eq!(taken(172, 125), 4, "five packets fill a frame");
        assert_eq!(taken(312, 1000), 0);
        assert_eq!(taken(288, 997), 0, "44 frames of 44.1 kHz");
        assert_eq!(taken(1452, 125), 0, "one packet fills a frame");
    }
}
