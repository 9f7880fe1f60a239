//! Aligns both ends' media time if packets carry none.

use std::collections::HashMap;

use tautline_report::ledger::SentPacket;

use super::StreamOutcome;

/// Maximum distance, in packets, between the last packets of both ends. A stall may lose this many.
const MAX_APART: i64 = 512;
const ENOUGH: usize = 4096;
/// Minimum transit time in nanoseconds. Errors of timestamps and launch times can make it negative.
const EARLIEST: i64 = -10_000;
const FEW: u64 = 2;

impl StreamOutcome {
    pub(crate) fn sent_at(&self, instant: impl Fn(&SentPacket) -> i64) -> HashMap<u32, i64> {
        self.departures.iter().map(|packet| (packet.timestamp, instant(packet))).collect()
    }

    /// For AVTP: matches both ends' last packets. With one clock, transit times refine this.
    pub(super) fn count_alike(&mut self, one_clock: bool) {
        let (Some(sent), Some(received)) = (self.departures.last(), self.arrivals.last()) else {
            return;
        };
        let by_last = sent.timestamp.wrapping_sub(received.timestamp);
        let apart = if one_clock { self.apart_by_times(by_last) } else { by_last };
        let received = self.arrivals.iter_mut();
        received.for_each(|packet| packet.timestamp = packet.timestamp.wrapping_add(apart));
    }

    /// The right offset near `guess` has the shortest transit times without early arrivals.
    fn apart_by_times(&self, guess: u32) -> u32 {
        let two = self.departures.windows(2);
        let steps = two.map(|two| two[1].timestamp.wrapping_sub(two[0].timestamp));
        let Some(step) = steps.filter(|step| *step > 0).min() else { return guess };
        let left = self.sent_at(|packet| packet.launched);
        let between = |packets: i64| {
            let apart = guess.wrapping_add((packets * i64::from(step)) as u32);
            let (mut both, mut early, mut sum) = (0_u64, 0_u64, 0_u128);
            for packet in self.arrivals.iter().rev().take(ENOUGH) {
                let Some(left) = left.get(&packet.timestamp.wrapping_add(apart)) else { continue };
                let after = packet.arrival.saturating_sub(*left);
                both += 1;
                early += u64::from(after < EARLIEST);
                sum += u128::from(after.unsigned_abs());
            }
            // The first and last packets have no counterpart.
            let mean = sum.checked_div(both.into());
            (early * 100 > both * FEW, mean.unwrap_or(u128::MAX), packets.abs(), apart)
        };
        (-MAX_APART..=MAX_APART).map(between).min().map_or(guess, |(.., apart)| apart)
    }
}

#[cfg(test)]
mod tests {
    use crate::streams::tests::outcome;

    /// 125 µs packets with transit time `way`. `lost` never arrive; `together` leave back to back.
    fn counted_from_elsewhere(
        lost: impl Fn(i64) -> bool,
        (together, way): (i64, i64),
        one_clock: bool,
    ) -> Vec<(u32, u32)> {
        let all: Vec<i64> = (0..2000).filter(|number| lost(*number)).collect();
        let mut outcome = outcome(2000, &all);
        let leaves = |number: i64| (number / together * together) * 125_000;
        for (number, packet) in (0..).zip(&mut outcome.departures) {
            packet.launched = leaves(number);
        }
        let arrived = (0..2000).filter(|number| !lost(*number));
        for (number, packet) in arrived.zip(&mut outcome.arrivals) {
            let frozen = if number % 700 < 100 { (100 - number % 700) * 125_000 } else { 0 };
            packet.arrival = leaves(number) + way + frozen;
            packet.timestamp = packet.timestamp.wrapping_add(123_456);
        }
        outcome.count_alike(one_clock);
        let sent = outcome.departures.iter().map(|packet| packet.timestamp);
        let delivered = (0..).zip(sent).filter(|(number, _)| !lost(*number)).map(|(_, sent)| sent);
        delivered.zip(outcome.arrivals.iter().map(|packet| packet.timestamp)).collect()
    }

    #[test]
    fn media_time_aligns_on_one_clock_despite_lost_last_packets() {
        let lost: [fn(i64) -> bool; 4] = [
            |_| false,
            |number| number == 1999,
            |number| [0, 7, 8, 1998, 1999].contains(&number),
            |number| number >= 1700,
        ];
        for (place, lost) in lost.into_iter().enumerate() {
            for (together, way) in [(1, 20_000), (1, 100_000), (1, 5_000), (40, 20_000)] {
                for (sent, received) in counted_from_elsewhere(lost, (together, way), true) {
                    assert_eq!(sent, received, "{place}: {together} together, {way} ns");
                }
            }
        }
    }

    #[test]
    fn with_two_clocks_the_last_packets_of_both_are_taken_for_one() {
        for (sent, received) in counted_from_elsewhere(|number| number == 7, (1, 20_000), false) {
            assert_eq!(sent, received);
        }
    }
}
