//! Presence of a receiver: lost if it stops reporting without a goodbye.

use crate::time::{LocalTime, Span};

tautline_dsp::named_enum! {
    /// Presence of a receiver.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Presence {
        /// The receiver reports.
        Here = "connected",
        /// Stopped reporting without a goodbye.
        Lost = "lost",
        /// Said goodbye or is no longer a destination.
        Left = "left",
    }
}

/// Present and lost receivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReceiverCounts {
    /// Receivers that report.
    pub here: usize,
    /// Receivers that are lost.
    pub lost: usize,
}

/// Minimum timeout.
const TIMEOUT: Span = Span::from_secs(3);
/// Timeout in report intervals (RFC 3550 §6.3.5).
const INTERVALS: i64 = 5;
/// Assumed interval after one report (RFC 3550 §6.2).
const UNKNOWN_INTERVAL: Span = Span::from_secs(5);
/// Time within which datagrams are one report.
const ONE_REPORT: Span = Span::from_millis(10);
/// For this time after a goodbye, the goodbye may have overtaken a report.
const OVERTAKEN: Span = Span::from_secs(1);
/// Gaps between reports that are kept. Their median ignores a single outage.
const GAPS: usize = 8;

#[derive(Debug, Clone, Copy)]
pub(super) struct ReportWatch {
    presence: Presence,
    last: LocalTime,
    gaps: [Span; GAPS],
    known: usize,
    times_lost: u32,
}

impl ReportWatch {
    pub(super) const fn new(now: LocalTime) -> Self {
        let gaps = [Span::ZERO; GAPS];
        Self { presence: Presence::Here, last: now, gaps, known: 0, times_lost: 0 }
    }

    pub(super) const fn presence(&self) -> Presence {
        self.presence
    }

    pub(super) const fn times_lost(&self) -> u32 {
        self.times_lost
    }

    pub(super) fn silence(&self, now: LocalTime) -> Span {
        now - self.last
    }

    /// Returns whether the receiver was lost.
    pub(super) fn report(&mut self, now: LocalTime) -> bool {
        let gap = now - self.last;
        match self.presence {
            Presence::Left if gap < OVERTAKEN => return false,
            Presence::Here if gap >= ONE_REPORT => {
                self.gaps[self.known % GAPS] = gap;
                self.known += 1;
            }
            _ => {}
        }
        self.last = now;
        core::mem::replace(&mut self.presence, Presence::Here) == Presence::Lost
    }

    pub(super) const fn leave(&mut self, now: LocalTime) {
        (self.presence, self.last) = (Presence::Left, now);
    }

    pub(super) const fn end(&mut self) {
        self.presence = Presence::Left;
    }

    /// Returns `true` once, when the timeout has passed.
    pub(super) fn is_newly_lost(&mut self, now: LocalTime) -> bool {
        let lost = self.presence == Presence::Here && self.silence(now) >= self.timeout();
        if lost {
            self.presence = Presence::Lost;
            self.times_lost = self.times_lost.saturating_add(1);
        }
        lost
    }

    fn timeout(&self) -> Span {
        let mut gaps = self.gaps;
        let gaps = &mut gaps[..self.known.min(GAPS)];
        gaps.sort_unstable();
        let interval = gaps.get(gaps.len() / 2).copied().unwrap_or(UNKNOWN_INTERVAL);
        interval.times(INTERVALS).max(TIMEOUT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> LocalTime {
        LocalTime::ZERO + Span::from_millis(millis)
    }

    /// Time at which the receiver is lost, in milliseconds.
    fn lost_at(reports: &[i64]) -> i64 {
        let mut watch = ReportWatch::new(at(reports[0]));
        for report in &reports[1..] {
            assert!(!watch.is_newly_lost(at(*report)), "{report} of {reports:?}");
            assert!(!watch.report(at(*report)));
        }
        let last = reports[reports.len() - 1];
        let lost = (last..last + 60_000).find(|now| watch.is_newly_lost(at(*now)));
        lost.unwrap() - last
    }

    #[test]
    fn receiver_is_lost_after_3_s_or_five_intervals() {
        let every = |interval: i64| (0..20).map(|n| n * interval).collect::<Vec<_>>();
        for (interval, lost) in [(20, 3000), (450, 3000), (600, 3000), (1000, 5000), (5000, 25_000)]
        {
            assert_eq!(lost_at(&every(interval)), lost, "{interval} ms");
        }
        // One report shows no interval.
        assert_eq!(lost_at(&[0]), 25_000);
        let pairs: Vec<i64> = (0..20).map(|n| n / 2 * 4000 + n % 2).collect();
        assert_eq!(lost_at(&pairs), 19_995);
    }

    #[test]
    fn outage_does_not_change_the_interval() {
        let reports: Vec<i64> = (0..10).map(|n| n * 450 + if n > 7 { 2500 } else { 0 }).collect();
        assert_eq!(lost_at(&reports), 3000);
        let slow: Vec<i64> =
            (0..30).map(|n| n * 20).chain([2000, 4500, 7000, 9500, 12_000]).collect();
        assert_eq!(lost_at(&slow), 12_500);
    }

    #[test]
    fn lost_receiver_is_back_with_its_next_report() {
        let mut watch = ReportWatch::new(at(0));
        assert!(!watch.report(at(400)));
        assert!(watch.is_newly_lost(at(3400)) && !watch.is_newly_lost(at(3500)));
        assert_eq!((watch.presence(), watch.times_lost()), (Presence::Lost, 1));
        assert!(watch.report(at(60_000)) && !watch.report(at(60_400)));
        assert_eq!(watch.presence(), Presence::Here);
        assert!(watch.is_newly_lost(at(63_400)));
        assert_eq!(watch.times_lost(), 2);
    }

    #[test]
    fn receiver_after_a_goodbye_is_never_lost() {
        let mut watch = ReportWatch::new(at(0));
        watch.report(at(400));
        watch.leave(at(500));
        assert!(!watch.report(at(501)), "a report that the goodbye overtook");
        assert!(!watch.is_newly_lost(at(600_000)));
        assert_eq!(watch.presence(), Presence::Left);
        assert!(!watch.report(at(601_000)));
        assert_eq!(watch.presence(), Presence::Here);
    }
}
