//! Whether two runs differ.
//!
//! What is compared are medians of intervals, one value for each second of a run: values within one share
//! what happened in it, and taken one by one would make any difference certain. Three things must agree
//! for a difference to count: chance would hardly bring it (Mann and Whitney 1947, with ties, by the
//! normal approximation), it is not tiny beside what each run scatters (Cliff's delta, by the limits of
//! Romano and others 2006), and its bootstrap interval leaves out both nothing and the uncertainty that the
//! runs state themselves.

use fastrand::Rng;
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, Normal};

/// What was said of one figure of two runs.
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
    /// What that makes.
    pub verdict: SeriesDifference,
}

/// Whether two runs differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SeriesDifference {
    /// Too few intervals to tell.
    Unknown,
    /// Not beyond what chance and the runs' own uncertainty bring.
    None,
    /// The second has less.
    Less,
    /// The second has more.
    More,
}

/// Fewer intervals of a run say nothing.
const LEAST: usize = 8;
/// Chance that is still believed.
const CHANCE: f64 = 0.01;
/// What is called negligible of Cliff's delta.
const NEGLIGIBLE: f64 = 0.147;
const SAMPLES: usize = 2000;

/// Compares values of intervals of two runs, whose difference means nothing up to `uncertainty`. The same
/// runs always say the same.
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
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.as_slice() {
        [] => f64::NAN,
        _ if values.len().is_multiple_of(2) => f64::midpoint(values[half - 1], values[half]),
        _ => values[half],
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
        median(&room)
    };
    let mut found: Vec<f64> = (0..SAMPLES).map(|_| sampled(second) - sampled(first)).collect();
    found.sort_by(f64::total_cmp);
    [0.025, 0.975].map(|share| found[((SAMPLES - 1) as f64 * share).round() as usize])
}

struct Ranked {
    p: f64,
    delta: f64,
}

/// By the ranks of all values together.
fn ranked(first: &[f64], second: &[f64]) -> Ranked {
    let (n, m) = (first.len() as f64, second.len() as f64);
    let mut all: Vec<(f64, bool)> = first.iter().map(|value| (*value, false)).collect();
    all.extend(second.iter().map(|value| (*value, true)));
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut ranks, mut ties, mut before) = (0.0, 0.0, 0.0);
    for equal in all.chunk_by(|a, b| a.0 == b.0) {
        let count = equal.len() as f64;
        let rank = before + f64::midpoint(1.0, count);
        ranks += rank * equal.iter().filter(|(_, second)| *second).count() as f64;
        ties += count.powi(3) - count;
        before += count;
    }
    let above = ranks - m * (m + 1.0) / 2.0;
    let delta = 2.0 * above / (n * m) - 1.0;
    let all = n + m;
    let variance = n * m / 12.0 * (all + 1.0 - ties / (all * (all - 1.0)));
    // Half a rank is for the steps of what the smooth curve stands for.
    let away = ((above - n * m / 2.0).abs() - 0.5).max(0.0);
    let p = match variance > 0.0 {
        true => 2.0 * Normal::standard().sf(away / variance.sqrt()),
        false => 1.0,
    };
    Ranked { p: p.min(1.0), delta }
}
