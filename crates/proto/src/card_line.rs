//! Converter times of a real card: a line through position readings. Only the earliest of each
//! round counts, because every disturbance makes readings late.

use crate::clock::{Belief, Line, Odd, Round};
use crate::time::{Frames, LocalTime, Span};
use crate::units::Rate;

/// Converter time of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Met {
    /// First frame.
    pub meets: LocalTime,
    /// Maximum error, either way.
    pub uncertainty: Span,
    /// Frames skipped by a restart of the card.
    pub skipped: Frames,
}

/// Line through a card's position readings. Frames count from its start. Times never run backwards;
/// a block begins at most an eighth of its length early.
#[derive(Debug, Clone)]
pub struct CardLine {
    rate: Rate,
    /// Maximum age of a position.
    grain: Span,
    /// Nominal time of frames to local time.
    line: Option<Line>,
    /// Rate before a restart of the card.
    ran: f64,
    round: Round,
    rounds: u32,
    /// Last error; half the mean square of error differences.
    jitter: (f64, f64),
    odd: Odd,
    given: Given,
}

#[derive(Debug, Clone, Copy)]
enum Given {
    Nothing,
    Until(LocalTime),
    Before(LocalTime),
}

impl CardLine {
    /// Minimum duration and readings of a round. The earliest of twenty readings is late by a
    /// twentieth of the mean.
    const ROUND: i64 = 20_000_000;
    const MIN: u32 = 8;
    /// Number of first rounds. In these, early readings move the line immediately.
    const SOUGHT: u32 = 3;
    /// Assumed rate error against the host's clock, and its wander: 0.1 ppm per √s.
    const BELIEF: Belief = Belief { rate: 300e-6, wander: 0.1e-6 };
    /// Deviation of the first reading in nanoseconds. Some cards take a millisecond to start.
    const START: f64 = 1_000_000.0;
    /// Minimum deviation of a reading in nanoseconds: a timer interrupt.
    const READING: f64 = 1_000.0;
    const MIN_ODD: f64 = 100_000.0;
    /// Odd rounds that move the line. Late rounds need more, because a busy host causes them.
    const LATER: u32 = 8;
    const EARLIER: u32 = 2;
    /// Time that decides whether the rate changed.
    const JUDGED: f64 = 1e9;

    /// Creates a line without readings.
    pub fn new(rate: Rate, grain: Span) -> Self {
        Self {
            rate,
            grain,
            line: None,
            ran: 0.0,
            round: Round::opened(0),
            rounds: 0,
            jitter: (0.0, 0.0),
            odd: Odd::NONE,
            given: Given::Nothing,
        }
    }

    /// Sets the maximum age of positions.
    pub fn set_grain(&mut self, grain: Span) {
        self.grain = grain;
    }

    /// Counts from 0 after a restart of the card; keeps the rate.
    pub fn restart(&mut self) {
        self.ran = self.line.map_or(self.ran, |line| line.rate());
        self.line = None;
        self.rounds = 0;
        self.odd = Odd::NONE;
        if let Given::Until(end) = self.given {
            self.given = Given::Before(end);
        }
    }

    /// Adds a reading: `frame` was at the converter at `at` or slightly earlier.
    pub fn observe(&mut self, frame: i64, at: LocalTime) {
        let (first, second) = (self.nominal(frame), at.as_nanos());
        let Some(line) = &mut self.line else {
            let line = Line::through(first, second, Self::START, Self::BELIEF).running(self.ran);
            self.line = Some(line);
            self.round = Round::opened(second);
            return;
        };
        let error = line.error(first, second);
        self.round.take(line, (first, second), error, self.rounds < Self::SOUGHT);
        if second - self.round.opened >= Self::ROUND && self.round.count >= Self::MIN {
            self.close(second);
        }
    }

    fn close(&mut self, now: i64) {
        let round = core::mem::replace(&mut self.round, Round::opened(now));
        let Some(line) = &mut self.line else { return };
        let Some((first, second)) = round.close(line) else { return };
        self.rounds = self.rounds.saturating_add(1);
        let since = first.saturating_sub(line.at()).max(0) as f64;
        line.advance(first);
        let error = line.error(first, second);
        let noise = self.jitter.1.max(Self::READING * Self::READING);
        let odd = Self::MIN_ODD.max(6.0 * (line.deviation() + noise.sqrt()));
        if error.abs() > odd && self.rounds > Self::SOUGHT {
            if let Some(nearest) = self.odd.doubt(error, Self::LATER, Self::EARLIER) {
                line.move_by(nearest);
            }
            return;
        }
        self.odd = Odd::NONE;
        let weight = (since / Self::JUDGED).clamp(1.0 / 64.0, 0.25);
        if self.rounds > Self::SOUGHT {
            let differs = (error - self.jitter.0) * (error - self.jitter.0) / 2.0;
            self.jitter.1 += (differs - self.jitter.1) * weight.max(1.0 / 32.0);
        }
        self.jitter.0 = error;
        line.correct(error, noise, weight, Self::JUDGED.max(since));
    }

    /// Converter time of `frame`; `None` before the first reading.
    pub fn instant_of(&self, frame: i64) -> Option<LocalTime> {
        let line = self.line?;
        let since = self.nominal(frame).saturating_sub(line.at());
        let gained = (line.rate() * since as f64).round() as i64;
        let nanos = line.second().saturating_add(since).saturating_add(gained);
        Some(LocalTime::from_nanos(nanos))
    }

    /// Converter time of a block; `otherwise` before the first reading. Call in block order.
    pub fn meet(&mut self, frame: i64, count: Frames, otherwise: LocalTime) -> Met {
        let length = self.rate.span_of(count);
        let line = self.instant_of(frame).unwrap_or(otherwise);
        let (meets, skipped) = match self.given {
            Given::Nothing => (line, Frames::ZERO),
            Given::Until(end) => (line.max(end - length.divided(8)), Frames::ZERO),
            Given::Before(end) => {
                let meets = line.max(end);
                (meets, self.rate.frames_nearest(meets - end))
            }
        };
        self.given = Given::Until(meets + length);
        Met { meets, uncertainty: self.uncertainty() + (meets - line).abs(), skipped }
    }

    /// End of the last block.
    pub fn end(&self) -> Option<LocalTime> {
        match self.given {
            Given::Nothing => None,
            Given::Until(end) | Given::Before(end) => Some(end),
        }
    }

    fn uncertainty(&self) -> Span {
        let place = self.line.map_or(Self::START, |line| line.deviation());
        let reading = self.jitter.1.sqrt().max(Self::READING);
        self.grain + Span::from_nanos((2.0 * (place + reading)) as i64)
    }

    fn nominal(&self, frame: i64) -> i64 {
        self.rate.span_of(Frames::new(frame)).as_nanos()
    }
}

#[cfg(test)]
mod tests;
