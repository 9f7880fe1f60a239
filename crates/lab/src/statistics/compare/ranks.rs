//! Two runs by the ranks of all their values together.

use statrs::distribution::{ContinuousCDF, Normal};

/// What ranks say.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ranked {
    /// Of chance alone ranking them as differently, if they were of one kind.
    pub p: f64,
    /// Cliff's delta: −1 if all of the second lie below all of the first, 1 above.
    pub delta: f64,
}

/// Of so many values together every way to part them is counted: the normal curve is too wide there, and would
/// never call ten values that all lie above ten others as unlikely as they are.
const FEW: usize = 40;
/// Of a correlation: greater ones come by chance in 5 of 100 runs of so many values (Anderson 1942), over their
/// root.
const CLEAR: f64 = 1.645;

/// Ranks two runs, of however few values.
pub fn ranked(first: &[f64], second: &[f64]) -> Ranked {
    if first.is_empty() || second.is_empty() {
        return Ranked { p: 1.0, delta: 0.0 };
    }
    let (n, m) = (first.len() as f64, second.len() as f64);
    // Twice the rank, so that ties have whole numbers, too.
    let (doubled, ties) = doubled_ranks(first, second);
    let (of_first, of_second) = doubled.split_at(first.len());
    let sum: u64 = of_second.iter().sum();
    let above = sum as f64 / 2.0 - m * (m + 1.0) / 2.0;
    let delta = 2.0 * above / (n * m) - 1.0;
    let all = n + m;
    let variance = n * m / 12.0 * (all + 1.0 - ties / (all * (all - 1.0)));
    // Half a rank is for the steps of what the smooth curve stands for.
    let away = ((above - n * m / 2.0).abs() - 0.5).max(0.0);
    let smooth = |variance: f64| match variance > 0.0 {
        true => (2.0 * Normal::standard().sf(away / variance.sqrt())).min(1.0),
        false => 1.0,
    };
    let independent = match doubled.len() <= FEW {
        true => exact(&doubled, second.len(), sum),
        false => smooth(variance),
    };
    let alike = correlation([of_first, of_second]);
    let p = match alike > CLEAR / all.sqrt() {
        true => independent.max(smooth(variance * (1.0 + alike) / (1.0 - alike))),
        false => independent,
    };
    Ranked { p, delta }
}

/// Of each value, in the order in which they are given, and the sum of t³ − t over all ties of t values.
fn doubled_ranks(first: &[f64], second: &[f64]) -> (Vec<u64>, f64) {
    let all: Vec<f64> = first.iter().chain(second).copied().collect();
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by(|a, b| all[*a].total_cmp(&all[*b]));
    let (mut ranks, mut ties, mut before) = (vec![0; all.len()], 0.0, 0);
    for equal in order.chunk_by(|a, b| all[*a] == all[*b]) {
        let count = equal.len() as u64;
        equal.iter().for_each(|at| ranks[*at] = 2 * before + count + 1);
        ties += (count as f64).powi(3) - count as f64;
        before += count;
    }
    (ranks, ties)
}

/// Of all ways to take so many of these ranks, the share of those whose sum is as far from the middle as this
/// one.
fn exact(doubled: &[u64], taken: usize, sum: u64) -> f64 {
    let most: usize = doubled.iter().sum::<u64>() as usize;
    // How many ways lead to each sum, by how many were taken.
    let mut ways = vec![vec![0.0_f64; most + 1]; taken + 1];
    ways[0][0] = 1.0;
    let (mut reach, mut seen) = (0, 0);
    for rank in doubled.iter().map(|rank| *rank as usize) {
        for taken in (0..taken.min(seen + 1)).rev() {
            let (from, to) = ways.split_at_mut(taken + 1);
            let from = &from[taken][..=reach];
            from.iter().zip(&mut to[0][rank..]).for_each(|(ways, into)| *into += ways);
        }
        reach += rank;
        seen += 1;
    }
    let middle = taken as u64 * (doubled.len() as u64 + 1);
    let away = sum.abs_diff(middle);
    let all: f64 = ways[taken].iter().sum();
    let far = ways[taken].iter().enumerate();
    let far = far.filter(|(other, _)| (*other as u64).abs_diff(middle) >= away);
    (far.map(|(_, ways)| ways).sum::<f64>() / all).min(1.0)
}

/// Of each value and the next one of its run, beside the mean of that run.
fn correlation(runs: [&[u64]; 2]) -> f64 {
    let (mut together, mut alone) = (0.0, 0.0);
    for run in runs {
        let mean = run.iter().sum::<u64>() as f64 / run.len() as f64;
        let off = |rank: &u64| *rank as f64 - mean;
        together += run.windows(2).map(|pair| off(&pair[0]) * off(&pair[1])).sum::<f64>();
        alone += run.iter().map(|rank| off(rank).powi(2)).sum::<f64>();
    }
    if alone > 0.0 { (together / alone).min(0.99) } else { 0.0 }
}
