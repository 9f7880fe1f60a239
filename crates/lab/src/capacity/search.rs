//! Which cost is tried next, by what came of those before: no clock, no worker.
//!
//! As the paper does it, the cost of every block grows by one step until it is too much; what lies between is then
//! halved, and the greatest cost that went is held for long. A hold that misses something goes on below, each time
//! by twice as much: what is missed so seldom is not seen in a short try. From one that goes what lies between is halved
//! once more, by holds: going down in such steps passes by what goes.

use tautline_proto::time::Span;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CapacitySteps {
    pub(super) step: Span,
    /// What is found is known to within this.
    pub(super) fine: Span,
    pub(super) most: Span,
    /// A cost that misses something is tried so often before it counts as one that does not go: what others do on a
    /// machine makes a miss now and then, and too great a cost makes them always.
    pub(super) tries: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CapacityTry {
    pub(super) cost: Span,
    pub(super) held: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CapacityFinding {
    /// As few blocks were missed as may be, but for what the host cost.
    Whole,
    Missed,
    Void,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CapacitySearch {
    steps: CapacitySteps,
    good: Option<Span>,
    bad: Option<Span>,
    phase: SearchPhase,
    /// Times that the present one missed something, one after the other.
    missed: u32,
    voids: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SearchPhase {
    /// One step more each time, until one does not go.
    Climbs,
    /// What lies between is halved.
    Halves,
    /// This is held; if it fails, what is so much below.
    Holds { cost: Span, below: Span, failed: u32 },
    /// This went when it was held, and the least cost that did not was held too: what lies between is held.
    Between { good: Span },
    /// It is over; what went when it was held.
    Ended(Option<Span>),
}

/// Holds that fail before the search ends with what the last one missed.
const HOLDS: u32 = 6;
const VOIDS: u32 = 2;

impl CapacitySearch {
    pub(super) fn new(steps: CapacitySteps) -> Self {
        let least = Span::from_nanos(1);
        let steps =
            CapacitySteps { step: steps.step.max(least), fine: steps.fine.max(least), ..steps };
        Self { steps, good: None, bad: None, phase: SearchPhase::Climbs, missed: 0, voids: 0 }
    }

    /// What to run next; `None` when it is known, or cannot be.
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
            CapacityFinding::Void => {
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
            // Not even what costs nothing.
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
            // The result is of this cost, with what it missed: what was too much lies above it.
            _ => SearchPhase::Ended(None),
        };
    }

    /// Goes on between this and the least that did not go, as long as they are further apart than is asked for.
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

    /// The least cost that did not go; if none went when it was held, the least above the last that was held.
    pub(super) fn bad(&self) -> Option<Span> {
        self.bad
    }
}
