//! The low band of a sound at a lower rate, and back.

use core::f64::consts::PI;

use super::model::dot;

/// Takes the low band out, one low sample for every so many frames, and puts it back. Both ways
/// use one symmetric filter: a sinc under a Hann window (Oppenheim and Schafer, "Discrete-Time
/// Signal Processing", §7.5) that reaches [`Bands::REACH`] low samples either way.
#[derive(Debug, Clone)]
pub(super) struct Bands {
    factor: usize,
    /// Weights of the frames around a low sample, and a 0.
    take: Box<[f32]>,
    /// For each frame between two low samples, the weights of those around it, oldest first.
    back: Box<[f64]>,
}

impl Bands {
    /// Low samples that the filter reaches either way.
    const REACH: usize = 8;
    /// Low samples that make a frame.
    pub(super) const TAPS: usize = 2 * Self::REACH;
    /// Where the filter has fallen by half, in parts of the low rate.
    const EDGE: f64 = 0.375;

    /// One low sample for each `factor` frames. Allocates; nothing later does.
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

    /// Low samples that can be taken out of so many frames.
    pub(super) fn count(&self, frames: usize) -> usize {
        (frames + self.factor).saturating_sub(self.take.len()) / self.factor
    }

    /// Takes the newest low samples out of `sound`, oldest first. The last of them lies so far
    /// before the end of the sound that [`Bands::TAPS`] more are needed before that end can be
    /// put back.
    pub(super) fn take(&self, sound: &[f32], low: &mut [f64]) {
        let newest = sound.len() - self.take.len();
        for (back, sample) in low.iter_mut().rev().enumerate() {
            let begin = newest - back * self.factor;
            *sample = f64::from(dot(&sound[begin..begin + self.take.len()], &self.take));
        }
    }

    /// The frame that is `phase` frames after the first that needs all of the last
    /// [`Bands::TAPS`] samples of `low`; below the factor.
    pub(super) fn back(&self, low: &[f64], phase: usize) -> f64 {
        let weights = &self.back[phase * Self::TAPS..][..Self::TAPS];
        dot(&low[low.len() - Self::TAPS..], weights)
    }
}
