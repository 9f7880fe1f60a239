//! Finds sound that was resampled on its way: it lies between the frames that packets brought, and
//! its frames are further apart or closer together than theirs.

use tautline_dsp::align::{Likeness, Nudge, nudge};
use tautline_dsp::resample::{Quality, Resampler, Step};
use tautline_proto::time::{FineFrames, Frames, MediaPoint, MediaTime};

use super::recent::RecentFrames;

/// Frames compared at a time: long enough that only the right place matches, short enough that a
/// change of place spoils little.
pub(super) const WINDOW: usize = 1024;
/// The part of a window's energy that may be left over: −30 dB. Resamplers differ in what they do to
/// the highest tones: half a frame from the next, the shorter ones take some dB off them.
const LEFT_OVER: f64 = 1e-3;
/// How far from where it is looked for the sound may be, in frames, for what is refined from there to
/// find it.
const NEAR: i64 = 8;
/// Below this correlation at the best of those places nothing is refined.
const LIKELY: f64 = 0.5;
/// Each round of refinement leaves about the square of the error before it.
const ROUNDS: usize = 5;
/// Distance over which the slope of the sound is taken, in frames.
const APART: f64 = 1.0 / 64.0;
/// Two cards run no further apart than this.
const MOST_DRIFT: f64 = 1e-3;

/// Where a window of sound comes from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct WindowOrigin {
    /// What its first frame is.
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
    resampler: Resampler,
    /// What was brought, what of it would be heard at a place, and a little after it.
    input: Vec<f32>,
    here: Vec<f32>,
    after: Vec<f32>,
}

impl Between {
    pub(super) fn new() -> Self {
        let resampler = Resampler::new(Quality::Best, 1, WINDOW);
        let input = Vec::with_capacity(WINDOW + 4 * resampler.half());
        let (here, after) = (vec![0.0; WINDOW], vec![0.0; WINDOW]);
        Self { resampler, input, here, after }
    }

    /// Where `samples`, a window, come from: near `guess` and with about this drift, or `None`.
    pub(super) fn place(
        &mut self,
        samples: &[f32],
        brought: &RecentFrames,
        guess: MediaTime,
        mut drift: f64,
    ) -> Option<WindowOrigin> {
        let mut away = nearest(samples, brought, guess)?;
        for _ in 0..ROUNDS {
            self.render(brought, guess, away, drift);
            core::mem::swap(&mut self.here, &mut self.after);
            self.render(brought, guess, away + APART, drift);
            core::mem::swap(&mut self.here, &mut self.after);
            let Nudge { further, faster } = nudge(samples, &self.here, &self.after, APART)?;
            away += further.clamp(-1.0, 1.0);
            drift = (drift + faster).clamp(-MOST_DRIFT, MOST_DRIFT);
        }
        self.render(brought, guess, away, drift);
        // False for the NaN of a hole.
        let left_over = Likeness::between(samples, &self.here).left_over();
        let found = away.abs() <= NEAR as f64 + 1.0 && left_over <= LEFT_OVER;
        let parts = FineFrames::from_parts((away * FineFrames::ONE as f64) as i64);
        found.then(|| WindowOrigin { point: MediaPoint::from(guess) + parts, drift })
    }

    /// What would be heard in a window that begins `away` frames from `guess`.
    fn render(&mut self, brought: &RecentFrames, guess: MediaTime, away: f64, drift: f64) {
        let half = self.resampler.half();
        let whole = away.floor();
        let first = guess + Frames::new(whole as i64) - Frames::from_len(half);
        let count = WINDOW + 2 * half + 4;
        self.input.clear();
        self.input.extend(brought.from(first).take(count));
        self.resampler.reset();
        self.resampler.pass(&self.input[..half]);
        self.resampler.push(&self.input[half..]);
        self.resampler.set_fraction(((away - whole) * FineFrames::ONE as f64) as u32);
        self.resampler.pull(&mut self.here, Step::from_ppm(drift * 1e6));
    }
}

/// The place within reach of `guess` that is most alike, if any is.
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
