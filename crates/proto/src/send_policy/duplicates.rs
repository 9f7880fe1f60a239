//! Checks that packets arrive via both networks. Receivers count duplicates as received (RFC 3550
//! §6.4.1, A.3).

use crate::wire::rtcp::ReportBlock;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Duplicates {
    since: Option<(u32, i32)>,
    once: bool,
}

impl Duplicates {
    /// Minimum packets for a decision.
    const ENOUGH: u32 = 2000;

    pub(super) fn handle(&mut self, block: &ReportBlock) {
        let (highest, lost) = (block.highest_sequence, block.cumulative_lost);
        let (from, lost_before) = *self.since.get_or_insert((highest, lost));
        let sent = highest.wrapping_sub(from);
        if sent < Self::ENOUGH {
            return;
        }
        self.since = Some((highest, lost));
        // The count saturates at 24 bits and jumps when a receiver restarts.
        let reported = lost > -(1 << 23) && sent < 1 << 20;
        let twice = i64::from(lost_before) - i64::from(lost);
        self.once = reported && twice < i64::from(sent) / 4;
    }

    /// Whether fewer than a quarter of the packets arrived twice.
    pub(super) const fn comes_once(&self) -> bool {
        self.once
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ntp::{CompactNtp, CompactSpan};

    /// `of_hundred` of 100 packets arrive twice.
    fn reported(duplicates: &mut Duplicates, reports: u32, of_hundred: i32, from: (u32, i32)) {
        for report in 0..=reports {
            duplicates.handle(&ReportBlock {
                ssrc: 1,
                fraction_lost: 0,
                cumulative_lost: (from.1 - of_hundred * report as i32).max(-(1 << 23)),
                highest_sequence: from.0.wrapping_add(100 * report),
                jitter: 0,
                last_report: CompactNtp::default(),
                delay: CompactSpan::default(),
            });
        }
    }

    #[test]
    fn single_and_duplicate_delivery_are_distinguished() {
        // All, 10 % or 40 % loss per path, few, none.
        for (of_hundred, once) in [(100, false), (80, false), (40, false), (10, true), (0, true)] {
            let mut duplicates = Duplicates::default();
            reported(&mut duplicates, 19, of_hundred, (u32::MAX - 700, 5));
            assert!(!duplicates.comes_once(), "{of_hundred}: before there is enough");
            reported(&mut duplicates, 45, of_hundred, (u32::MAX - 700, 5));
            assert_eq!(duplicates.comes_once(), once, "{of_hundred}");
        }
    }

    #[test]
    fn count_at_its_maximum_proves_nothing() {
        let mut duplicates = Duplicates::default();
        reported(&mut duplicates, 100, 100, (0, 3000 - (1 << 23)));
        assert!(!duplicates.comes_once());
    }
}
