//! Whether two runs differ.
//!
//! What is compared are medians of intervals, one value for each second of a run: values within one share
//! what happened in it, and taken one by one would make any difference certain. Three things must agree
//! for a difference to count: chance would hardly bring it (Mann and Whitney 1947: exactly where there are
//! few seconds, else with ties by the normal approximation), it is not tiny beside what each run scatters
//! (Cliff's delta, by the limits of Romano and others 2006), and its bootstrap interval leaves out both
//! nothing and what the caller calls too little.
//!
//! Seconds that follow each other may be alike, and then say less than as many that are not. Where they
//! clearly are, the chance is that of fewer: the variance of the ranks grows by (1 + r) / (1 - r) with r their
//! correlation at lag 1 (Bayley and Hammersley, Supplement to the JRSS 8, 1946). Two runs that wander little and lie
//! far apart would never differ by that, so that how far counts as well.

mod ranks;

use fastrand::Rng;
use serde::Serialize;

pub use ranks::{Ranked, ranked};

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SeriesComparison {
    /// Median of the second less that of the first.
    pub difference: f64,
    /// Of that, 95 of 100 bootstrap samples lie within.
    pub interval: [f64; 2],
    /// Of chance alone making the two as different, if they were of one kind.
    pub p: f64,
    /// Cliff's delta: −1 if all of the second lie below all of the first, 1 above.
    pub delta: f64,
    pub verdict: SeriesDifference,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SeriesDifference {
    Unknown,
    /// Not beyond what chance and the runs' own uncertainty bring.
    None,
    Less,
    More,
}

/// Fewer intervals of a run say nothing.
pub const LEAST: usize = 8;
/// Chance that is still believed.
pub(crate) const CHANCE: f64 = 0.01;
/// What is called negligible of Cliff's delta.
const NEGLIGIBLE: f64 = 0.147;
const SAMPLES: usize = 2000;

/// Compares the intervals of two runs; a difference up to `uncertainty` means nothing. Deterministic.
pub fn compare(first: &[f64], second: &[f64], uncertainty: f64) -> SeriesComparison {
    let difference = median(second) - median(first);
    if first.len() < LEAST || second.len() < LEAST {
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

/// Of an even count, the mean of the two in the middle; not a number of none.
pub fn median(values: &[f64]) -> f64 {
    middle(&mut values.to_vec())
}

/// The same in the room of the values, which it brings into another order.
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

/// The difference of medians of samples with replacement: its 2.5th and 97.5th of 100 parts. Samples are
/// of runs of intervals as long as the root of their count, since neighbours are alike, too (moving
/// blocks: Künsch 1989).
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
