//! Whether a receiver was told when packets were to be launched, for when they arrived: a packet that stays in one network
//! namespace keeps its launch time where its arrival is stamped.

/// What each was rounded by.
const ROUNDED: i64 = 2;
/// Of fewer packets, all alike by chance is thinkable.
pub(super) const LEAST: usize = 100;

/// Whether packets came at just the intervals at which they were to be launched, by the arrival and the launch time of
/// each, in nanoseconds: all but one in ten, as some may have been handed over late.
pub(super) fn are_launch_times(packets: &[(i64, i64)]) -> bool {
    let alike = packets.windows(2).filter(|pair| {
        let (arrived, launched) =
            (pair[1].0.saturating_sub(pair[0].0), pair[1].1.saturating_sub(pair[0].1));
        arrived.saturating_sub(launched).saturating_abs() <= ROUNDED
    });
    packets.len() > LEAST && alike.count() * 10 > packets.len() * 9
}

#[cfg(test)]
mod tests {
    use super::are_launch_times;

    /// Launch times of class A at such a rate, to the nanosecond, and what makes an arrival of each.
    fn at(hertz: i64, arrival: impl Fn(i64, i64) -> i64) -> Vec<(i64, i64)> {
        let launch = |packet| packet * 6 * 1_000_000_000 / hertz;
        (0..1000).map(|packet| (arrival(packet, launch(packet)), launch(packet))).collect()
    }

    #[test]
    fn arrivals_that_are_launch_times_are_known_at_any_rate_and_with_some_that_were_late() {
        for hertz in [44_100, 48_000] {
            assert!(are_launch_times(&at(hertz, |_, launch| launch + 12_345)));
            assert!(are_launch_times(&at(hertz, |packet, launch| launch + packet % 2)), "{hertz}");
            let late = |packet: i64, launch| launch + i64::from(packet % 50 == 7) * 40_000;
            assert!(are_launch_times(&at(hertz, late)), "{hertz}");
        }
    }

    #[test]
    fn a_card_that_launches_to_20_ns_is_measured() {
        // Stamps of eight nanoseconds each.
        let stamped = |packet: i64, launch: i64| (launch + packet * 37 % 61) / 8 * 8;
        for hertz in [44_100, 48_000] {
            assert!(!are_launch_times(&at(hertz, stamped)), "{hertz}");
        }
        assert!(!are_launch_times(&at(48_000, |_, launch| launch)[..100]), "too few to tell");
    }
}
