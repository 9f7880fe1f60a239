//! Finds sound that was resampled on its way: it lies between the frames that packets brought, and
//! its frames are further apart or closer together than theirs.

use tautline_dsp::align::{Along, Likeness, LineFitter, NEAR, likeliest};
use tautline_dsp::resample::Quality;
use tautline_proto::time::{FineFrames, Frames, MediaPoint, MediaTime};

use super::recent::RecentFrames;

/// Frames compared at a time: only the right place matches, and a change of place spoils little.
pub(super) const WINDOW: usize = 1024;
/// The part of a window's energy that may be left over: −30 dB. Resamplers differ in what they do to
/// the highest tones: half a frame from the next, the shorter ones take some dB off them.
const LEFT_OVER: f64 = 1e-3;
/// Each round of refinement leaves about the square of the error before it.
const ROUNDS: usize = 5;

/// Where a window of sound comes from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct WindowOrigin {
    pub(super) point: MediaPoint,
    /// Frames of the stream for each of the window, less one.
    pub(super) drift: f64,
}

impl From<MediaTime> for WindowOrigin {
    fn from(first: MediaTime) -> Self {
        Self { point: first.into(), drift: 0.0 }
    }
}

impl WindowOrigin {
    /// How many frames into the window `frame` is heard.
    pub(super) fn index_of(&self, frame: MediaTime) -> f64 {
        (MediaPoint::from(frame) - self.point).as_f64() / (1.0 + self.drift)
    }
}

/// Looks between frames.
pub(super) struct Between(LineFitter);

impl Between {
    pub(super) fn new() -> Self {
        Self(LineFitter::new(Quality::Best, WINDOW))
    }

    /// Where `samples`, a window, come from: near `guess` and with about this drift, or `None`.
    pub(super) fn place(
        &mut self,
        samples: &[f32],
        brought: &RecentFrames,
        guess: MediaTime,
        drift: f64,
    ) -> Option<WindowOrigin> {
        let (nearest, _) = likeliest(|away| {
            let there = brought.run(guess + Frames::new(away), WINDOW).unwrap_or_default();
            // What is upside down is other sound.
            Likeness::between(samples, there).correlation().max(0.0)
        })?;
        let sound = |first: i64, out: &mut [f32]| {
            let brought = brought.from(guess + Frames::new(first));
            out.iter_mut().zip(brought).for_each(|(out, sample)| *out = sample);
        };
        let near = Along { place: nearest as f64, drift };
        // No window is so still that a round less would do.
        let along = self.0.refine(samples, near, (ROUNDS, 0.0), sound)?;
        // False for the NaN of a hole.
        let left_over = self.0.likeness(samples, along, sound).left_over();
        let found = along.place.abs() <= NEAR as f64 + 1.0 && left_over <= LEFT_OVER;
        let parts = FineFrames::from_parts((along.place * FineFrames::ONE as f64) as i64);
        let (point, drift) = (MediaPoint::from(guess) + parts, along.drift);
        found.then_some(WindowOrigin { point, drift })
    }
}
