use super::{NUMBERS, SPACING};

#[derive(Debug, Clone, Copy)]
pub(super) struct MarkTrack {
    number: u32,
    start: f64,
    pub(super) gain: f64,
    step: f64,
    is_clear: bool,
    missed: u32,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct ReceivedMarks {
    pub(super) number: u32,
    pub(super) start: f64,
    pub(super) gain: f64,
    pub(super) is_clear: bool,
}

/// Missed marks after which the run may have ended.
const MAX_MISSED: u32 = 16;
/// Maximum without a slip, in frames.
const MAX_BESIDE: f64 = 3.0;
const MAX_DRIFT: f64 = 1e-3;
const OF_PLACE: f64 = 0.3;
const OF_STEP: f64 = 0.02;
const OF_GAIN: f64 = 0.1;

impl MarkTrack {
    pub(super) fn new(received: ReceivedMarks) -> Self {
        let ReceivedMarks { number, start, gain, is_clear } = received;
        Self { number, start, gain, step: SPACING as f64, is_clear, missed: 0 }
    }

    pub(super) fn before(received: ReceivedMarks) -> Self {
        let number = (received.number + NUMBERS - 1) % NUMBERS;
        Self::new(ReceivedMarks { number, start: received.start - SPACING as f64, ..received })
    }

    pub(super) fn next(&self) -> (u32, f64) {
        let marks = self.missed + 1;
        ((self.number + marks) % NUMBERS, self.start + f64::from(marks) * self.step)
    }

    /// `None` if the run may have ended.
    pub(super) fn missed(mut self) -> Option<Self> {
        self.missed += 1;
        (self.missed < MAX_MISSED).then_some(self)
    }

    pub(super) fn is_held(&self) -> bool {
        self.missed == 0
    }

    pub(super) fn is_clear(&self) -> bool {
        self.is_clear && self.is_held()
    }

    pub(super) fn follow(&mut self, received: ReceivedMarks) {
        let (number, start) = self.next();
        let alongside = received.start - start;
        if number != received.number || alongside.abs() > MAX_BESIDE {
            let step = self.step;
            *self = Self { step, ..Self::new(received) };
            return;
        }
        let marks = f64::from(self.missed + 1);
        let [of_place, of_gain] = if received.is_clear { [1.0; 2] } else { [OF_PLACE, OF_GAIN] };
        let step = self.step + alongside * OF_STEP / marks;
        let spacing = SPACING as f64;
        self.step = step.clamp(spacing * (1.0 - MAX_DRIFT), spacing * (1.0 + MAX_DRIFT));
        self.start = start + alongside * of_place;
        self.gain += (received.gain - self.gain) * of_gain;
        self.number = number;
        self.is_clear = received.is_clear;
        self.missed = 0;
    }
}
