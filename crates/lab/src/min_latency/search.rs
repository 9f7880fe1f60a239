//! Which latency is tried next, by what came of those before: no clock, no stream.
//!
//! Latencies are counted in steps above the least that is tried. Ever greater ones are tried until one goes,
//! what lies between is halved, and what is left is held. A hold that fails goes on from there in the same
//! way, by holds: what is missed so seldom is not seen in a try.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeastTry {
    pub steps: u32,
    pub held: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeastFinding {
    Whole,
    Missed,
    Frozen {
        /// Whether more was missed than what the freezes overlap.
        besides: bool,
    },
    Void,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeastVerdict {
    Goes,
    Fails,
    /// The host spoilt each try: it is taken for one that does not go, and nobody knows.
    Unknown,
    Again,
    GivesUp,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeastSearch {
    /// All below do not go.
    from: u32,
    good: Option<u32>,
    /// Tried beyond `from`, as long as nothing went.
    jump: u32,
    most: u32,
    holding: bool,
    /// Times that the present one was spoilt by the host, one after the other,
    frozen: u32,
    /// and whether more than its freezes explain was missed each time.
    besides: bool,
    voids: u32,
}

/// So often one is run at which the host stands still.
pub const FROZEN_TRIES: u32 = 3;
/// So often one is run of which nothing can be found out, as in `load`.
const VOID_TRIES: u32 = 2;

impl LeastSearch {
    pub fn new(most: u32) -> Self {
        Self { most, besides: true, ..Self::default() }
    }

    /// What to run next; `None` when it is known, or cannot be.
    pub fn next(&self) -> Option<LeastTry> {
        let steps = match self.good {
            _ if self.gave_up() => return None,
            Some(good) if good <= self.from => return None,
            Some(good) => self.from + (good - self.from) / 2,
            None if self.from > self.most => return None,
            None => self.from.saturating_add(self.jump).min(self.most),
        };
        Some(LeastTry { steps, held: self.holding })
    }

    pub fn tried(&mut self, finding: LeastFinding) -> LeastVerdict {
        let Some(LeastTry { steps, .. }) = self.next() else { return LeastVerdict::GivesUp };
        let verdict = self.verdict(finding);
        match verdict {
            LeastVerdict::Goes => self.good = Some(steps),
            LeastVerdict::Fails | LeastVerdict::Unknown => self.fails(steps),
            LeastVerdict::Again | LeastVerdict::GivesUp => return verdict,
        }
        (self.frozen, self.besides, self.voids) = (0, true, 0);
        if self.good == Some(self.from) && !self.holding {
            (self.holding, self.good, self.jump) = (true, None, 0);
        }
        verdict
    }

    fn verdict(&mut self, finding: LeastFinding) -> LeastVerdict {
        match finding {
            LeastFinding::Whole => LeastVerdict::Goes,
            LeastFinding::Missed => LeastVerdict::Fails,
            LeastFinding::Frozen { besides } => {
                self.frozen += 1;
                self.besides &= besides;
                self.voids = 0;
                match self.frozen < FROZEN_TRIES {
                    true => LeastVerdict::Again,
                    // What the freezes do not overlap was missed each time: it was not they.
                    false if self.besides => LeastVerdict::Fails,
                    false => LeastVerdict::Unknown,
                }
            }
            LeastFinding::Void => {
                self.voids += 1;
                if self.gave_up() { LeastVerdict::GivesUp } else { LeastVerdict::Again }
            }
        }
    }

    fn fails(&mut self, steps: u32) {
        self.from = steps + 1;
        self.jump = self.jump.saturating_mul(2).max(1);
    }

    pub fn gave_up(&self) -> bool {
        self.voids >= VOID_TRIES
    }

    /// The least that went when it was held; `None` as long as that is not known.
    pub fn least(&self) -> Option<u32> {
        self.good.filter(|good| self.holding && *good == self.from)
    }
}
