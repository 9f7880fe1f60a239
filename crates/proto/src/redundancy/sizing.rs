//! How much redundancy a path's losses ask for.

use super::MAX_WINDOW;
use super::layout::Layout;
use crate::time::{LocalTime, Span};

/// How a path loses packets: which share, and how many in a row on average.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Losses {
    /// Lost packets among all.
    pub share: f64,
    /// Lost packets in a row, on average: 1 at least.
    pub burst: f64,
}

impl Losses {
    /// Nothing is lost.
    pub const NONE: Self = Self { share: 0.0, burst: 1.0 };
    /// What is assumed while nobody has reported: one packet in a hundred, one at a time. One symbol
    /// meets it.
    pub const UNKNOWN: Self = Self { share: 0.01, burst: 1.0 };

    /// The worse of two paths in each respect.
    #[must_use]
    pub const fn worse(self, other: Self) -> Self {
        Self { share: self.share.max(other.share), burst: self.burst.max(other.burst) }
    }

    /// Whether fewer are lost than `TARGET` allows.
    pub fn is_none(self) -> bool {
        self.share < TARGET
    }

    /// Chances that the packet after a lost and after a good one is lost: the two states of
    /// Gilbert's chain (1960).
    fn chain(self) -> (f64, f64) {
        let share = self.share.clamp(0.0, 0.99);
        // Lost one by one they still fall next to each other now and then.
        let burst = self.burst.max(1.0 / (1.0 - share));
        let stays = 1.0 - 1.0 / burst;
        (stays, ((1.0 - stays) * share / (1.0 - share)).min(1.0))
    }
}

/// The share of packets that may be lost in spite of redundancy: one in a hundred thousand, a gap of
/// 1 ms in 100 s.
pub(crate) const TARGET: f64 = 1e-5;

/// The share of packets that stays lost with these copies: every one of them is lost, too.
fn left_by_copies(losses: Losses, layout: &Layout) -> f64 {
    let (stays, comes) = losses.chain();
    let mut before = 0;
    layout.reaches().iter().fold(losses.share, |left, reach| {
        let apart = i32::from(reach.oldest) - before;
        before = i32::from(reach.oldest);
        // Of two packets that are `apart`, the chance that the second is lost if the first is.
        let again = losses.share + (1.0 - losses.share) * (stays - comes).powi(apart);
        left * again
    })
}

/// The share of packets that stays lost with so many symbols of an ideal code over `window`
/// packets. From a lost packet on, what is lacking grows by one with each packet lost and falls by
/// the symbols with each that comes; all that is lacking comes back when it reaches nothing, which
/// may be too late for the first.
fn left_by_code(losses: Losses, symbols: usize, window: usize) -> f64 {
    let (stays, comes) = losses.chain();
    // The chance of each number lacking, with the last packet lost or come.
    let mut lost = [0.0; MAX_WINDOW + 2];
    let mut came = [0.0; MAX_WINDOW + 2];
    lost[1] = 1.0;
    for _ in 0..window.min(MAX_WINDOW) {
        let (mut next_lost, mut next_came) = ([0.0; MAX_WINDOW + 2], [0.0; MAX_WINDOW + 2]);
        for lacking in 1..=MAX_WINDOW {
            let chance = (lost[lacking], came[lacking]);
            next_lost[lacking + 1] += chance.0 * stays + chance.1 * comes;
            if let Some(left) = lacking.checked_sub(symbols).filter(|left| *left > 0) {
                next_came[left] += chance.0 * (1.0 - stays) + chance.1 * (1.0 - comes);
            }
        }
        (lost, came) = (next_lost, next_came);
    }
    let left = lost.iter().sum::<f64>() + came.iter().sum::<f64>();
    (3.0 * losses.share * left).min(losses.share)
}

/// The least that leaves no more than `TARGET` of such losses, or, where the budget allows none
/// that does, as many of `most` as are worth their price.
pub fn fitting(losses: Losses, window: usize, most: usize) -> Layout {
    let ways = |symbols| {
        let (copies, code) = (Layout::copies(symbols, window), Layout::code(symbols, window));
        let by_copies = left_by_copies(losses, &copies);
        let by_code = left_by_code(losses, symbols, window);
        if by_code < by_copies { (by_code, code) } else { (by_copies, copies) }
    };
    let most = most.min(window);
    let (mut best, mut layout) = (losses.share, Layout::NONE);
    for symbols in 1..=most {
        let (left, way) = ways(symbols);
        // A symbol more must take away a third of what is left to be worth its bandwidth: where bursts
        // outlast the budget, no amount of it helps.
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

/// What receivers have counted of a stream so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Packets expected.
    pub expected: u64,
    /// Packets that did not come, before any repair.
    pub missing: u64,
    /// Runs of packets that did not come.
    pub runs: u64,
    /// Packets that did not come in runs over which no window reaches: outages, which redundancy
    /// cannot mend. Left out of all the others.
    pub beyond: u64,
}

impl Tally {
    /// A packet came in person, so many after the newest until then; `None` for the first of all.
    pub(crate) fn came(&mut self, ahead: Option<i64>) {
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

    /// So many packets did not come in a run that no window reaches over.
    pub(crate) const fn outage(&mut self, packets: u64) {
        self.beyond += packets;
    }
}

/// Keeps an eye on the losses that one receiver reports.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizing {
    last: Option<(LocalTime, Tally)>,
    losses: Losses,
}

impl Sizing {
    /// What was lost is forgotten by half after this long, so that what comes again is met.
    const FORGETS: Span = Span::from_secs(30);

    /// Takes what a receiver reported at `now`. More loss counts at once, less by and by.
    pub(crate) fn observe(&mut self, now: LocalTime, tally: Tally) {
        let Some((before, last)) = self.last.replace((now, tally)) else {
            self.last = Some((now, tally));
            return;
        };
        let expected = tally.expected.saturating_sub(last.expected);
        if expected == 0 {
            self.last = Some((before, last));
            return;
        }
        let missing = tally.missing.saturating_sub(last.missing);
        let runs = tally.runs.saturating_sub(last.runs).clamp(1, missing.max(1));
        let share = missing as f64 / expected as f64;
        let passed = (now - before).as_nanos().max(0) as f64;
        let kept = 0.5f64.powf(passed / Self::FORGETS.as_nanos() as f64);
        // A report of few packets says little: it counts by how many it speaks of.
        let says = expected as f64 / (expected as f64 + 200.0);
        let burst = missing as f64 / runs as f64;
        let risen = self.losses.share + (share - self.losses.share) * says;
        self.losses.share = risen.max(self.losses.share * kept + share * (1.0 - kept));
        if missing > 0 {
            let weight = missing as f64 / (missing as f64 + 20.0);
            self.losses.burst += (burst - self.losses.burst) * weight;
        }
    }

    /// What is known of the path.
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
