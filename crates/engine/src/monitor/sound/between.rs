//! Finds resampled sound, between packets' frames at a slightly different rate.

use tautline_dsp::align::{Along, LineFitter, NEAR, Similarity, likeliest};
use tautline_dsp::resample::Quality;
use tautline_proto::time::{FineFrames, Frames, MediaPoint, MediaTime};

use super::recent::RecentFrames;

/// Frames per comparison: enough for a unique match, and few enough that a change of place affects
/// little sound.
pub(super) const WINDOW: usize = 1024;
/// Maximum residual energy: −30 dB. Resamplers differ at high frequencies; short resamplers
/// attenuate them by a few dB between frames.
const LEFT_OVER: f64 = 1e-3;
/// Refinement rounds; each about squares the error.
const ROUNDS: usize = 5;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct WindowOrigin {
    pub(super) point: MediaPoint,
    pub(super) drift: f64,
}

impl From<MediaTime> for WindowOrigin {
    fn from(first: MediaTime) -> Self {
        Self { point: first.into(), drift: 0.0 }
    }
}

impl WindowOrigin {
    pub(super) fn index_of(&self, frame: MediaTime) -> f64 {
        (MediaPoint::from(frame) - self.point).as_f64() / (1.0 + self.drift)
    }
}

pub(super) struct Between(LineFitter);

impl Between {
    pub(super) fn new() -> Self {
        Self(LineFitter::new(Quality::Best, WINDOW))
    }

    pub(super) fn place(
        &mut self,
        samples: &[f32],
        brought: &RecentFrames,
        guess: MediaTime,
        drift: f64,
    ) -> Option<WindowOrigin> {
        let (nearest, _) = likeliest(|away| {
            let there = brought.run(guess + Frames::new(away), WINDOW).unwrap_or_default();
            Similarity::between(samples, there).correlation().max(0.0)
        })?;
        let sound = |first: i64, out: &mut [f32]| {
            let brought = brought.from(guess + Frames::new(first));
            out.iter_mut().zip(brought).for_each(|(out, sample)| *out = sample);
        };
        let near = Along { place: nearest as f64, drift };
        let along = self.0.refine(samples, near, (ROUNDS, 0.0), sound)?;
        let left_over = self.0.similarity(samples, along, sound).left_over();
        let found = along.place.abs() <= NEAR as f64 + 1.0 && left_over <= LEFT_OVER;
        let parts = FineFrames::from_parts((along.place * FineFrames::ONE as f64) as i64);
        let (point, drift) = (MediaPoint::from(guess) + parts, along.drift);
        found.then_some(WindowOrigin { point, drift })
    }
}
