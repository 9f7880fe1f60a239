//! Clock of a simulated host or card: converts true time to readings, and back.

use std::collections::VecDeque;

use fastrand::Rng;
use tautline_proto::time::{LocalTime, Span};
use tautline_proto::units::Ppm;

/// An instant on a perfect clock. Only the simulator knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct TrueTime(i64);

impl TrueTime {
    pub const ZERO: Self = Self(0);

    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    pub const fn after(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.as_nanos()))
    }

    pub const fn since(self, earlier: Self) -> Span {
        Span::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockError {
    pub start: LocalTime,
    pub rate: Ppm,
    /// Standard deviation of the rate's random walk, per √s.
    pub wander: Ppm,
}

impl ClockError {
    pub const NONE: Self = Self { start: LocalTime::ZERO, rate: Ppm::ZERO, wander: Ppm::ZERO };

    /// Starts at `start`, `ppm` fast. Wanders 0.01 ppm per √s, like quartz at room temperature.
    pub fn quartz(start: LocalTime, ppm: f64) -> Self {
        Self { start, rate: Ppm::from_f64(ppm), wander: Ppm::from_f64(0.01) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockEvent {
    Step(Span),
    Rate(Ppm),
}

#[derive(Debug, Clone, Copy)]
struct Stretch {
    begin: TrueTime,
    reading: LocalTime,
    rate: Ppm,
}

#[derive(Debug, Clone)]
pub struct SimClock {
    wander: f64,
    rng: Rng,
    events: VecDeque<(TrueTime, ClockEvent)>,
    /// Newest stretches. The oldest stretch is extended backwards.
    stretches: VecDeque<Stretch>,
}

const STRETCH: Span = Span::from_millis(250);
/// Stretches kept for readings of the recent past: 16 s.
const KEPT: usize = 64;

impl SimClock {
    pub fn new(error: ClockError, events: Vec<(TrueTime, ClockEvent)>, seed: u64) -> Self {
        let first = Stretch { begin: TrueTime::ZERO, reading: error.start, rate: error.rate };
        Self {
            wander: error.wander.as_f64(),
            rng: Rng::with_seed(seed),
            events: events.into(),
            stretches: VecDeque::from([first]),
        }
    }

    pub fn reading(&mut self, at: TrueTime) -> LocalTime {
        self.extend_to(at);
        self.stretches
            .iter()
            .rev()
            .find(|stretch| stretch.begin <= at)
            .or(self.stretches.front())
            .map_or(LocalTime::ZERO, |stretch| stretch.reading_at(at))
    }

    /// Time at which the clock shows `reading`, as predicted at `now`; at least `now`.
    pub fn when(&mut self, reading: LocalTime, now: TrueTime) -> TrueTime {
        let mut at = now;
        // The rate is within a few hundred ppm of one, so each iteration divides the error by ten
        // thousand.
        for _ in 0..6 {
            let left = reading - self.reading(at);
            if left <= Span::ZERO {
                break;
            }
            at = at.after(left);
        }
        at
    }

    fn extend_to(&mut self, at: TrueTime) {
        while let Some(last) = self.stretches.back().copied() {
            let ends = last.begin.after(STRETCH);
            let event = self.events.front().copied().filter(|(when, _)| *when <= at);
            let wanders = self.wander > 0.0 && ends <= at;
            let next = match event {
                Some((when, event)) if !wanders || when <= ends => {
                    self.events.pop_front();
                    let reading = last.reading_at(when);
                    match event {
                        ClockEvent::Step(by) => {
                            Stretch { begin: when, reading: reading + by, rate: last.rate }
                        }
                        ClockEvent::Rate(rate) => Stretch { begin: when, reading, rate },
                    }
                }
                _ if wanders => {
                    let seconds = STRETCH.as_millis_f64() / 1e3;
                    let change = normal(&mut self.rng) * self.wander * seconds.sqrt();
                    let rate = Ppm::from_f64(last.rate.as_f64() + change);
                    Stretch { begin: ends, reading: last.reading_at(ends), rate }
                }
                _ => return,
            };
            self.stretches.push_back(next);
            if self.stretches.len() > KEPT {
                self.stretches.pop_front();
            }
        }
    }
}

impl Stretch {
    fn reading_at(&self, at: TrueTime) -> LocalTime {
        self.reading + self.rate.stretch(at.since(self.begin))
    }
}

pub(crate) fn normal(rng: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.f64()).ln()).sqrt();
    radius * (core::f64::consts::TAU * rng.f64()).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> TrueTime {
        TrueTime::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn a_clock_that_is_fast_by_50_ppm_gains_180_ms_in_an_hour() {
        let error = ClockError { rate: Ppm::from_f64(50.0), ..ClockError::NONE };
        let mut clock = SimClock::new(error, vec![], 1);
        assert_eq!(clock.reading(at(3600)) - LocalTime::ZERO, Span::from_millis(3_600_180));
    }

    #[test]
    fn step_and_rate_change_happen_at_their_times() {
        let events = vec![
            (at(10), ClockEvent::Step(Span::from_millis(5))),
            (at(20), ClockEvent::Rate(Ppm::from_f64(100.0))),
        ];
        let mut clock = SimClock::new(ClockError::NONE, events, 1);
        assert_eq!(clock.reading(at(9)) - LocalTime::ZERO, Span::from_secs(9));
        assert_eq!(clock.reading(at(15)) - LocalTime::ZERO, Span::from_millis(15_005));
        assert_eq!(clock.reading(at(30)) - LocalTime::ZERO, Span::from_millis(30_006));
    }

    #[test]
    fn clock_reading_is_invertible() {
        let error = ClockError {
            start: LocalTime::from_nanos(77),
            rate: Ppm::from_f64(-300.0),
            wander: Ppm::from_f64(1.0),
        };
        let mut clock = SimClock::new(error, vec![], 7);
        for second in 1..100 {
            let wanted = LocalTime::from_nanos(second * 1_000_000_007);
            let now = TrueTime::from_nanos((second - 1) * 1_000_000_000);
            let when = clock.when(wanted, now);
            assert!((clock.reading(when) - wanted).abs() <= Span::from_nanos(2));
        }
    }

    #[test]
    fn the_same_seed_wanders_the_same_way() {
        let error = ClockError { wander: Ppm::from_f64(0.5), ..ClockError::NONE };
        let read = |seed| SimClock::new(error, vec![], seed).reading(at(1000));
        assert_eq!(read(3), read(3));
        assert_ne!(read(3), read(4));
    }
}
