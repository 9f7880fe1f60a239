//! Linear prediction: the coefficients that tell the next sample of a sound from those before.

use core::ops::{Add, Mul};

/// Fits models; holds the memory that takes.
#[derive(Debug, Clone)]
pub(super) struct Fitter {
    /// Errors of prediction forwards, sample by sample; before the fit, the sound.
    forward: Box<[f32]>,
    /// Errors of prediction backwards, each beside the forward error one sample later.
    backward: Box<[f32]>,
    /// Coefficients of the prediction error filter after the leading 1, newest sample first.
    filter: Box<[f64]>,
}

impl Fitter {
    /// Power of what is taken for noise, for a full scale of 1: 65 dB below. A model fitted to less
    /// is on the brink of swinging up. Of 3000 random successions of a pure tone and holes, seven
    /// clicked (a step of more than a fifth of the tone) at 80 dB, one at 70, none at 65. Real sound
    /// goes on as well with each.
    const NOISE: f32 = 3e-7;

    /// For up to `window` samples and `order` coefficients. Allocates; nothing later does.
    pub(super) fn new(window: usize, order: usize) -> Self {
        Self {
            forward: vec![0.0; window].into(),
            backward: vec![0.0; window].into(),
            filter: vec![0.0; order].into(),
        }
    }

    /// Where the sound to fit is written, oldest sample first, all about within ±1.
    pub(super) fn window(&mut self, samples: usize) -> &mut [f32] {
        &mut self.forward[..samples]
    }

    /// Fits `model`, oldest sample first, to the first `samples` of the window by Burg's method
    /// ("Maximum entropy spectral analysis", 1975, as in Kay, "Modern Spectral Estimation",
    /// §7.5): about four multiply-adds for each sample and coefficient. Half as many coefficients
    /// as samples at most; those beyond are 0.
    ///
    /// A reflection coefficient is the difference of two sums of squares over their sum, so it
    /// lies within ±1 whatever the sound and the rounding are, and models of such coefficients
    /// are stable. The errors may therefore be 32-bit floats. The model may not: rounded to 32
    /// bits, that of a pure tone would swing up.
    pub(super) fn fit(&mut self, samples: usize, model: &mut [f64]) {
        let (forward, backward) = (&mut self.forward[..samples], &mut self.backward[..samples]);
        backward.copy_from_slice(forward);
        let order = model.len().min(samples / 2);
        let noise = Self::NOISE * samples as f32;
        for grown in 0..order {
            let (ahead, behind) = (&mut forward[grown + 1..], &mut backward[..samples - grown - 1]);
            let reflection = reflection(ahead, behind, noise);
            for (f, b) in ahead.iter_mut().zip(behind) {
                (*f, *b) = (*f + reflection * *b, *b + reflection * *f);
            }
            grow(&mut self.filter[..=grown], f64::from(reflection));
        }
        model.fill(0.0);
        for (weight, coefficient) in model.iter_mut().rev().zip(&self.filter[..order]) {
            *weight = -coefficient;
        }
    }
}

/// Burg's reflection coefficient, −2 Σfb ÷ Σ(f² + b²), where that sum is above `noise`; 0 where
/// there is nothing to predict.
fn reflection(forward: &[f32], backward: &[f32], noise: f32) -> f32 {
    let sum = squares(forward, backward, |f, b| f + b);
    let difference = squares(forward, backward, |f, b| f - b);
    let energy = sum + difference + noise;
    if energy > 0.0 { (difference - sum) / energy } else { 0.0 }
}

/// The error filter with one more coefficient (Levinson's step): the last of `filter` is new.
fn grow(filter: &mut [f64], reflection: f64) {
    let last = filter.len() - 1;
    for early in 0..last.div_ceil(2) {
        let late = last - 1 - early;
        let (a, b) = (filter[early], filter[late]);
        filter[early] = a + reflection * b;
        filter[late] = b + reflection * a;
    }
    filter[last] = reflection;
}

/// Sums are kept in this many parts, which the processor adds side by side.
const LANES: usize = 8;

/// The sum of the squares of what `join` makes of two slices of one length. One sum at a time:
/// of two, the compiler puts the wrong ones side by side, at twice the time.
fn squares(a: &[f32], b: &[f32], join: impl Fn(f32, f32) -> f32) -> f32 {
    let mut sums = [0.0; LANES];
    let (a_lanes, a_rest) = a.as_chunks::<LANES>();
    let (b_lanes, b_rest) = b.as_chunks::<LANES>();
    for (a, b) in a_lanes.iter().zip(b_lanes) {
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            let joined = join(*a, *b);
            *sum += joined * joined;
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| join(*a, *b).powi(2)).sum();
    total(sums) + rest
}

/// The sum of the products of two slices of one length.
pub(super) fn dot<T: Copy + Default + Add<Output = T> + Mul<Output = T>>(a: &[T], b: &[T]) -> T {
    let mut sums = [T::default(); LANES];
    let (a_lanes, a_rest) = a.as_chunks::<LANES>();
    let (b_lanes, b_rest) = b.as_chunks::<LANES>();
    for (a, b) in a_lanes.iter().zip(b_lanes) {
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum = *sum + *a * *b;
        }
    }
    let rest = a_rest.iter().zip(b_rest).fold(T::default(), |sum, (a, b)| sum + *a * *b);
    total(sums) + rest
}

fn total<T: Add<Output = T>>([a, b, c, d, e, f, g, h]: [T; LANES]) -> T {
    ((a + e) + (c + g)) + ((b + f) + (d + h))
}
