//! Chooses the next cost to try; no clock, no worker.
//!
//! As in the paper, the cost grows in steps until it fails, is bisected, and then held. A failed
//! hold lowers it by a doubling amount: short tries miss rare misses. After a passed hold, holds
//! bisect again.

use tautline_proto::time::Span;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CapacitySteps {
    pub(super) step: Span,
    pub(super) fine: Span,
    pub(super) maximum: Span,
    /// Tries with a miss before a cost fails: other programs cause occasional misses.
    pub(super) tries: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CapacityTry {
    pub(super) cost: Span,
    pub(super) held: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CapacityFinding {
    /// Misses within the limit, without the host's misses.
    Whole,
    Missed,
    Invalid,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CapacitySearch {
    steps: CapacitySteps,
    good: Option<Span>,
    bad: Option<Span>,
    phase: SearchPhase,
    missed: u32,
    invalid_rows: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SearchPhase {
    /// The cost grows by a step until it fails.
    Climbs,
    /// Halves the interval.
    Halves,
    /// Holds `cost`. After a failed hold, the next cost is lower by `below`.
    Holds { cost: Span, below: Span, failed: u32 },
    /// Holds costs between `good` and the lowest failed cost.
    Between { good: Span },
    /// Over, with the cost that passed its hold.
    Ended(Option<Span>),
}

/// Maximum failed holds. The last hold is the result, with its misses.
const HOLDS: u32 = 6;
const VOIDS: u32 = 2;

impl CapacitySearch {
    pub(super) fn new(steps: CapacitySteps) -> Self {
        let minimum = Span::from_nanos(1);
        let steps =
            CapacitySteps { step: steps.step.max(minimum), fine: steps.fine.max(minimum), ..steps };
        Self {
            steps,
            good: None,
            bad: None,
            phase: SearchPhase::Climbs,
            missed: 0,
            invalid_rows: 0,
        }
    }

    pub(super) fn next(&self) -> Option<CapacityTry> {
        let tried = |cost| Some(CapacityTry { cost, held: false });
        match self.phase {
            SearchPhase::Climbs => match self.good {
                None => tried(Span::ZERO),
                Some(good) => tried((good + self.steps.step).min(self.steps.maximum)),
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
            CapacityFinding::Invalid => {
                self.invalid_rows += 1;
                if self.invalid_rows >= VOIDS {
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
        (self.missed, self.invalid_rows) = (0, 0);
    }

    fn goes(&mut self, cost: Span) {
        self.good = Some(cost);
        if cost >= self.steps.maximum {
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
            // The result has misses.
            _ => SearchPhase::Ended(None),
        };
    }

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

    /// The lowest failed cost; without a passed hold, the lowest above the last hold.
    pub(super) fn bad(&self) -> Option<Span> {
        self.bad
    }
}
