//! Notes on packets that stop, on heavy loss, on packets that are mostly late, and on rates too far
//! apart.

use super::ReceiveNote;
use super::recent::Recent;
use crate::counters::Counters;
use crate::redundancy::LastingLoss;
use crate::redundancy::sizing::Tally;
use crate::time::{LocalTime, Span};

/// Window of late packets, and the minimum number of packets received in it.
const WINDOW: Span = Span::from_secs(3);
const PACKETS: u64 = 50;
/// Minimum time with rates too far apart. A shorter time may be due to an outage: for seconds after
/// it, the clock mapping moves faster than any card drifts.
const CERTAIN: Span = Span::from_secs(5);

#[derive(Debug, Clone)]
pub(super) struct Interruptions {
    /// Last packet before a reported silence.
    stopped: Option<LocalTime>,
    heavy_loss: LastingLoss,
    audible_loss: LastingLoss,
    /// Received and late packets at the begin of a window.
    punctuality: Option<(LocalTime, [u64; 2])>,
    /// Whether most packets of the last window were late.
    mostly_late: bool,
    /// Since when packets arrive and the rates are too far apart.
    out_of_reach: Option<LocalTime>,
}

impl Interruptions {
    pub(super) const fn new() -> Self {
        Self {
            stopped: None,
            heavy_loss: LastingLoss::HEAVY,
            audible_loss: LastingLoss::AUDIBLE,
            punctuality: None,
            mostly_late: false,
            out_of_reach: None,
        }
    }

    /// Returns whether the drift is certainly too large to follow.
    pub(super) fn drift(&mut self, recent: &Recent, out_of_reach: bool, now: LocalTime) -> bool {
        let judged = out_of_reach && recent.silent().is_none();
        self.out_of_reach = judged.then(|| self.out_of_reach.unwrap_or(now));
        self.out_of_reach.is_some_and(|since| now - since >= CERTAIN)
    }

    /// `left`: the sender said goodbye.
    pub(super) fn silence(
        &mut self,
        recent: &Recent,
        left: bool,
        now: LocalTime,
    ) -> Option<ReceiveNote> {
        let last = recent.last();
        match self.stopped {
            None if recent.is_gone(now) && !left => {
                self.stopped = Some(last);
                Some(ReceiveNote::Stopped)
            }
            Some(since) if last > since => {
                self.stopped = None;
                Some(ReceiveNote::Resumed(last - since))
            }
            _ => None,
        }
    }

    pub(super) fn loss(&mut self, tally: Tally, now: LocalTime) -> Option<ReceiveNote> {
        let audible = self.audible_loss.follow(tally, now).map(ReceiveNote::Loss);
        self.heavy_loss.follow(tally, now).map(ReceiveNote::HeavyLoss).or(audible)
    }

    /// Returns the percentage of late packets, once until fewer than half are late.
    pub(super) fn late(&mut self, counters: &Counters, now: LocalTime) -> Option<u8> {
        let totals = [counters.received, counters.late];
        let (since, before) = *self.punctuality.get_or_insert((now, totals));
        if now - since < WINDOW {
            return None;
        }
        self.punctuality = Some((now, totals));
        let [received, late] = [0, 1].map(|at: usize| totals[at].saturating_sub(before[at]));
        let mostly_late = received >= PACKETS && late * 2 > received;
        let noted = core::mem::replace(&mut self.mostly_late, mostly_late);
        (mostly_late && !noted).then(|| (late.min(received) * 100 / received) as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drift_during_and_after_an_outage_is_not_judged() {
        let at = |millis| LocalTime::ZERO + Span::from_millis(millis);
        // The second at which the drift is first certain. No packets arrive from 5 s until `back`.
        let certain = |back: i64, until: i64| {
            let (mut interruptions, mut recent) = (Interruptions::new(), Recent::NONE);
            let mut received = 0;
            let judged = (0..40_000).step_by(20).find(|millis| {
                received += u64::from(!(5_000..back).contains(millis));
                recent.look(received, at(*millis));
                interruptions.drift(&recent, (2_000..until).contains(millis), at(*millis))
            });
            judged.map(|millis| millis / 1_000)
        };
        assert_eq!(certain(5_000, 40_000), Some(7), "no outage");
        assert_eq!(certain(20_000, 25_000), None, "found again");
        assert_eq!(certain(20_000, 40_000), Some(25));
    }
}
