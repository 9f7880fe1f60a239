//! Notes on packets that stop, on heavy loss, and on packets that are mostly late.

use super::ReceiveNote;
use super::recent::Recent;
use crate::counters::Counters;
use crate::redundancy::LastingLoss;
use crate::redundancy::sizing::Tally;
use crate::time::{LocalTime, Span};

/// Window of late packets, and the minimum of received ones.
const WINDOW: Span = Span::from_secs(3);
const PACKETS: u64 = 50;

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
}

impl Interruptions {
    pub(super) const fn new() -> Self {
        Self {
            stopped: None,
            heavy_loss: LastingLoss::HEAVY,
            audible_loss: LastingLoss::AUDIBLE,
            punctuality: None,
            mostly_late: false,
        }
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
