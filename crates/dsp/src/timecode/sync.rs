use super::{CHIP, SYNC, SYNC_CHIPS, wave};
use crate::fit::top;

/// Minimum fit. With noise 3 dB below the mark, it is 0.8.
const MIN_FIT: f64 = 0.5;
/// Distance from matching signs, in frames.
pub(super) const REACH: usize = CHIP;
const STEPS: usize = 8;
/// Half a frame and one more step.
const FURTHEST: usize = STEPS / 2 + 1;
/// Within [`FURTHEST`] steps, these lie between the sync's own chips.
const COMPARED: usize = (SYNC_CHIPS - 1) * CHIP - 1;
const ARITHMETIC: f64 = 0.002;
/// One of 5·10⁸ marks lies beyond six deviations.
const DEVIATIONS: f64 = 6.0;

pub(super) struct Sync {
    /// From −[`FURTHEST`] on.
    steps: Box<[f32]>,
    energy: [f64; 2 * FURTHEST + 1],
    /// At step 0, per frame².
    slope: f64,
}

pub(super) struct SyncFit {
    pub(super) at: f64,
    /// Normalised product; its sign is the polarity.
    pub(super) similarity: f64,
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

    pub(super) fn best_lag(&self, sound: &[f32]) -> Option<usize> {
        let (mut best, mut maximum) = (0, 0.0);
        for lag in 0..=2 * REACH {
            let sound = &sound[lag..];
            let received = dot(&sound[1..=COMPARED], &sound[1..=COMPARED]);
            let similarity =
                self.product(FURTHEST, sound).powi(2) / received.max(f64::MIN_POSITIVE);
            if similarity > maximum {
                (best, maximum) = (lag, similarity);
            }
        }
        (0 < best && best < 2 * REACH).then_some(best)
    }

    /// Less than a frame from the first.
    pub(super) fn place(&self, sound: &[f32]) -> Option<SyncFit> {
        let received = dot(&sound[1..=COMPARED], &sound[1..=COMPARED]);
        let similarity =
            |step: usize| self.product(step, sound) / (received * self.energy[step]).sqrt();
        let mut step = FURTHEST;
        let sign = similarity(step).signum();
        let mut three = [step - 1, step, step + 1].map(|step| similarity(step) * sign);
        while three[0] > three[1] && step > 1 {
            step -= 1;
            three = [similarity(step - 1) * sign, three[0], three[1]];
        }
        while three[2] > three[1] && step < 2 * FURTHEST - 1 {
            step += 1;
            three = [three[1], three[2], similarity(step + 1) * sign];
        }
        let ([before, here, after], alongside) = (three, top(three));
        let at = (step as f64 - FURTHEST as f64 + alongside) / STEPS as f64;
        let peak = here + (after - before) * alongside / 4.0;
        // NaN for silence.
        if peak.is_nan() || peak < MIN_FIT {
            return None;
        }
        Some(SyncFit { at, similarity: peak * sign, uncertainty: self.uncertainty(peak) })
    }

    /// Cramér–Rao bound of a delay in white noise.
    fn uncertainty(&self, similarity: f64) -> f64 {
        let noise = (1.0 / similarity.powi(2) - 1.0).max(0.0);
        let variance = noise * self.energy[FURTHEST] / (COMPARED as f64 * self.slope);
        ARITHMETIC + DEVIATIONS * variance.sqrt()
    }
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}
