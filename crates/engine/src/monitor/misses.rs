//! Missed packets of a received stream, by time.

use tautline_proto::device::CaptureFaults;
use tautline_proto::jitter_buffer::StreamStatus;
use tautline_proto::time::{LocalTime, Span};
use tautline_report::Misses;

/// Maximum entries. Later misses are only counted.
const MAX: usize = 1000;
/// Maximum time from the first miss of an entry to its last.
const ENTRY: Span = Span::from_secs(1);

/// Counts misses, each in packets of the length at that time.
#[derive(Debug, Default)]
pub(crate) struct MissTimes {
    pub(crate) kept: Vec<Misses>,
    counted: u64,
    skipped: Packets,
    replaced: Packets,
}

impl MissTimes {
    pub(crate) fn take(&mut self, status: &StreamStatus, device: CaptureFaults) {
        let StreamStatus { at, counters, format, .. } = status;
        self.skipped.reach(counters.skipped_frames, format.packet.as_len() as u64);
        let [replaced, ptime] = [device.replaced, format.ptime()].map(Span::as_nanos);
        self.replaced.reach(replaced.max(0).unsigned_abs(), ptime.unsigned_abs());
        let unplayed = counters.missed() + counters.undecodable + counters.too_early;
        self.add(*at, unplayed + self.not_sent());
    }

    /// Packets for the frames that the sender's card did not deliver.
    pub(crate) const fn not_sent(&self) -> u64 {
        self.skipped.whole + (self.skipped.rest > 0) as u64 + self.replaced.whole
    }

    fn add(&mut self, at: LocalTime, total: u64) {
        let more = total.saturating_sub(self.counted);
        if more == 0 {
            return;
        }
        self.counted = total;
        let at_ns = at.as_nanos();
        let until = |entry: &Misses| entry.at_ns.saturating_add(ENTRY.as_nanos());
        if let Some(last) = self.kept.last_mut().filter(|last| at_ns < until(last)) {
            last.count += more;
        } else if self.kept.len() < MAX {
            self.kept.push(Misses { at_ns, count: more });
        }
    }
}

/// An increasing amount, in packets whose length can change.
#[derive(Debug, Default)]
struct Packets {
    seen: u64,
    rest: u64,
    whole: u64,
}

impl Packets {
    fn reach(&mut self, total: u64, packet: u64) {
        let packet = packet.max(1);
        self.rest += total.saturating_sub(self.seen);
        self.seen = self.seen.max(total);
        self.whole += self.rest / packet;
        self.rest %= packet;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> LocalTime {
        LocalTime::ZERO + Span::from_millis(millis)
    }

    #[test]
    fn misses_of_a_second_are_one_entry() {
        let mut misses = MissTimes::default();
        for (millis, total) in [(0, 0), (1_500, 2), (1_600, 2), (2_499, 5), (2_500, 6), (9_000, 7)]
        {
            misses.add(at(millis), total);
        }
        let kept: Vec<_> = misses.kept.iter().map(|it| (it.at_ns / 1_000_000, it.count)).collect();
        assert_eq!(kept, [(1_500, 5), (2_500, 1), (9_000, 1)]);
    }

    #[test]
    fn endless_misses_take_no_more_memory() {
        let mut misses = MissTimes::default();
        (0..2 * MAX as i64).for_each(|second| misses.add(at(1_000 * second), second as u64 + 1));
        assert_eq!((misses.kept.len(), misses.counted), (MAX, 2 * MAX as u64));
    }

    #[test]
    fn packets_never_sent_keep_the_length_of_their_time() {
        let mut packets = Packets::default();
        packets.reach(50, 48);
        assert_eq!((packets.whole, packets.rest), (1, 2));
        // 2 + 478 frames are two packets of 240.
        packets.reach(528, 240);
        assert_eq!((packets.whole, packets.rest), (3, 0));
        packets.reach(528, 960);
        assert_eq!((packets.whole, packets.rest), (3, 0));
    }
}
