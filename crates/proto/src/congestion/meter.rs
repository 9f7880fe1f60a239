//! Measures a path's queueing delay at the receiver.

use super::PathFeedback;
use crate::time::{LocalTime, Span};

/// Maximum feedback interval: NADA's DELTA (RFC 8698 §4.2).
const EVERY: Span = Span::from_millis(100);
/// Minimum interval and packets between feedback.
const MIN: Span = Span::from_millis(40);
const PACKETS: u32 = 8;

pub(super) fn interval(ptime: Span) -> Span {
    ptime.times(PACKETS.into()).clamp(MIN, EVERY)
}
/// Period of the minimum transit time: clocks 50 ppm apart drift by 0.5 ms in two.
const BASE: Span = Span::from_secs(5);
/// Newest packets whose minimum is the queueing delay. A queue delays all packets, jitter does not.
const NEWEST: usize = 3;

/// Measures one stream, on the device thread.
#[derive(Debug, Clone)]
pub struct TransitMeter {
    /// Minimum transit times of this and the previous period.
    minimum: [i64; 2],
    began: LocalTime,
    newest: [i64; NEWEST],
    packets: u32,
    octets: u32,
    unreported: u32,
    made: Option<LocalTime>,
    feedback: Option<PathFeedback>,
}

impl Default for TransitMeter {
    fn default() -> Self {
        Self {
            minimum: [i64::MAX; 2],
            began: LocalTime::ZERO,
            newest: [i64::MAX; NEWEST],
            packets: 0,
            octets: 0,
            unreported: 0,
            made: None,
            feedback: None,
        }
    }
}

impl TransitMeter {
    /// Adds a packet of `ssrc`. `transit_ns` is arrival minus departure, on any two clocks without
    /// steps. `highest` is the extended highest sequence number.
    pub fn observe(
        &mut self,
        (ssrc, highest): (u32, u32),
        octets: usize,
        transit_ns: i64,
        arrival: LocalTime,
    ) {
        self.packets = self.packets.wrapping_add(1);
        self.octets = self.octets.wrapping_add(octets as u32);
        if self.made.is_none() || arrival - self.began >= BASE {
            self.minimum = [i64::MAX, self.minimum[0]];
            self.began = arrival;
        }
        self.minimum[0] = self.minimum[0].min(transit_ns);
        self.newest.rotate_right(1);
        self.newest[0] = transit_ns;
        let made = *self.made.get_or_insert(arrival);
        self.unreported += 1;
        let enough = self.unreported >= PACKETS && arrival - made >= MIN;
        if arrival - made < EVERY && !enough {
            return;
        }
        self.made = Some(arrival);
        self.unreported = 0;
        let [now, before] = self.minimum;
        let waited = self.newest.into_iter().min().unwrap_or(0).saturating_sub(now.min(before));
        self.feedback = Some(PathFeedback {
            ssrc,
            at_us: (arrival.as_nanos() / 1000) as u32,
            packets: self.packets,
            octets: self.octets,
            highest,
            queue: Span::from_nanos(waited.max(0)),
        });
    }

    /// Newest feedback.
    pub const fn feedback(&self) -> Option<PathFeedback> {
        self.feedback
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    fn at(ms: i64) -> LocalTime {
        LocalTime::from_nanos(ms * MS)
    }

    #[test]
    fn queue_is_the_excess_over_the_recent_minimum_transit() {
        let mut meter = TransitMeter::default();
        let mut queue_after = |from: i64, to: i64, transit: i64| {
            for ms in (from..to).step_by(20) {
                meter.observe((7, ms as u32), 100, transit, at(ms));
            }
            meter.feedback().map(|feedback| feedback.queue)
        };
        assert_eq!(queue_after(0, 80, 30 * MS), None, "not yet due");
        assert_eq!(queue_after(80, 1_000, 30 * MS), Some(Span::ZERO));
        assert_eq!(queue_after(1_000, 2_000, 75 * MS), Some(Span::from_millis(45)));
        assert_eq!(queue_after(2_000, 14_000, 75 * MS), Some(Span::ZERO), "the path became longer");
        assert_eq!(queue_after(14_000, 14_500, 10 * MS), Some(Span::ZERO));
        assert_eq!(queue_after(14_500, 15_000, 30 * MS), Some(Span::from_millis(20)));
    }

    #[test]
    fn jitter_of_single_packets_is_no_queue() {
        let mut meter = TransitMeter::default();
        for packet in 0..500 {
            let transit = if packet % 3 == 0 { 30 * MS } else { 70 * MS };
            meter.observe((7, packet), 100, transit, at(20 * i64::from(packet)));
            assert!(meter.feedback().is_none_or(|feedback| feedback.queue == Span::ZERO));
        }
        let last = meter.feedback().unwrap();
        assert_eq!(
            (last.ssrc, last.octets, last.highest),
            (7, last.packets * 100, last.packets - 1)
        );
    }
}
