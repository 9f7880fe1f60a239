//! Finds the sync of a mark to a part of a frame.

use super::{CHIP, SYNC, SYNC_CHIPS, wave};
use crate::fit::top;

/// A sync that fits less is none. Noise 3 dB below the mark leaves 0.8.
const LEAST_FIT: f64 = 0.5;
/// How far from where the signs fit the sync may lie, in frames: they fit half a chip around it.
pub(super) const REACH: usize = CHIP;
/// Steps of a frame in which the sync is tried.
const STEPS: usize = 8;
/// Steps away from a whole frame that are needed: half a frame and one more.
const FURTHEST: usize = STEPS / 2 + 1;
/// Frames of the sync that are compared, the first and the last left out: a sync that lies up to
/// [`FURTHEST`] steps beside them has all of these between its own chips.
const COMPARED: usize = (SYNC_CHIPS - 1) * CHIP - 1;
/// What the parabola through three steps and the arithmetic leave, in frames.
const ARITHMETIC: f64 = 0.002;
/// How many deviations are called the uncertainty: beyond six lies one of 5·10⁸ marks.
const DEVIATIONS: f64 = 6.0;

/// The sync at every step beside a whole frame.
pub(super) struct Sync {
    /// By step from −[`FURTHEST`] on, [`COMPARED`] samples each.
    steps: Box<[f32]>,
    energy: [f64; 2 * FURTHEST + 1],
    /// Energy of the slope at no step, per frame².
    slope: f64,
}

/// Where the sync lies.
pub(super) struct SyncFit {
    /// Frames after the frame it was looked for at.
    pub(super) at: f64,
    /// Product with the sound, over the root of both energies; its sign is the polarity.
    pub(super) likeness: f64,
    pub(super) uncertainty: f64,
}

impl Sync {
    pub(super) fn new() -> Self {
        let chips = u128::from(SYNC);
        let mut steps = vec![0.0; (2 * FURTHEST + 1) * COMPARED].into_boxed_slice();
        let mut energy = [0.0; 2 * FURTHEST + 1];
        for (step, samples) in steps.chunks_mut(COMPARED).enumerate() {
            let at = (step as f64 - FURTHEST as f64) / STEPS as f64;
            for (index, sample) in samples.iter_mut().enumerate() {
                *sample = wave(chips, (index + 1) as f64 - at) as f32;
            }
            energy[step] = dot(samples, samples);
        }
        let (before, after) = (FURTHEST - 1, FURTHEST + 1);
        let of = |step: usize| &steps[step * COMPARED..][..COMPARED];
        let per_step = of(before).iter().zip(of(after));
        let slope = per_step
            .map(|(before, after)| (f64::from(after - before) * STEPS as f64 / 2.0).powi(2))
            .sum();
        Self { steps, energy, slope }
    }

    fn product(&self, step: usize, sound: &[f32]) -> f64 {
        dot(&self.steps[step * COMPARED..][..COMPARED], &sound[1..=COMPARED])
    }

    /// The whole frame, counted from the first of `sound`, at which the sync fits best; none where
    /// that is as far as was looked.
    pub(super) fn best_lag(&self, sound: &[f32]) -> Option<usize> {
        let (mut best, mut most) = (0, 0.0);
        for lag in 0..=2 * REACH {
            let sound = &sound[lag..];
            let heard = dot(&sound[1..=COMPARED], &sound[1..=COMPARED]);
            let likeness = self.product(FURTHEST, sound).powi(2) / heard.max(f64::MIN_POSITIVE);
            if likeness > most {
                (best, most) = (lag, likeness);
            }
        }
        (0 < best && best < 2 * REACH).then_some(best)
    }

    /// Where the sync lies, less than a frame beside the first of `sound`.
    pub(super) fn place(&self, sound: &[f32]) -> Option<SyncFit> {
        let heard = dot(&sound[1..=COMPARED], &sound[1..=COMPARED]);
        let likeness = |step: usize| self.product(step, sound) / (heard * self.energy[step]).sqrt();
        let mut step = FURTHEST;
        let sign = likeness(step).signum();
        let mut three = [step - 1, step, step + 1].map(|step| likeness(step) * sign);
        while three[0] > three[1] && step > 1 {
            step -= 1;
            three = [likeness(step - 1) * sign, three[0], three[1]];
        }
        while three[2] > three[1] && step < 2 * FURTHEST - 1 {
            step += 1;
            three = [three[1], three[2], likeness(step + 1) * sign];
        }
        let ([before, here, after], beside) = (three, top(three));
        let at = (step as f64 - FURTHEST as f64 + beside) / STEPS as f64;
        let peak = here + (after - before) * beside / 4.0;
        // Not a number where the sound is silent.
        if peak.is_nan() || peak < LEAST_FIT {
            return None;
        }
        Some(SyncFit { at, likeness: peak * sign, uncertainty: self.uncertainty(peak) })
    }

    /// What is not the sync counts as noise of even density: it moves the place by as much as the
    /// slope of the sync leaves it to (the Cramér-Rao bound of a delay).
    fn uncertainty(&self, likeness: f64) -> f64 {
        let noise = (1.0 / likeness.powi(2) - 1.0).max(0.0);
        let variance = noise * self.energy[FURTHEST] / (COMPARED as f64 * self.slope);
        ARITHMETIC + DEVIATIONS * variance.sqrt()
    }
}

/// The sum of products.
fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}
