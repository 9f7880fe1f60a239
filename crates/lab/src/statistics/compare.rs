//! Whether two runs differ.
//!
//! Compares medians of intervals, one per second of a run: values within a second share its events,
//! and single values would make any difference significant. A difference counts if three tests
//! agree. It is unlikely by chance (Mann and Whitney 1947: exact for few seconds, else the normal
//! approximation with ties). It is not negligible compared with each run's scatter (Cliff's delta,
//! limits of Romano and others 2006). And its bootstrap interval excludes zero and the caller's
//! threshold.
//!
//! Successive seconds may be correlated, and then carry less information. If they clearly are, the
//! probability is that of fewer: the variance of the ranks grows by (1 + r) / (1 - r), with r their
//! correlation at lag 1 (Bayley and Hammersley, Supplement to the JRSS 8, 1946). With ranks alone,
//! two runs that wander little but lie far apart would never differ, so their distance counts as
//! well.

mod ranks;

use fastrand::Rng;
use serde::Serialize;

pub use ranks::{Ranked, ranked};

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SeriesComparison {
    pub difference: f64,
    pub interval: [f64; 2],
    /// Probability of such a difference by chance.
    pub p: f64,
    /// Cliff's delta: −1 if all of the second lie below all of the first, 1 if above.
    pub delta: f64,
    pub verdict: SeriesDifference,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SeriesDifference {
    Unknown,
    None,
    Less,
    More,
}

/// Minimum number of intervals of a run.
pub const MIN: usize = 8;
pub(crate) const CHANCE: f64 = 0.01;
/// Cliff's delta below which a difference is negligible.
const NEGLIGIBLE: f64 = 0.147;
const SAMPLES: usize = 2000;

/// Compares the intervals of two runs; differences up to `uncertainty` are ignored. Deterministic.
pub fn compare(first: &[f64], second: &[f64], uncertainty: f64) -> SeriesComparison {
    let difference = median(second) - median(first);
    if first.len() < MIN || second.len() < MIN {
        let interval = [f64::NEG_INFINITY, f64::INFINITY];
        return SeriesComparison {
            difference,
            interval,
            p: 1.0,
            delta: 0.0,
            verdict: SeriesDifference::Unknown,
        };
    }
    let interval = bootstrap(first, second);
    let Ranked { p, delta } = ranked(first, second);
    let apart = interval[0] > uncertainty || interval[1] < -uncertainty;
    let verdict = match apart && p < CHANCE && delta.abs() >= NEGLIGIBLE {
        false => SeriesDifference::None,
        true if difference < 0.0 => SeriesDifference::Less,
        true => SeriesDifference::More,
    };
    SeriesComparison { difference, interval, p, delta, verdict }
}

/// For an even count the mean of the two middle values; NaN for none.
pub fn median(values: &[f64]) -> f64 {
    middle(&mut values.to_vec())
}

/// The median; reorders the values.
fn middle(values: &mut [f64]) -> f64 {
    if values.is_empty() {
        return f64::NAN;
    }
    let half = values.len() / 2;
    let even = values.len().is_multiple_of(2);
    let (below, above, _) = values.select_nth_unstable_by(half, f64::total_cmp);
    match below.iter().copied().max_by(f64::total_cmp).filter(|_| even) {
        Some(below) => f64::midpoint(below, *above),
        None => *above,
    }
}

/// 95 % bootstrap interval of the difference of medians. Samples consist of blocks as long as the
/// square root of the count, since neighbours are correlated (moving blocks: Künsch 1989).
fn bootstrap(first: &[f64], second: &[f64]) -> [f64; 2] {
    let mut random = Rng::with_seed(1);
    let mut room = Vec::new();
    let mut sampled = |values: &[f64]| {
        let block = (values.len() as f64).sqrt().round().max(1.0) as usize;
        room.clear();
        while room.len() < values.len() {
            let at = random.usize(..=values.len() - block);
            room.extend_from_slice(&values[at..at + block]);
        }
        room.truncate(values.len());
        middle(&mut room)
    };
    let mut found: Vec<f64> = (0..SAMPLES).map(|_| sampled(second) - sampled(first)).collect();
    found.sort_by(f64::total_cmp);
    [0.025, 0.975].map(|share| found[((SAMPLES - 1) as f64 * share).round() as usize])
}
