//! The fastest arrivals of a sender that answers no question: what left when the sender says so
//! cannot arrive earlier than by the shortest path, so the earliest arrivals lie on a line, whose
//! slope is the rate of the sender's clock.

use super::ClockSource;
use super::line::{Belief, Line};
use super::mapping::ClockMapping;
use super::round::{Odd, Round};
use crate::time::{LocalTime, Span, WallTime, minus};

/// The line below all arrivals: of packets against their media time, or of sender reports against
/// the sender's clock.
///
/// The fastest arrival of each quarter second is a reading of it; a Kalman filter makes offset and
/// rate of them. Where it moves a little it moves slowly; where the path has changed, at once.
#[derive(Debug, Clone)]
pub(crate) struct Floor {
    line: Option<Line>,
    mapping: Option<ClockMapping>,
    round: Round,
    /// Rounds so far, up to those in which the line is still sought.
    rounds: u32,
    /// Mean of how much later than the line arrivals are.
    spread: f64,
    /// The same after the last round that was not odd: a step is in the one above, too.
    steady: f64,
    odd: Odd,
}

impl Floor {
    /// A round is closed after this time and so many arrivals.
    const ROUND: Span = Span::from_millis(250);
    const LEAST: u32 = 8;
    /// Rounds at the beginning in which the line is followed down at once.
    const SOUGHT: u32 = 4;
    /// Senders' cards are within 300 ppm of us together with our clock, and wander by 0.03 ppm in
    /// the root of a second.
    const BELIEF: Belief = Belief { rate: 300e-6, wander: 0.03e-6 };
    /// What a kernel's stamp of an arrival is good for, in nanoseconds.
    const STAMP: f64 = 500.0;
    /// What is less than this beside the line is not odd.
    const LEAST_ODD: f64 = 100_000.0;
    /// Rounds like each other that tell of a path that became slower; a faster one is known sooner,
    /// since no queue makes an arrival early.
    const SLOWER: u32 = 4;
    const FASTER: u32 = 2;

    pub(crate) const fn new() -> Self {
        Self {
            line: None,
            mapping: None,
            round: Round::opened(0),
            rounds: 0,
            spread: 0.0,
            steady: 0.0,
            odd: Odd::NONE,
        }
    }

    /// The line as a mapping of the sender's time, later by the shortest path; `None` before the
    /// first arrival.
    pub(crate) const fn mapping(&self) -> Option<&ClockMapping> {
        self.mapping.as_ref()
    }

    /// How much later than the line arrivals are, twice the mean.
    pub(crate) fn spread(&self) -> Span {
        Span::from_nanos((2.0 * self.spread) as i64)
    }

    /// The same without a step that is not known yet.
    pub(crate) fn steady_spread(&self) -> Span {
        Span::from_nanos((2.0 * self.steady) as i64)
    }

    /// Takes the arrival of what left at `sent`, by the sender. Whether the mapping is another now.
    pub(crate) fn observe(&mut self, sent: WallTime, arrival: LocalTime) -> bool {
        let (first, second) = (sent.as_unix_nanos(), arrival.as_nanos());
        let Some(line) = &self.line else { return self.begin(first, second) };
        let error = line.error(first, second);
        let sought = self.rounds < Self::SOUGHT;
        let reading = (first, second);
        let moved =
            self.line.as_mut().is_some_and(|line| self.round.take(line, reading, error, sought));
        if moved {
            self.read(Span::ZERO);
        }
        let share = if sought { 16.0 } else { 256.0 };
        self.spread += (error.max(0.0) - self.spread) / share;
        let round = Span::from_nanos(minus(second, self.round.opened));
        let closes = round >= Self::ROUND && self.round.count >= Self::LEAST;
        if closes {
            self.close(second);
        }
        moved || closes
    }

    #[cold]
    fn begin(&mut self, first: i64, second: i64) -> bool {
        *self = Self::new();
        self.line = Some(Line::through(first, second, Self::LEAST_ODD, Self::BELIEF));
        self.round.opened = second;
        self.read(Span::ZERO);
        true
    }

    /// How much later than the line this arrival is; `None` before the first.
    pub(crate) fn behind(&self, sent: WallTime, arrival: LocalTime) -> Option<Span> {
        let error = self.line.as_ref()?.error(sent.as_unix_nanos(), arrival.as_nanos());
        Some(Span::from_nanos(error as i64))
    }

    /// All arrivals are later by `step` from `now` on. The rate of the sender's card stays known.
    #[cold]
    pub(crate) fn step(&mut self, step: Span, now: LocalTime) {
        let Some(line) = &mut self.line else { return };
        line.move_by(step.as_nanos() as f64);
        (self.round, self.odd) = (Round::opened(now.as_nanos()), Odd::NONE);
        self.spread = self.steady;
        self.read(Span::ZERO);
    }

    /// Takes the fastest of the round as a reading. Out of the way of the arrivals within one: laid among
    /// them it took each 15 instructions of laying a stack, as [`Self::read`] does.
    #[inline(never)]
    fn close(&mut self, now: i64) {
        let round = core::mem::replace(&mut self.round, Round::opened(now));
        self.rounds = self.rounds.saturating_add(1);
        let Some(line) = &mut self.line else { return };
        let Some((first, second)) = round.close(line) else { return };
        line.advance(first);
        let error = line.error(first, second);
        let odd = Self::LEAST_ODD.max(3.0 * self.steady) + 4.0 * line.deviation();
        if error.abs() > odd && self.rounds > Self::SOUGHT {
            if let Some(nearest) = self.odd.doubt(error, Self::SLOWER, Self::FASTER) {
                line.move_by(nearest);
                self.spread = self.steady;
                self.read(Span::ZERO);
            }
            return;
        }
        (self.odd, self.steady) = (Odd::NONE, self.spread);
        // The fastest of so many is above the line by that share of what they are on average.
        let scatter = Self::STAMP + 2.0 * self.spread / f64::from(round.count);
        line.correct(error, scatter * scatter, 0.25, 1e9);
        self.read(Self::ROUND);
    }

    /// Lays the mapping as the line is now; goes over from the one before within the span.
    #[inline(never)]
    fn read(&mut self, within: Span) {
        let Some(line) = &self.line else { return };
        let (local, sent) = (LocalTime::from_nanos(line.second()), line.at());
        let rate = -line.rate() / (1.0 + line.rate());
        let (sent, spread) = (WallTime::from_unix_nanos(sent), self.spread());
        let new = ClockMapping::through(local, sent, rate, spread, ClockSource::Exchange, 0.0);
        self.mapping = Some(match &self.mapping {
            Some(before) if within > Span::ZERO => new.following(before, within, 200e-6),
            _ => new,
        });
    }
}
