use std::f64::consts::TAU;
use std::ops::Range;

use crate::{RATE, loss::Loss};

/// 20 ms.
const FRAME: usize = RATE / 50;
const POINTS: usize = 1024;
/// A sine 90 dB below full scale.
const FLOOR: f64 = 1e-9 * (FRAME as f64 / 4.0) * (FRAME as f64 / 4.0);

/// Log-spectral distance in dB of frames that touch a hole: RMS difference of the power spectra up
/// to 20 kHz (Gray and Markel, "Distance measures for speech processing", 1976, §III).
pub(crate) fn log_spectral(sent: &[f32], received: &[f32], loss: &Loss) -> Vec<f64> {
    let window: Vec<f64> = (0..FRAME)
        .map(|index| 0.5 - 0.5 * (TAU * (index as f64 + 0.5) / FRAME as f64).cos())
        .collect();
    (0..sent.len() - FRAME)
        .step_by(FRAME / 2)
        .map(|start| start..start + FRAME)
        .filter(|frame| loss.holes.iter().any(|hole| overlap(hole, frame)))
        .map(|frame| {
            let sent = spectrum(&sent[frame.clone()], &window);
            let received = spectrum(&received[frame], &window);
            let bins = POINTS * 20_000 / RATE;
            let squares = (1..bins).map(|bin| (sent[bin] - received[bin]).powi(2));
            (squares.sum::<f64>() / (bins - 1) as f64).sqrt()
        })
        .collect()
}

fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}

/// In dB, per hole.
pub(crate) fn inside_holes(sent: &[f32], received: &[f32], loss: &Loss) -> Vec<f64> {
    loss.holes
        .iter()
        .filter_map(|hole| {
            let (sent, received) = (&sent[hole.clone()], &received[hole.clone()]);
            let power: f64 = sent.iter().map(|s| f64::from(*s).powi(2)).sum();
            let wrong: f64 = sent.iter().zip(received).map(|(s, h)| f64::from(s - h).powi(2)).sum();
            (power > 1e-9).then(|| 10.0 * (power / wrong.max(1e-15)).log10())
        })
        .collect()
}

pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn spectrum(samples: &[f32], window: &[f64]) -> Vec<f64> {
    let mut real = vec![0.0; POINTS];
    let mut imaginary = vec![0.0; POINTS];
    for ((out, sample), window) in real.iter_mut().zip(samples).zip(window) {
        *out = f64::from(*sample) * window;
    }
    transform(&mut real, &mut imaginary);
    let powers = real.iter().zip(&imaginary).map(|(r, i)| 10.0 * (r * r + i * i + FLOOR).log10());
    powers.take(POINTS / 2).collect()
}

/// Cooley and Tukey, radix 2, in place.
fn transform(real: &mut [f64], imaginary: &mut [f64]) {
    let points = real.len();
    let bits = points.trailing_zeros();
    for index in 0..points {
        let mirrored = index.reverse_bits() >> (usize::BITS - bits);
        if index < mirrored {
            real.swap(index, mirrored);
            imaginary.swap(index, mirrored);
        }
    }
    let mut half = 1;
    while half < points {
        for k in 0..half {
            let (sin, cos) = (-TAU / 2.0 * k as f64 / half as f64).sin_cos();
            for a in (k..points).step_by(2 * half) {
                let b = a + half;
                let (r, i) =
                    (real[b] * cos - imaginary[b] * sin, real[b] * sin + imaginary[b] * cos);
                (real[b], imaginary[b]) = (real[a] - r, imaginary[a] - i);
                (real[a], imaginary[a]) = (real[a] + r, imaginary[a] + i);
            }
        }
        half *= 2;
    }
}
