//! A simulated sound card: its wake-up times, and the times at which frames meet the converter.

use fastrand::Rng;
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::{Ppm, Rate};

use crate::clock::{ClockError, ClockEvent, SimClock, TrueTime};
use crate::link::Jitter;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CardModel {
    pub period: Frames,
    /// In the ring, at least two.
    pub periods: i64,
    pub error: ClockError,
    pub wakes_late: Jitter,
}

impl CardModel {
    /// Two periods of 48 frames, without errors; wakes on time.
    pub const IDEAL: Self = Self {
        period: Frames::new(48),
        periods: 2,
        error: ClockError::NONE,
        wakes_late: Jitter::None,
    };

    pub fn off_by(ppm: f64) -> Self {
        let error = ClockError { rate: Ppm::from_f64(ppm), ..ClockError::NONE };
        Self { error, ..Self::IDEAL }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct SimCard {
    pub(crate) model: CardModel,
    rate: Rate,
    clock: SimClock,
    rng: Rng,
    next: i64,
}

impl SimCard {
    pub(crate) fn new(
        model: CardModel,
        events: Vec<(TrueTime, ClockEvent)>,
        rate: Rate,
        seed: u64,
    ) -> Self {
        let clock = SimClock::new(model.error, events, seed);
        Self { model, rate, clock, rng: Rng::with_seed(!seed), next: 0 }
    }

    /// Time at which frame `index` meets the converter. Must be called by then.
    fn meets(&mut self, index: i64, now: TrueTime) -> TrueTime {
        let reading = LocalTime::ZERO + self.rate.span_of(Frames::new(index));
        let start = self.model.error.start - LocalTime::ZERO;
        self.clock.when(reading + start, now)
    }

    pub(crate) const fn next_frame(&self) -> i64 {
        self.next
    }

    /// Wake-up time for the next captured block. Must be called by then.
    pub(crate) fn capture_wake(&mut self, now: TrueTime) -> TrueTime {
        let full = self.meets(self.next + self.model.period.count(), now);
        full.after(self.late())
    }

    pub(crate) fn playback_wake(&mut self, now: TrueTime) -> TrueTime {
        let lead = self.model.period.count() * (self.model.periods - 1);
        self.next = self.next.max(lead);
        let free = self.meets(self.next - lead, now);
        free.after(self.late())
    }

    fn late(&mut self) -> Span {
        self.model.wakes_late.draw(&mut self.rng)
    }

    /// Returns the block's first frame, its time at the converter, and the frames dropped before
    /// it.
    pub(crate) fn capture(&mut self, now: TrueTime) -> (i64, TrueTime, Frames) {
        let ring = self.model.period.count() * self.model.periods;
        let mut skipped = 0;
        while self.past_meets(self.next + skipped + ring, now) {
            skipped += self.model.period.count();
        }
        let first = self.next + skipped;
        self.next = first + self.model.period.count();
        (first, self.met(first, now), Frames::new(skipped))
    }

    /// Returns the block's first frame, its time at the converter, and the frames of silence before
    /// it.
    pub(crate) fn play(&mut self, now: TrueTime) -> (i64, TrueTime, Frames) {
        let mut skipped = 0;
        while self.past_meets(self.next + skipped, now) {
            skipped += self.model.period.count();
        }
        let first = self.next + skipped;
        self.next = first + self.model.period.count();
        (first, self.meets(first, now), Frames::new(skipped))
    }

    fn past_meets(&mut self, index: i64, now: TrueTime) -> bool {
        let start = self.model.error.start;
        self.clock.reading(now) >= start + self.rate.span_of(Frames::new(index))
    }

    pub(crate) fn met(&mut self, index: i64, now: TrueTime) -> TrueTime {
        let start = self.model.error.start;
        let mut at = now;
        for _ in 0..4 {
            let ahead = self.clock.reading(at) - (start + self.rate.span_of(Frames::new(index)));
            at = at.after(-ahead);
        }
        at
    }
}
