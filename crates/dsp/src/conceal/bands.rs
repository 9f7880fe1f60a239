use core::f64::consts::PI;

use super::model::dot;

/// Low band at one sample per `factor` frames, and back: a sinc with a Hann window (Oppenheim and
/// Schafer, "Discrete-Time Signal Processing", §7.5).
#[derive(Debug, Clone)]
pub(super) struct Bands {
    factor: usize,
    take: Box<[f32]>,
    /// For each frame between two low samples, oldest first.
    back: Box<[f64]>,
}

impl Bands {
    const REACH: usize = 8;
    pub(super) const TAPS: usize = 2 * Self::REACH;
    /// Edge of the low band, at half amplitude, relative to the low rate.
    const EDGE: f64 = 0.375;

    /// Allocates here only.
    pub(super) fn new(factor: usize) -> Self {
        let reach = (Self::REACH * factor) as f64;
        let weight = |away: f64| {
            let turn = 2.0 * PI * Self::EDGE * away / factor as f64;
            let sinc = if away == 0.0 { 1.0 } else { turn.sin() / turn };
            let window = 0.5 + 0.5 * (PI * (away / reach).clamp(-1.0, 1.0)).cos();
            2.0 * Self::EDGE * sinc * window
        };
        let take = (0..Self::TAPS * factor).map(|at| weight(at as f64 + 1.0 - reach));
        let back = (0..factor).flat_map(|phase| {
            let newest = phase as f64 + 1.0 - reach;
            (0..Self::TAPS).rev().map(move |older| newest + (older * factor) as f64)
        });
        Self {
            factor,
            take: take.map(|weight| (weight / factor as f64) as f32).collect(),
            back: back.map(weight).collect(),
        }
    }

    pub(super) const fn factor(&self) -> usize {
        self.factor
    }

    pub(super) fn count(&self, frames: usize) -> usize {
        (frames + self.factor).saturating_sub(self.take.len()) / self.factor
    }

    pub(super) fn take(&self, sound: &[f32], low: &mut [f64]) {
        let newest = sound.len() - self.take.len();
        for (back, sample) in low.iter_mut().rev().enumerate() {
            let begin = newest - back * self.factor;
            *sample = f64::from(dot(&sound[begin..begin + self.take.len()], &self.take));
        }
    }

    /// `phase` counts from the first frame that needs all [`Bands::TAPS`] samples.
    pub(super) fn back(&self, low: &[f64], phase: usize) -> f64 {
        let weights = &self.back[phase * Self::TAPS..][..Self::TAPS];
        dot(&low[low.len() - Self::TAPS..], weights)
    }
}
