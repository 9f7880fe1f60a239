//! Chooses the next cost to try from earlier results; no clock, no worker.
//!
//! As in the paper, the cost of every block grows by a step until it is too much. Then the interval
//! is halved, and the greatest cost that passed is held for long. After a failed hold the next cost
//! is lower, with doubled distance each time: a short try does not show such rare misses. After a
//! passed hold the interval is halved again, with holds, as the growing steps may skip costs that
//! pass.

use tautline_proto::time::Span;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CapacitySteps {
    pub(super) step: Span,
    pub(super) fine: Span,
    pub(super) most: Span,
    /// Tries with a miss before a cost fails: other programs cause a miss now and then, too great a
    /// cost always.
    pub(super) tries: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CapacityTry {
    pub(super) cost: Span,
    pub(super) held: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CapacityFinding {
    /// As few blocks missed as allowed, apart from those due to the host.
    Whole,
    Missed,
    InvalidWindow,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CapacitySearch {
    steps: CapacitySteps,
    good: Option<Span>,
    bad: Option<Span>,
    phase: SearchPhase,
    /// Consecutive tries of the current cost with misses.
    missed: u32,
    voids: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SearchPhase {
    /// Grows by one step until a cost fails.
    Climbs,
    /// Halves the interval.
    Halves,
    /// Holds `cost`; on failure, continues `below` lower.
    Holds { cost: Span, below: Span, failed: u32 },
    /// `good` passed its hold, and the lowest failed cost failed its hold: holds costs in between.
    Between { good: Span },
    /// Ended, with the cost that passed its hold.
    Ended(Option<Span>),
}

/// Maximum number of failed holds; the result is then the last one, with its misses.
const HOLDS: u32 = 6;
const VOIDS: u32 = 2;

impl CapacitySearch {
    pub(super) fn new(steps: CapacitySteps) -> Self {
        let least = Span::from_nanos(1);
        let steps =
            CapacitySteps { step: steps.step.max(least), fine: steps.fine.max(least), ..steps };
        Self { steps, good: None, bad: None, phase: SearchPhase::Climbs, missed: 0, voids: 0 }
    }

    /// Next run; `None` when the search has ended.
    pub(super) fn next(&self) -> Option<CapacityTry> {
        let tried = |cost| Some(CapacityTry { cost, held: false });
        match self.phase {
            SearchPhase::Climbs => match self.good {
                None => tried(Span::ZERO),
                Some(good) => tried((good + self.steps.step).min(self.steps.most)),
            },
            SearchPhase::Halves => {
                let (good, bad) = (self.good?, self.bad?);
                tried(good + (bad - good).half())
            }
            SearchPhase::Holds { cost, .. } => Some(CapacityTry { cost, held: true }),
            SearchPhase::Between { good } => {
                Some(CapacityTry { cost: good + (self.bad? - good).half(), held: true })
            }
            SearchPhase::Ended(_) => None,
        }
    }

    pub(super) fn tried(&mut self, finding: CapacityFinding) {
        let Some(CapacityTry { cost, held }) = self.next() else { return };
        match finding {
            CapacityFinding::InvalidWindow => {
                self.voids += 1;
                if self.voids >= VOIDS {
                    self.phase = SearchPhase::Ended(self.held());
                }
                return;
            }
            CapacityFinding::Whole if held => self.hold_went(cost),
            CapacityFinding::Whole => self.goes(cost),
            CapacityFinding::Missed if held => self.hold_failed(cost),
            CapacityFinding::Missed => {
                self.missed += 1;
                if self.missed < self.steps.tries {
                    return;
                }
                self.fails(cost);
            }
        }
        (self.missed, self.voids) = (0, 0);
    }

    fn goes(&mut self, cost: Span) {
        self.good = Some(cost);
        if cost >= self.steps.most {
            self.holds(cost);
        } else {
            self.settle();
        }
    }

    fn fails(&mut self, cost: Span) {
        self.bad = Some(cost);
        if self.good.is_none() {
            self.phase = SearchPhase::Ended(None);
        } else {
            self.settle();
        }
    }

    fn settle(&mut self) {
        let Some((good, bad)) = self.good.zip(self.bad) else { return };
        self.phase = SearchPhase::Halves;
        if bad - good <= self.steps.fine {
            self.holds(good);
        }
    }

    fn holds(&mut self, cost: Span) {
        self.phase = SearchPhase::Holds { cost, below: self.steps.fine, failed: 0 };
    }

    fn hold_went(&mut self, cost: Span) {
        self.phase = match self.phase {
            SearchPhase::Between { .. } | SearchPhase::Holds { failed: 1.., .. } => {
                self.between(cost)
            }
            _ => SearchPhase::Ended(Some(cost)),
        };
    }

    fn hold_failed(&mut self, cost: Span) {
        self.phase = match self.phase {
            SearchPhase::Between { good } => {
                self.bad = Some(cost);
                self.between(good)
            }
            SearchPhase::Holds { below, failed, .. } if failed + 1 < HOLDS && cost > Span::ZERO => {
                self.bad = Some(cost);
                let lower = (cost - below).max(Span::ZERO);
                SearchPhase::Holds { cost: lower, below: below.times(2), failed: failed + 1 }
            }
            // The result is this cost with its misses; the cost that was too much is above it.
            _ => SearchPhase::Ended(None),
        };
    }

    /// Continues between `good` and the lowest failed cost, while they differ by more than the
    /// precision.
    fn between(&self, good: Span) -> SearchPhase {
        match self.bad {
            Some(bad) if bad - good > self.steps.fine => SearchPhase::Between { good },
            _ => SearchPhase::Ended(Some(good)),
        }
    }

    pub(super) fn held(&self) -> Option<Span> {
        match self.phase {
            SearchPhase::Ended(held) => held,
            SearchPhase::Between { good } => Some(good),
            _ => None,
        }
    }

    /// The lowest cost that failed; if no hold passed, the lowest above the last hold.
    pub(super) fn bad(&self) -> Option<Span> {
        self.bad
    }
}
