//! Line of a sender's fastest arrivals, without clock exchanges. Its slope is the sender's rate.

use super::ClockSource;
use super::line::{Belief, Line};
use super::mapping::ClockMapping;
use super::media::ReportedRate;
use super::round::{Odd, Round};
use crate::time::{LocalTime, Span, WallTime, minus};
use crate::units::Ppm;

/// Line below all arrivals: of packets against media time, or of reports.
///
/// A Kalman filter estimates the line from the fastest arrival of each quarter second.
#[derive(Debug, Clone)]
pub(crate) struct Floor {
    line: Option<Line>,
    mapping: Option<ClockMapping>,
    round: Round,
    rounds: u32,
    /// Mean delay after the line.
    spread: f64,
    /// `spread` after the last normal round.
    steady: f64,
    odd: Odd,
}

impl Floor {
    const ROUND: Span = Span::from_millis(250);
    const MIN: u32 = 8;
    /// Number of first rounds. In these, the line follows early arrivals immediately.
    const SOUGHT: u32 = 4;
    /// Assumed rate error of cards, and their wander: 0.03 ppm per √s.
    const BELIEF: Belief = Belief { rate: 300e-6, wander: 0.03e-6 };
    /// Arrival timestamp error, in nanoseconds.
    const STAMP: f64 = 500.0;
    const MIN_ODD: f64 = 100_000.0;
    /// Rounds that show a slower path. Fewer rounds show a faster path, because no queue makes
    /// packets early.
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

    /// Maps the sender's time plus the shortest path delay.
    pub(crate) const fn mapping(&self) -> Option<&ClockMapping> {
        self.mapping.as_ref()
    }

    /// Rate of the sender against our clock.
    pub(crate) fn rate(&self) -> Option<ReportedRate> {
        let rate = self.mapping()?.rate()?;
        let deviation = Ppm::from_f64(self.line?.rate_deviation() * 1e6);
        Some(ReportedRate { rate, deviation })
    }

    /// Twice the mean delay after the line.
    pub(crate) fn spread(&self) -> Span {
        Span::from_nanos((2.0 * self.spread) as i64)
    }

    /// Like `Self::spread`, without an unconfirmed step.
    pub(crate) fn steady_spread(&self) -> Span {
        Span::from_nanos((2.0 * self.steady) as i64)
    }

    /// Adds a packet sent at `sent`. Returns whether the mapping changed.
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
        let closes = round >= Self::ROUND && self.round.count >= Self::MIN;
        if closes {
            self.close(second);
        }
        moved || closes
    }

    #[cold]
    fn begin(&mut self, first: i64, second: i64) -> bool {
        *self = Self::new();
        self.line = Some(Line::through(first, second, Self::MIN_ODD, Self::BELIEF));
        self.round.opened = second;
        self.read(Span::ZERO);
        true
    }

    pub(crate) fn behind(&self, sent: WallTime, arrival: LocalTime) -> Option<Span> {
        let error = self.line.as_ref()?.error(sent.as_unix_nanos(), arrival.as_nanos());
        Some(Span::from_nanos(error as i64))
    }

    /// Moves the line from `now` on at the same rate.
    #[cold]
    pub(crate) fn step(&mut self, step: Span, now: LocalTime) {
        let Some(line) = &mut self.line else { return };
        line.move_by(step.as_nanos() as f64);
        (self.round, self.odd) = (Round::opened(now.as_nanos()), Odd::NONE);
        self.spread = self.steady;
        self.read(Span::ZERO);
    }

    /// Not inlined: saves 15 instructions per arrival, as with [`Self::read`].
    #[inline(never)]
    fn close(&mut self, now: i64) {
        let round = core::mem::replace(&mut self.round, Round::opened(now));
        self.rounds = self.rounds.saturating_add(1);
        let Some(line) = &mut self.line else { return };
        let Some((first, second)) = round.close(line) else { return };
        line.advance(first);
        let error = line.error(first, second);
        let odd = Self::MIN_ODD.max(3.0 * self.steady) + 4.0 * line.deviation();
        if error.abs() > odd && self.rounds > Self::SOUGHT {
            if let Some(nearest) = self.odd.doubt(error, Self::SLOWER, Self::FASTER) {
                line.move_by(nearest);
                self.spread = self.steady;
                self.read(Span::ZERO);
            }
            return;
        }
        (self.odd, self.steady) = (Odd::NONE, self.spread);
        // The fastest is above the line by 1/`count` of the average.
        let scatter = Self::STAMP + 2.0 * self.spread / f64::from(round.count);
        line.correct(error, scatter * scatter, 0.25, 1e9);
        self.read(Self::ROUND);
    }

    /// Updates the mapping, with a transition over `within`.
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
