//! Times at which a real card's frames meet its converter: a line through position readings, each
//! with its time.
//!
//! Every disturbance makes a reading late: delayed interrupts, host freezes, and positions that
//! move in steps and are older than their timestamp. So only the earliest reading of each round
//! counts, by the line. A two-state filter estimates offset and rate from those. Readings are
//! arguments; this module reads no clock.

use crate::clock::{Belief, Line, Odd, Round};
use crate::time::{Frames, LocalTime, Span};
use crate::units::Rate;

/// Time at which a block meets the converter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Met {
    /// Time of its first frame.
    pub meets: LocalTime,
    /// Maximum error, either way.
    pub uncertainty: Span,
    /// Frames between the previous block and this one, if the card was restarted.
    pub skipped: Frames,
}

/// Line that fits one card's position readings.
///
/// Frames are counted from the card's start. Times never run backwards. A block begins at the end
/// of the previous one, or up to an eighth of its length earlier if the line moved down.
#[derive(Debug, Clone)]
pub struct CardLine {
    rate: Rate,
    /// Maximum age of a position at its timestamp.
    grain: Span,
    /// Maps nominal time of the frames to local time.
    line: Option<Line>,
    /// Rate of the line before the card was restarted.
    ran: f64,
    round: Round,
    rounds: u32,
    /// Last error, and half the mean square of error differences: the variance of readings.
    jitter: (f64, f64),
    odd: Odd,
    given: Given,
}

#[derive(Debug, Clone, Copy)]
enum Given {
    Nothing,
    Until(LocalTime),
    /// The card was restarted since.
    Before(LocalTime),
}

impl CardLine {
    /// Minimum duration and readings of a round: the earliest of twenty readings is late by a
    /// twentieth of the average.
    const ROUND: i64 = 20_000_000;
    const MIN: u32 = 8;
    /// Rounds at the beginning in which the line follows early readings at once.
    const SOUGHT: u32 = 3;
    /// Cards stay within 300 ppm of the host's clock and wander by 0.1 ppm per square root of a
    /// second.
    const BELIEF: Belief = Belief { rate: 300e-6, wander: 0.1e-6 };
    /// Standard deviation of the first reading: some cards take a millisecond to start.
    const START: f64 = 1_000_000.0;
    /// Minimum standard deviation of a round's earliest reading: a timer interrupt on a quiet
    /// machine.
    const READING: f64 = 1_000.0;
    /// Minimum distance from the line for a round to count as odd.
    const MIN_ODD: f64 = 100_000.0;
    /// Odd rounds after which the line moves. Late rounds need more, because the host may be busy;
    /// only the card can cause early ones.
    const LATER: u32 = 8;
    const EARLIER: u32 = 2;
    /// Time over which rounds decide whether the card's rate changed.
    const JUDGED: f64 = 1e9;

    /// Creates a line without readings. A position may be `grain` old at its timestamp.
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

    /// Restarts the frame count at 0 after a restart of the card; keeps the rate.
    pub fn restart(&mut self) {
        self.ran = self.line.map_or(self.ran, |line| line.rate());
        self.line = None;
        self.rounds = 0;
        self.odd = Odd::NONE;
        if let Given::Until(end) = self.given {
            self.given = Given::Before(end);
        }
    }

    /// Adds a reading: `frame` was at the converter at `at` or somewhat earlier.
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

    /// Time at which `frame` meets the converter by the current line; `None` before the first
    /// reading.
    pub fn instant_of(&self, frame: i64) -> Option<LocalTime> {
        let line = self.line?;
        let since = self.nominal(frame).saturating_sub(line.at());
        let gained = (line.rate() * since as f64).round() as i64;
        let nanos = line.second().saturating_add(since).saturating_add(gained);
        Some(LocalTime::from_nanos(nanos))
    }

    /// Time at which the block of `count` frames from `frame` meets the converter; `otherwise`
    /// before the first reading. Call in block order.
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

    /// Time at which the last block ends.
    pub fn end(&self) -> Option<LocalTime> {
        match self.given {
            Given::Nothing => None,
            Given::Until(end) | Given::Before(end) => Some(end),
        }
    }

    /// Maximum error of the line: twice the deviations of its position and of a reading, plus the
    /// age of a position.
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
