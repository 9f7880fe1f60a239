//! Finds sound that was resampled on its way: it lies between the frames that packets brought, and
//! its frames are further apart or closer together than theirs.

use tautline_dsp::align::{Along, Interpolator, Likeness, refine};
use tautline_dsp::resample::Quality;
use tautline_proto::time::{FineFrames, Frames, MediaPoint, MediaTime};

use super::recent::RecentFrames;

/// Frames compared at a time: only the right place matches, and a change of place spoils little.
pub(super) const WINDOW: usize = 1024;
/// The part of a window's energy that may be left over: −30 dB. Resamplers differ in what they do to
/// the highest tones: half a frame from the next, the shorter ones take some dB off them.
const LEFT_OVER: f64 = 1e-3;
/// How far from the sound, in frames, refinement may begin and still find it.
const NEAR: i64 = 8;
/// Below this correlation at the best of those places nothing is refined.
const LIKELY: f64 = 0.5;
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

pub(super) struct Between {
    interpolator: Interpolator,
    /// What would be heard at a place, and a little after it.
    here: Vec<f32>,
    after: Vec<f32>,
}

impl Between {
    pub(super) fn new() -> Self {
        let interpolator = Interpolator::new(Quality::Best, WINDOW);
        Self { interpolator, here: vec![0.0; WINDOW], after: vec![0.0; WINDOW] }
    }

    /// Where `samples`, a window, come from: near `guess` and with about this drift, or `None`.
    pub(super) fn place(
        &mut self,
        samples: &[f32],
        brought: &RecentFrames,
        guess: MediaTime,
        drift: f64,
    ) -> Option<WindowOrigin> {
        let Self { interpolator, here, after } = self;
        let near = Along { place: nearest(samples, brought, guess)?, drift };
        let mut read = |along: Along, out: &mut [f32]| {
            interpolator.read(along, out, |first, out| {
                let brought = brought.from(guess + Frames::new(first));
                out.iter_mut().zip(brought).for_each(|(out, sample)| *out = sample);
            });
        };
        // No window is so still that a round less would do.
        let along = refine(samples, near, [&mut *here, after], (ROUNDS, 0.0), &mut read)?;
        read(along, here);
        // False for the NaN of a hole.
        let left_over = Likeness::between(samples, here).left_over();
        let found = along.place.abs() <= NEAR as f64 + 1.0 && left_over <= LEFT_OVER;
        let parts = FineFrames::from_parts((along.place * FineFrames::ONE as f64) as i64);
        let (point, drift) = (MediaPoint::from(guess) + parts, along.drift);
        found.then_some(WindowOrigin { point, drift })
    }
}

fn nearest(samples: &[f32], brought: &RecentFrames, guess: MediaTime) -> Option<f64> {
    let alike = |away: i64| {
        let there = brought.run(guess + Frames::new(away), WINDOW).unwrap_or_default();
        Likeness::between(samples, there).correlation()
    };
    // A hole makes it NaN, which is no likeness.
    let likely =
        (-NEAR..=NEAR).map(|away| (away, alike(away))).filter(|(_, alike)| *alike >= LIKELY);
    likely.max_by(|(_, one), (_, other)| one.total_cmp(other)).map(|(away, _)| away as f64)
}
