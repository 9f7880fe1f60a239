//! Chooses the next latency to try from earlier results; no clock, no stream.
//!
//! Latencies count in steps above the first. They grow until one passes; then the interval is
//! bisected, and the result is held. After a failed hold the search continues upwards with holds: a
//! short try does not show such rare misses.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatencyTry {
    pub steps: u32,
    pub held: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchResult {
    Whole,
    Missed,
    Frozen {
        /// Whether more was missed than stalls explain.
        besides: bool,
    },
    InvalidWindow,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TryVerdict {
    Goes,
    Fails,
    /// Stalls spoilt each try: counts as failed, though it is not known.
    Unknown,
    Again,
    GivesUp,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LatencySearch {
    /// All lower ones fail.
    from: u32,
    good: Option<u32>,
    /// Next distance above `from` while nothing passes.
    jump: u32,
    max_latency: u32,
    holding: bool,
    /// Consecutive tries of this latency spoilt by stalls.
    frozen: u32,
    /// Whether each of them had misses beyond its stalls.
    besides: bool,
    voids: u32,
}

/// Maximum number of tries with stalls.
pub const FROZEN_TRIES: u32 = 3;
const VOID_TRIES: u32 = 2;

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
        (self.frozen, self.besides, self.voids) = (0, true, 0);
        if self.good == Some(self.from) && !self.holding {
            (self.holding, self.good, self.jump) = (true, None, 0);
        }
        verdict
    }

    fn verdict(&mut self, finding: SearchResult) -> TryVerdict {
        match finding {
            SearchResult::Whole => TryVerdict::Goes,
            SearchResult::Missed => TryVerdict::Fails,
            SearchResult::Frozen { besides } => {
                self.frozen += 1;
                self.besides &= besides;
                self.voids = 0;
                match self.frozen < FROZEN_TRIES {
                    true => TryVerdict::Again,
                    // Stalls do not explain the misses of any try.
                    false if self.besides => TryVerdict::Fails,
                    false => TryVerdict::Unknown,
                }
            }
            SearchResult::InvalidWindow => {
                self.voids += 1;
                if self.gave_up() { TryVerdict::GivesUp } else { TryVerdict::Again }
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

    /// The lowest latency that passed its hold; `None` until known.
    pub fn least(&self) -> Option<u32> {
        self.good.filter(|good| self.holding && *good == self.from)
    }
}
