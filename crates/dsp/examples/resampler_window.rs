//! Finds the windows of the resampler's kernels and prints their cosines:
//!
//! ```text
//! cargo run --release -p tautline-dsp --example resampler_window
//! ```
//!
//! A kernel of `half` frames to either side is a sinc under Σ aₘ cos(π m x / half) with Σ aₘ = 1.
//! Its response to a wave of ω radians per frame at a fraction φ is Σₙ kernel(n − φ) exp(jω(n −
//! φ)), ideally 1. Least squares find the cosines, weighted by each wave's target error and
//! iteratively by the errors found (Lawson's method).
#![expect(clippy::print_stdout, reason = "it is what the program is for")]

use std::f64::consts::{PI, TAU};

use tautline_dsp::resample::Quality;

/// Errors of `flat_db` up to `flat_to`, rising to `end_db` at `end`, in turns per frame.
struct Goal {
    quality: Quality,
    cosines: usize,
    flat_to: f64,
    flat_db: f64,
    end: f64,
    end_db: f64,
}

const GOALS: [Goal; 3] = [
    Goal {
        quality: Quality::LowDelay,
        cosines: 6,
        flat_to: 15.0 / 48.0,
        flat_db: -94.0,
        end: 20.2 / 48.0,
        end_db: -42.0,
    },
    Goal {
        quality: Quality::Balanced,
        cosines: 6,
        flat_to: 13.0 / 48.0,
        flat_db: -118.0,
        end: 20.0 / 48.0,
        end_db: -42.0,
    },
    Goal {
        quality: Quality::Best,
        cosines: 9,
        flat_to: 14.5 / 48.0,
        flat_db: -142.0,
        end: 21.9 / 48.0,
        end_db: -42.0,
    },
];

const WAVES: usize = 61;
/// From 0 to 0.5; the others mirror them.
const FRACTIONS: usize = 16;
const ROUNDS: usize = 50;

fn main() {
    for goal in &GOALS {
        let cosines = window(goal);
        let text: Vec<_> = cosines.iter().map(|cosine| format!("{cosine:.10}")).collect();
        let half = goal.quality.half() as f64;
        let difference = (0..1000)
            .map(|index| f64::from(index) / 1000.0 * half)
            .map(|x| goal.quality.weight(x) - sinc(x) * windowed(&cosines, x / half))
            .fold(0.0, |maximum: f64, difference| maximum.max(difference.abs()));
        println!("{}: {}", goal.quality, text.join(", "));
        println!("    the resampler's own differs by {difference:.0e} at most");
    }
}

fn sinc(x: f64) -> f64 {
    if x == 0.0 { 1.0 } else { (PI * x).sin() / (PI * x) }
}

fn windowed(cosines: &[f64], x: f64) -> f64 {
    cosines.iter().enumerate().map(|(m, cosine)| cosine * (PI * m as f64 * x).cos()).sum()
}

/// Without the first cosine; the right side.
type Equation = (Vec<f64>, f64);

fn equations(goal: &Goal, wave: f64) -> Vec<Equation> {
    let half = goal.quality.half() as i64;
    let both = |fraction: f64| {
        let part = |turn: fn(f64) -> f64, wanted: f64| {
            let sum = |m: usize| -> f64 {
                (1 - half..=half)
                    .map(|frame| frame as f64 - fraction)
                    .map(|x| {
                        let cosine = (PI * m as f64 * x / half as f64).cos();
                        sinc(x) * cosine * turn(TAU * wave * x)
                    })
                    .sum()
            };
            // The first cosine is 1 less all others.
            let first = sum(0);
            ((1..goal.cosines).map(|m| sum(m) - first).collect(), wanted - first)
        };
        [part(f64::cos, 1.0), part(f64::sin, 0.0)]
    };
    (0..FRACTIONS).flat_map(|index| both((index as f64 + 0.5) / (2 * FRACTIONS) as f64)).collect()
}

fn window(goal: &Goal) -> Vec<f64> {
    let waves: Vec<f64> = (0..WAVES).map(|i| goal.end * i as f64 / (WAVES - 1) as f64).collect();
    let of_waves: Vec<_> = waves.iter().map(|wave| equations(goal, *wave)).collect();
    let wanted = |wave: f64| {
        let beyond = ((wave - goal.flat_to) / (goal.end - goal.flat_to)).max(0.0);
        10_f64.powf((goal.flat_db + (goal.end_db - goal.flat_db) * beyond) / 20.0)
    };
    let mut weights = vec![1.0; WAVES];
    let mut others = vec![];
    for _ in 0..ROUNDS {
        let mut all = vec![];
        for ((equations, wave), weight) in of_waves.iter().zip(&waves).zip(&weights) {
            let by = weight / wanted(*wave);
            let scaled = |(row, right): &Equation| {
                (row.iter().map(|value| value * by).collect::<Vec<_>>(), right * by)
            };
            all.extend(equations.iter().map(scaled));
        }
        others = min_squares(all);
        let error = |(row, right): &Equation| {
            let given: f64 = row.iter().zip(&others).map(|(one, other)| one * other).sum();
            (given - right).powi(2)
        };
        let errors: Vec<f64> = of_waves
            .iter()
            .zip(&waves)
            .map(|(all, wave)| all.iter().map(error).sum::<f64>().sqrt() / wanted(*wave))
            .collect();
        let maximum = errors.iter().copied().fold(0.0, f64::max);
        // These weights apply to values, Lawson's to squares.
        for (weight, error) in weights.iter_mut().zip(&errors) {
            *weight *= (error / maximum).max(1e-3).sqrt();
        }
        let maximum = weights.iter().copied().fold(0.0, f64::max);
        weights.iter_mut().for_each(|weight| *weight = (*weight / maximum).max(1e-6));
    }
    let first = 1.0 - others.iter().sum::<f64>();
    std::iter::once(first).chain(others).collect()
}

/// Householder reflections (Golub and Van Loan, Matrix Computations, 5.2 and 5.3).
fn min_squares(mut equations: Vec<Equation>) -> Vec<f64> {
    let count = equations[0].0.len();
    for column in 0..count {
        let mut mirror: Vec<f64> = equations[column..].iter().map(|(row, _)| row[column]).collect();
        let length = mirror.iter().map(|value| value * value).sum::<f64>().sqrt();
        mirror[0] += length.copysign(mirror[0]);
        let square: f64 = mirror.iter().map(|value| value * value).sum();
        for at in column..=count {
            let value = |equation: &Equation| *equation.0.get(at).unwrap_or(&equation.1);
            let below = equations[column..].iter().map(value);
            let along: f64 = below.zip(&mirror).map(|(value, mirror)| value * mirror).sum();
            let by = 2.0 * along / square;
            for ((row, right), mirror) in equations[column..].iter_mut().zip(&mirror) {
                *row.get_mut(at).unwrap_or(right) -= by * mirror;
            }
        }
    }
    let mut found = vec![0.0; count];
    for column in (0..count).rev() {
        let (row, right) = &equations[column];
        let known: f64 = (column + 1..count).map(|other| row[other] * found[other]).sum();
        found[column] = (right - known) / row[column];
    }
    found
}
