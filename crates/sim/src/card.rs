//! A simulated sound card: when it wakes its program, and at which times its frames meet the
//! converter.

use fastrand::Rng;
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::{Ppm, Rate};

use crate::clock::{ClockError, ClockEvent, SimClock, TrueTime};
use crate::link::Jitter;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CardModel {
    pub period: Frames,
    /// Number of periods in its ring, at least two.
    pub periods: i64,
    /// Error of the converter's clock relative to true time.
    pub error: ClockError,
    pub wakes_late: Jitter,
}

impl CardModel {
    /// A card with two periods of 48 frames, without errors, that wakes its program in time.
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

    /// Time at which frame `index` meets the converter. Call it no later than that time.
    fn meets(&mut self, index: i64, now: TrueTime) -> TrueTime {
        let reading = LocalTime::ZERO + self.rate.span_of(Frames::new(index));
        let start = self.model.error.start - LocalTime::ZERO;
        self.clock.when(reading + start, now)
    }

    /// The first frame of the next block if the card drops none.
    pub(crate) const fn next_frame(&self) -> i64 {
        self.next
    }

    /// Time at which the program wakes to take the next captured block. Call it no later than that
    /// time.
    pub(crate) fn capture_wake(&mut self, now: TrueTime) -> TrueTime {
        let full = self.meets(self.next + self.model.period.count(), now);
        full.after(self.late())
    }

    /// Time at which the program wakes to fill the next block to play. Its place in the ring is
    /// free then.
    pub(crate) fn playback_wake(&mut self, now: TrueTime) -> TrueTime {
        let lead = self.model.period.count() * (self.model.periods - 1);
        // The card starts with a ring of silence.
        self.next = self.next.max(lead);
        let free = self.meets(self.next - lead, now);
        free.after(self.late())
    }

    fn late(&mut self) -> Span {
        self.model.wakes_late.draw(&mut self.rng)
    }

    /// Takes the next captured block at `now`. Returns its first frame, the time at which that
    /// frame met the converter, and the number of frames that the card dropped before it.
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

    /// Fills the next block at `now`. Returns its first frame, the time at which that frame meets
    /// the converter, and the number of frames of silence that the card played before it.
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
