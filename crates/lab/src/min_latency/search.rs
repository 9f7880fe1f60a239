//! Chooses the next latency to try; no clock, no stream.
//!
//! Steps above the first latency grow until one passes, then are bisected and held. After a failed
//! hold the search continues upwards: short tries miss rare misses.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatencyTry {
    pub steps: u32,
    pub held: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchResult {
    Whole,
    Missed,
    /// Only device xruns, which no latency prevents.
    Xruns,
    Frozen {
        /// More packets were missed than stalls explain.
        besides: bool,
    },
    Invalid,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TryVerdict {
    Goes,
    Fails,
    /// Stalls spoilt each try: the latency counts as failed.
    Unknown,
    Again,
    GivesUp,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LatencySearch {
    /// All lower latencies fail.
    from: u32,
    good: Option<u32>,
    jump: u32,
    max_latency: u32,
    holding: bool,
    /// Consecutive tries spoilt by stalls.
    frozen: u32,
    besides: bool,
    invalid_rows: u32,
    /// Tries at this latency that only xruns spoilt.
    xruns: u32,
}

pub const FROZEN_TRIES: u32 = 3;
const VOID_TRIES: u32 = 2;
pub const XRUN_TRIES: u32 = 3;

impl LatencySearch {
    pub fn new(max_latency: u32) -> Self {
        Self { max_latency, besides: true, ..Self::default() }
    }

    pub fn next(&self) -> Option<LatencyTry> {
        let steps = match self.good {
            _ if self.gave_up() => return None,
            Some(good) if good <= self.from => return None,
            Some(good) => self.from + (good - self.from) / 2,
            None if self.from > self.max_latency => return None,
            None => self.from.saturating_add(self.jump).min(self.max_latency),
        };
        Some(LatencyTry { steps, held: self.holding })
    }

    pub fn tried(&mut self, finding: SearchResult) -> TryVerdict {
        let Some(LatencyTry { steps, .. }) = self.next() else { return TryVerdict::GivesUp };
        let verdict = self.verdict(finding);
        match verdict {
            TryVerdict::Goes => self.good = Some(steps),
            TryVerdict::Fails | TryVerdict::Unknown => self.fails(steps),
            TryVerdict::Again | TryVerdict::GivesUp => return verdict,
        }
        (self.frozen, self.besides, self.invalid_rows, self.xruns) = (0, true, 0, 0);
        if self.good == Some(self.from) && !self.holding {
            (self.holding, self.good, self.jump) = (true, None, 0);
        }
        verdict
    }

    fn verdict(&mut self, finding: SearchResult) -> TryVerdict {
        match finding {
            SearchResult::Whole => TryVerdict::Goes,
            SearchResult::Missed => TryVerdict::Fails,
            SearchResult::Xruns => {
                self.xruns += 1;
                self.invalid_rows = 0;
                if self.gave_up() { TryVerdict::GivesUp } else { TryVerdict::Again }
            }
            SearchResult::Frozen { besides } => {
                self.frozen += 1;
                self.besides &= besides;
                self.invalid_rows = 0;
                match self.frozen < FROZEN_TRIES {
                    true => TryVerdict::Again,
                    // Stalls do not explain any try's misses.
                    false if self.besides => TryVerdict::Fails,
                    false => TryVerdict::Unknown,
                }
            }
            SearchResult::Invalid => {
                self.invalid_rows += 1;
                if self.gave_up() { TryVerdict::GivesUp } else { TryVerdict::Again }
            }
        }
    }

    fn fails(&mut self, steps: u32) {
        self.from = steps + 1;
        self.jump = self.jump.saturating_mul(2).max(1);
    }

    pub fn gave_up(&self) -> bool {
        self.invalid_rows >= VOID_TRIES || self.has_xruns()
    }

    /// Whether the search gave up because of xruns.
    pub fn has_xruns(&self) -> bool {
        self.xruns >= XRUN_TRIES
    }

    /// Lowest latency that passed its hold; `None` until known.
    pub fn minimum(&self) -> Option<u32> {
        self.good.filter(|good| self.holding && *good == self.from)
    }
}
