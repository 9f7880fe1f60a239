//! Where the next mark must be.

use super::{NUMBERS, SPACING};

/// The marks of a run as they come.
#[derive(Debug, Clone, Copy)]
pub(super) struct MarkTrack {
    /// The last one: its number, where it began and how loud it was.
    number: u32,
    start: f64,
    pub(super) gain: f64,
    /// Frames from one to the next.
    step: f64,
    /// Whether its signs were heard.
    is_clear: bool,
    /// Marks that were not heard since.
    missed: u32,
}

/// A mark as it was heard.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeardTrack {
    pub(super) number: u32,
    pub(super) start: f64,
    pub(super) gain: f64,
    pub(super) is_clear: bool,
}

/// After so many that were not heard, they may have ended.
const MOST_MISSED: u32 = 16;
/// Frames by which a mark may be beside its place without a slip.
const MOST_BESIDE: f64 = 3.0;
/// Cards that differ by more are no cards.
const MOST_DRIFT: f64 = 1e-3;
/// How much of what one mark says is believed, if its signs were not heard: of its place, of the
/// distance between marks, of its gain.
const OF_PLACE: f64 = 0.3;
const OF_STEP: f64 = 0.02;
const OF_GAIN: f64 = 0.1;

impl MarkTrack {
    pub(super) fn new(heard: HeardTrack) -> Self {
        let HeardTrack { number, start, gain, is_clear } = heard;
        Self { number, start, gain, step: SPACING as f64, is_clear, missed: 0 }
    }

    /// Of which this one is the next.
    pub(super) fn before(heard: HeardTrack) -> Self {
        let number = (heard.number + NUMBERS - 1) % NUMBERS;
        Self::new(HeardTrack { number, start: heard.start - SPACING as f64, ..heard })
    }

    /// The number of the next mark, and where it is to begin.
    pub(super) fn next(&self) -> (u32, f64) {
        let marks = self.missed + 1;
        ((self.number + marks) % NUMBERS, self.start + f64::from(marks) * self.step)
    }

    /// Without the next one, if they are still to be expected then.
    pub(super) fn missed(mut self) -> Option<Self> {
        self.missed += 1;
        (self.missed < MOST_MISSED).then_some(self)
    }

    /// Whether the last one was heard.
    pub(super) fn is_held(&self) -> bool {
        self.missed == 0
    }

    /// Whether the signs of the last one were heard.
    pub(super) fn is_clear(&self) -> bool {
        self.is_clear && self.is_held()
    }

    /// Follows a mark that was heard.
    pub(super) fn follow(&mut self, heard: HeardTrack) {
        let (number, start) = self.next();
        let beside = heard.start - start;
        if number != heard.number || beside.abs() > MOST_BESIDE {
            let step = self.step;
            *self = Self { step, ..Self::new(heard) };
            return;
        }
        let marks = f64::from(self.missed + 1);
        let [of_place, of_gain] = if heard.is_clear { [1.0; 2] } else { [OF_PLACE, OF_GAIN] };
        let step = self.step + beside * OF_STEP / marks;
        let spacing = SPACING as f64;
        self.step = step.clamp(spacing * (1.0 - MOST_DRIFT), spacing * (1.0 + MOST_DRIFT));
        self.start = start + beside * of_place;
        self.gain += (heard.gain - self.gain) * of_gain;
        self.number = number;
        self.is_clear = heard.is_clear;
        self.missed = 0;
    }
}
