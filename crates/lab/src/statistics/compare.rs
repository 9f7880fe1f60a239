//! Tests whether two runs differ.
//!
//! Compares medians per second: values within a second share its events. A difference needs three
//! tests: chance (Mann and Whitney 1947), scatter (Cliff's delta, limits of Romano and others
//! 2006), and a bootstrap interval that excludes zero and the threshold.
//!
//! Correlated seconds count as fewer: rank variance grows by (1 + r) / (1 - r) at lag 1 (Bayley and
//! Hammersley, Supplement to the JRSS 8, 1946). Distance counts too, else two steady but distant
//! runs would not differ.

mod ranks;

use fastrand::Rng;
use serde::Serialize;

pub use ranks::{Ranked, ranked};

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SeriesComparison {
    pub difference: f64,
    pub interval: [f64; 2],
    pub p: f64,
    /// Cliff's delta: 1 if all of the second lie above the first.
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

pub const MIN: usize = 8;
pub(crate) const CHANCE: f64 = 0.01;
const NEGLIGIBLE: f64 = 0.147;
const SAMPLES: usize = 2000;

/// Ignores differences up to `uncertainty`. Deterministic.
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

/// NaN for no values.
pub fn median(values: &[f64]) -> f64 {
    middle(&mut values.to_vec())
}

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

/// 95 % interval, from samples in blocks of √n, as neighbours are correlated (Künsch 1989).
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
