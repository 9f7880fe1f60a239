//! One count of media time for both ends of a stream whose packets carry none.

use std::collections::HashMap;

use super::StreamOutcome;

/// So many packets may both ends' last ones be apart: what was lost at the end, and what a queue still held.
const MOST_APART: i64 = 64;
/// So many packets say well enough how far.
const ENOUGH: usize = 4096;

impl StreamOutcome {
    /// AVTP carries no media time, and each end counts from another: from here on both do as the sender. The last
    /// packets of both are taken for one, unless one clock says better: then each came a little after it left.
    pub(super) fn count_alike(&mut self, one_clock: bool) {
        let (Some(sent), Some(heard)) = (self.departures.last(), self.arrivals.last()) else {
            return;
        };
        let by_last = sent.timestamp.wrapping_sub(heard.timestamp);
        let apart = if one_clock { self.apart_by_times(by_last) } else { by_last };
        let heard = self.arrivals.iter_mut();
        heard.for_each(|packet| packet.timestamp = packet.timestamp.wrapping_add(apart));
    }

    /// How far the counts are apart by when packets left and came, about `guess`: those are a packet's of which the
    /// sum of all times between is least. Were each taken for its neighbour, all but the late ones would be off by the
    /// time between two, and where a period leaves at once the first of it by a whole one.
    fn apart_by_times(&self, guess: u32) -> u32 {
        let sent =
            self.departures.windows(2).map(|two| two[1].timestamp.wrapping_sub(two[0].timestamp));
        let Some(step) = sent.filter(|step| *step > 0).min() else { return guess };
        let left: HashMap<u32, i64> =
            self.departures.iter().map(|packet| (packet.timestamp, packet.launched)).collect();
        let between = |packets: i64| {
            let apart = guess.wrapping_add((packets * i64::from(step)) as u32);
            let mut both = (0_u32, 0_u128);
            for packet in self.arrivals.iter().rev().take(ENOUGH) {
                let Some(left) = left.get(&packet.timestamp.wrapping_add(apart)) else { continue };
                both.0 += 1;
                both.1 += u128::from(packet.arrival.abs_diff(*left));
            }
            // Of those that both ends have, as the first and the last have no neighbour.
            let mean = both.1.checked_div(both.0.into());
            (mean.unwrap_or(u128::MAX), packets.abs(), apart)
        };
        (-MOST_APART..=MOST_APART).map(between).min().map_or(guess, |(_, _, apart)| apart)
    }
}

#[cfg(test)]
mod tests {
    use crate::streams::tests::outcome;

    /// Packets of 1 ms that arrive 0.1 ms after they left, counted from elsewhere by their receiver, of which `lost`
    /// never come; `together` leave at once.
    fn counted_from_elsewhere(lost: &[i64], together: i64, one_clock: bool) -> Vec<(u32, u32)> {
        let mut outcome = outcome(500, lost);
        let leaves = |number: i64| (number / together * together) * 1_000_000;
        for (number, packet) in (0..).zip(&mut outcome.departures) {
            packet.launched = leaves(number);
        }
        let arrived = (0..500).filter(|number| !lost.contains(number));
        for (number, packet) in arrived.zip(&mut outcome.arrivals) {
            packet.arrival = leaves(number) + 100_000;
            packet.timestamp = packet.timestamp.wrapping_add(123_456);
        }
        outcome.count_alike(one_clock);
        let sent = outcome.departures.iter().map(|packet| packet.timestamp);
        let came =
            (0..).zip(sent).filter(|(number, _)| !lost.contains(number)).map(|(_, sent)| sent);
        came.zip(outcome.arrivals.iter().map(|packet| packet.timestamp)).collect()
    }

    #[test]
    fn both_ends_count_alike_though_the_last_packets_were_lost_where_they_have_one_clock() {
        for together in [1, 40] {
            for lost in
                [&[][..], &[499], &[0, 7, 8, 498, 499], &[480, 490, 495, 496, 497, 498, 499]]
            {
                for (sent, heard) in counted_from_elsewhere(lost, together, true) {
                    assert_eq!(sent, heard, "{lost:?} of {together} at once");
                }
            }
        }
    }

    #[test]
    fn with_two_clocks_the_last_packets_of_both_are_taken_for_one() {
        for (sent, heard) in counted_from_elsewhere(&[7], 1, false) {
            assert_eq!(sent, heard);
        }
    }
}
