//! How far apart two taps of one sound are: two channels of a recording, one of which hears it later.
//!
//! Any sound will do, and no mark is in it. The recording is cut into windows. In each the delay is
//! found to a frame by correlation (`correlation`), of periodic sound by its onset or envelope (`periodic`),
//! and to a part of a frame by the phase of the
//! cross spectrum (`fitting`), with how far that may be from the truth; where it cannot be told the
//! window is void and says why. Along the windows the delay drifts, and steps where frames were
//! dropped or inserted between the taps (`series`).
//!
//! Samples in, figures out: where they come from is for others. Every instant is one of the first
//! tap, in frames of the recording; a delay is how much later the second has what the first had then,
//! negative where it is earlier.

mod correlation;
mod fitting;
mod periodic;
mod series;
#[cfg(test)]
mod tests;
mod words;

use tautline_proto::time::{FineFrames, Frames, Span};
use tautline_proto::units::{Ppm, Rate};

pub use words::QUESTION;

/// How two taps are held against each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BetweenOptions {
    pub rate: Rate,
    /// Frames for one delay; a recording that is shorter is one window.
    pub window: Frames,
    /// The longest delay that is looked for, either way.
    pub most: Frames,
}

impl BetweenOptions {
    /// A delay of each half a second, of 100 ms at most.
    pub fn new(rate: Rate) -> Self {
        let [window, most] = [500, 100].map(|millis| rate.frames_within(Span::from_millis(millis)));
        Self { rate, window, most }
    }
}

/// How far apart two taps are, along a recording.
#[derive(Debug, Clone, PartialEq)]
pub struct TapDelays {
    pub rate: Rate,
    /// Frames that each delay is of.
    pub window: Frames,
    /// One after the other, each beginning where the last ends.
    pub windows: Vec<TapWindow>,
    /// Where the delay changed at once, by rising frame.
    pub steps: Vec<DelayStep>,
    /// How the delay changes apart from steps; positive where it grows.
    pub drift: Option<DelayDrift>,
}

/// A part of a recording that gives one delay.
#[derive(Debug, Clone, PartialEq)]
pub struct TapWindow {
    /// The frame of the first tap in its middle, of which the delay is.
    pub at: Frames,
    /// The delay, or why there is none.
    pub delay: Result<TapDelay, Void>,
}

/// The delay in the middle of a window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TapDelay {
    /// How much later the second tap has the sound.
    pub delay: FineFrames,
    /// In 95 of 100 windows the truth is no further from it, either way.
    pub uncertainty: FineFrames,
    /// How the delay changes within the window, and how far that may be from the truth.
    pub drift: DelayDrift,
    /// How far the next best delay lies below it, in dB of the correlation: 3 at least, or less if the sound
    /// is periodic.
    pub confidence_db: f64,
    /// How much louder the second tap is; negative where its polarity is the other.
    pub gain: f64,
    /// The period if the sound of the window is periodic and does not prove the delay: it is carried on from
    /// the nearest window that proves it, and may have changed by any number of periods since.
    pub modulo: Option<FineFrames>,
}

/// How fast a delay changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DelayDrift {
    /// Frames of delay for each frame of the recording; positive where it grows.
    pub ppm: Ppm,
    /// In 95 of 100 cases the truth is no further from it, either way.
    pub uncertainty: Ppm,
}

/// Why a window has no delay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Void {
    /// A tap is below −100 dBFS there: the first, or the second.
    Silent(Tap),
    /// Nothing of the one stands out in the other within the range that was searched.
    Unlike,
    /// These delays are as good.
    Ambiguous {
        /// The delays, the best first; if the sound is periodic the nearest to 0 first.
        delays: Vec<FineFrames>,
        /// The period of the sound, if it is periodic and no onset or envelope proves a delay.
        period: Option<FineFrames>,
    },
    /// The best lies at the end of the range that was searched, and beyond it may be a better.
    EndOfRange,
    /// The second tap has what belongs to it before its beginning or after its end.
    PastEnd,
    /// The delay stepped within it.
    Stepped,
    /// No line of delay and drift settles in it.
    Unsettled,
}

/// One of the two taps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tap {
    /// From which instants are counted.
    First,
    /// Which is later or earlier.
    Second,
}

/// A delay that changed at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DelayStep {
    /// The first frame of the first tap that is heard with the new delay, or is lacking.
    pub at: Frames,
    /// How much longer the delay is from there on; negative where it is shorter. Frames inserted
    /// in the second tap, or dropped from it.
    pub by: FineFrames,
    /// The period if it may be any number of periods more or less.
    pub modulo: Option<FineFrames>,
}

impl TapDelays {
    /// The windows that have a delay, with the frame in the middle of each.
    pub fn found(&self) -> impl Iterator<Item = (Frames, &TapDelay)> {
        self.windows.iter().filter_map(|window| Some((window.at, window.delay.as_ref().ok()?)))
    }
}

/// Holds `second` against `first`; both begin at one instant.
pub fn between(first: &[f32], second: &[f32], options: &BetweenOptions) -> TapDelays {
    series::TapSeries::of(first, second, options).told()
}

/// So many frames, to 2⁻³² of one.
fn fine(frames: f64) -> FineFrames {
    // The cast saturates.
    FineFrames::from_parts((frames * FineFrames::ONE as f64).round() as i64)
}

/// Frames to a frame.
fn ppm(drift: f64) -> Ppm {
    Ppm::from_f64(drift * 1e6)
}
