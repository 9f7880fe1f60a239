//! Amount of redundancy for the losses of a path.

use super::MAX_WINDOW;
use super::layout::Layout;
use crate::time::{LocalTime, Span};

/// Losses of a path: share and mean burst length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Losses {
    /// Share of lost packets.
    pub share: f64,
    /// Mean consecutive losses, at least 1.
    pub burst: f64,
}

impl Losses {
    /// No losses.
    pub const NONE: Self = Self { share: 0.0, burst: 1.0 };
    /// Assumed losses before the first report: single packets, one in a hundred.
    pub const UNKNOWN: Self = Self { share: 0.01, burst: 1.0 };

    /// Maximum of both properties.
    #[must_use]
    pub const fn worse(self, other: Self) -> Self {
        Self { share: self.share.max(other.share), burst: self.burst.max(other.burst) }
    }

    /// Whether the loss is below `TARGET`.
    pub fn is_none(self) -> bool {
        self.share < TARGET
    }

    /// Probabilities of loss after a lost and a received packet: Gilbert's chain (1960).
    fn chain(self) -> (f64, f64) {
        let share = self.share.clamp(0.0, 0.99);
        // Independent losses are adjacent now and then.
        let burst = self.burst.max(1.0 / (1.0 - share));
        let stays = 1.0 - 1.0 / burst;
        (stays, ((1.0 - stays) * share / (1.0 - share)).min(1.0))
    }
}

/// Acceptable loss: a gap of 1 ms in 100 s.
pub(crate) const TARGET: f64 = 1e-5;

/// Share of packets whose copies are all lost.
fn left_by_copies(losses: Losses, layout: &Layout) -> f64 {
    let (stays, comes) = losses.chain();
    let mut before = 0;
    layout.reaches().iter().fold(losses.share, |left, reach| {
        let apart = i32::from(reach.oldest) - before;
        before = i32::from(reach.oldest);
        // Probability that the second of two packets `apart` is lost if the first is.
        let again = losses.share + (1.0 - losses.share) * (stays - comes).powi(apart);
        left * again
    })
}

/// Loss of an ideal code over `window` packets. The missing symbols grow by one with each loss, and
/// fall by `symbols` with each arrival. At zero all packets are rebuilt, possibly too late.
fn left_by_code(losses: Losses, symbols: usize, window: usize) -> f64 {
    let (stays, comes) = losses.chain();
    // Probabilities by missing symbols, after a lost and a received packet.
    let mut lost = [0.0; MAX_WINDOW + 2];
    let mut arrived = [0.0; MAX_WINDOW + 2];
    lost[1] = 1.0;
    for _ in 0..window.min(MAX_WINDOW) {
        let (mut next_lost, mut next_came) = ([0.0; MAX_WINDOW + 2], [0.0; MAX_WINDOW + 2]);
        for lacking in 1..=MAX_WINDOW {
            let chance = (lost[lacking], arrived[lacking]);
            next_lost[lacking + 1] += chance.0 * stays + chance.1 * comes;
            if let Some(left) = lacking.checked_sub(symbols).filter(|left| *left > 0) {
                next_came[left] += chance.0 * (1.0 - stays) + chance.1 * (1.0 - comes);
            }
        }
        (lost, arrived) = (next_lost, next_came);
    }
    let left = lost.iter().sum::<f64>() + arrived.iter().sum::<f64>();
    (3.0 * losses.share * left).min(losses.share)
}

/// Minimum redundancy for `TARGET`, or as many of `maximum` symbols as are worth their cost.
pub fn fitting(losses: Losses, window: usize, maximum: usize) -> Layout {
    let ways = |symbols| {
        let (copies, code) = (Layout::copies(symbols, window), Layout::code(symbols, window));
        let by_copies = left_by_copies(losses, &copies);
        let by_code = left_by_code(losses, symbols, window);
        if by_code < by_copies { (by_code, code) } else { (by_copies, copies) }
    };
    let maximum = maximum.min(window);
    let (mut best, mut layout) = (losses.share, Layout::NONE);
    for symbols in 1..=maximum {
        let (left, way) = ways(symbols);
        // A symbol must repair a third of the remaining losses.
        if left >= 0.67 * best {
            break;
        }
        (best, layout) = (left, way);
        if best <= TARGET {
            break;
        }
    }
    layout
}

/// Counters of a stream at its receivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Packets expected.
    pub expected: u64,
    /// Packets lost before repair.
    pub missing: u64,
    /// Runs of lost packets.
    pub runs: u64,
    /// Packets in runs longer than any window (outages), counted only here.
    pub beyond: u64,
}

impl Tally {
    /// Packets counted after `earlier`; 0 if another sender's count has begun since.
    #[must_use]
    pub const fn since(&self, earlier: &Self) -> Self {
        Self {
            expected: self.expected.saturating_sub(earlier.expected),
            missing: self.missing.saturating_sub(earlier.missing),
            runs: self.runs.saturating_sub(earlier.runs),
            beyond: self.beyond.saturating_sub(earlier.beyond),
        }
    }

    /// Counts a packet `ahead` of the newest; `None` for the first.
    pub(crate) fn arrived(&mut self, ahead: Option<i64>) {
        match ahead.map_or(1, |ahead| ahead) {
            ahead @ 1.. if ahead <= MAX_WINDOW as i64 + 1 => {
                self.expected += ahead.unsigned_abs();
                self.missing += ahead.unsigned_abs() - 1;
                self.runs += u64::from(ahead > 1);
            }
            ahead @ 1.. => {
                self.expected += 1;
                self.outage(ahead.unsigned_abs() - 1);
            }
            _ if self.missing > 0 => self.missing -= 1,
            _ => self.beyond = self.beyond.saturating_sub(1),
        }
    }

    pub(crate) const fn outage(&mut self, packets: u64) {
        self.beyond += packets;
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizing {
    last: Option<(LocalTime, Tally)>,
    losses: Losses,
}

impl Sizing {
    /// Half-life of earlier losses.
    const FORGETS: Span = Span::from_secs(30);

    /// Higher loss counts immediately, lower loss gradually.
    pub(crate) fn observe(&mut self, now: LocalTime, tally: Tally) {
        let Some((before, last)) = self.last.replace((now, tally)) else {
            self.last = Some((now, tally));
            return;
        };
        let Tally { expected, missing, runs, .. } = tally.since(&last);
        if expected == 0 {
            self.last = Some((before, last));
            return;
        }
        let runs = runs.clamp(1, missing.max(1));
        let share = missing as f64 / expected as f64;
        let passed = (now - before).as_nanos().max(0) as f64;
        let kept = 0.5f64.powf(passed / Self::FORGETS.as_nanos() as f64);
        // More packets weigh more.
        let says = expected as f64 / (expected as f64 + 200.0);
        let burst = missing as f64 / runs as f64;
        let risen = self.losses.share + (share - self.losses.share) * says;
        self.losses.share = risen.max(self.losses.share * kept + share * (1.0 - kept));
        if missing > 0 {
            let weight = missing as f64 / (missing as f64 + 20.0);
            self.losses.burst += (burst - self.losses.burst) * weight;
        }
    }

    pub(crate) const fn losses(&self) -> Losses {
        self.losses
    }
}

impl Default for Sizing {
    fn default() -> Self {
        Self { last: None, losses: Losses::UNKNOWN }
    }
}

#[cfg(test)]
mod tests;
