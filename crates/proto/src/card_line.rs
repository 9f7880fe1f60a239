//! When the frames of a real card meet its converter: a line through readings of its position, each
//! with the instant at which it was read.
//!
//! Whatever goes wrong with a reading makes it late: the interrupt waits, the host freezes, the
//! position moves in steps and is older than its stamp. So of each round of readings the one that is
//! earliest by the line counts, and a filter of two states makes offset and rate of those. No clock
//! is asked here: readings are arguments.

use crate::clock::{Belief, Line, Odd, Round};
use crate::time::{Frames, LocalTime, Span};
use crate::units::Rate;

/// When a block meets the converter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Met {
    /// Its first frame.
    pub meets: LocalTime,
    /// How far that may be from the truth, either way.
    pub uncertainty: Span,
    /// Frames between the block before and this one: the card was started anew meanwhile.
    pub skipped: Frames,
}

/// The line of one card.
///
/// Frames are counted from the card's start. Instants never run backwards: a block begins where the
/// one before ends, or as much as an eighth of itself before that, should the line have moved down.
#[derive(Debug, Clone)]
pub struct CardLine {
    rate: Rate,
    /// How old a position may be when it is stamped.
    grain: Span,
    /// Nominal time of the frames against local time.
    line: Option<Line>,
    /// The rate by which the line ran before the card was started anew.
    ran: f64,
    round: Round,
    rounds: u32,
    /// The last error, and half the mean square of what errors differ by: the variance of readings.
    jitter: (f64, f64),
    odd: Odd,
    given: Given,
}

#[derive(Debug, Clone, Copy)]
enum Given {
    Nothing,
    Until(LocalTime),
    /// And the card was started anew since.
    Before(LocalTime),
}

impl CardLine {
    /// A round takes this long and so many readings at least: the earliest of twenty is late by a
    /// twentieth of what one is on average.
    const ROUND: i64 = 20_000_000;
    const LEAST: u32 = 8;
    /// Rounds at the beginning in which the line is followed down at once.
    const SOUGHT: u32 = 3;
    /// Cards are within 300 ppm of a host's clock, and wander by 0.1 ppm in the root of a second.
    const BELIEF: Belief = Belief { rate: 300e-6, wander: 0.1e-6 };
    /// Standard deviation of the first reading: some cards take a millisecond to get going.
    const START: f64 = 1_000_000.0;
    /// The same of the earliest of a round, at least: a timer's interrupt on a quiet machine.
    const READING: f64 = 1_000.0;
    /// A round this far beside the line is odd, at least.
    const LEAST_ODD: f64 = 100_000.0;
    /// Odd rounds that move the line, as they must be its new place: late ones, where the host may
    /// just be busy, and early ones, which nothing but the card can bring about.
    const LATER: u32 = 8;
    const EARLIER: u32 = 2;
    /// Rounds are judged over this time whether the card's rate has become another.
    const JUDGED: f64 = 1e9;

    /// Knows nothing yet. A position may be `grain` old when it is stamped.
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

    /// Positions are `grain` old at most from now on.
    pub fn set_grain(&mut self, grain: Span) {
        self.grain = grain;
    }

    /// The card is started anew and counts from 0 again. Its rate stays.
    pub fn restart(&mut self) {
        self.ran = self.line.map_or(self.ran, |line| line.rate());
        self.line = None;
        self.rounds = 0;
        self.odd = Odd::NONE;
        if let Given::Until(end) = self.given {
            self.given = Given::Before(end);
        }
    }

    /// `frame` was at the converter at `at`, or somewhat earlier.
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
        if second - self.round.opened >= Self::ROUND && self.round.count >= Self::LEAST {
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
        let odd = Self::LEAST_ODD.max(6.0 * (line.deviation() + noise.sqrt()));
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

    /// When `frame` meets the converter, by the line as it is now; `None` before the first reading.
    pub fn instant_of(&self, frame: i64) -> Option<LocalTime> {
        let line = self.line?;
        let since = self.nominal(frame).saturating_sub(line.at());
        let gained = (line.rate() * since as f64).round() as i64;
        let nanos = line.second().saturating_add(since).saturating_add(gained);
        Some(LocalTime::from_nanos(nanos))
    }

    /// When the block of `count` frames from `frame` on meets the converter. Blocks are asked for in
    /// their order. Before the first reading that is `otherwise`.
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

    /// When the last block ends.
    pub fn end(&self) -> Option<LocalTime> {
        match self.given {
            Given::Nothing => None,
            Given::Until(end) | Given::Before(end) => Some(end),
        }
    }

    /// How far the line may be from the truth: twice the deviations of its place and of a reading,
    /// and the age of a position.
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
