//! TAI on this host's clock.
//!
//! A line through the readings learns the rate. Without a grandmaster it continues at that rate
//! with growing uncertainty (*holdover*). On return it slews at a bounded rate: playout depends on
//! it.

#[cfg(test)]
mod tests;

use super::disciplined::{Choice, DisciplinedClock};
use super::line::{Belief, Line, Slope};
use super::{ClockMapping, ClockSource};
use crate::time::{LocalTime, Span, WallTime};

/// TAI reading on this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaiReading {
    /// Time of the reading.
    pub local: LocalTime,
    /// TAI minus the local clock.
    pub offset: Span,
    /// Random error: time between the two readings.
    pub precision: Span,
    /// Synchronisation source; `None` if the source is gone.
    pub kept: Option<Keeping>,
}

/// Synchronisation source and its quality.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keeping {
    /// [`ClockSource::System`] or [`ClockSource::Ptp`].
    pub source: ClockSource,
    /// Maximum error, either way.
    pub uncertainty: Span,
}

/// State of TAI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TaiState {
    /// Never synchronised.
    #[default]
    Free,
    /// Synchronised to this source since this time.
    Locked(ClockSource, LocalTime),
    /// The source has been gone since this time.
    Holdover(ClockSource, LocalTime),
}

impl TaiState {
    /// Name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Locked(..) => "locked",
            Self::Holdover(..) => "holdover",
        }
    }

    /// Current or last synchronisation source.
    pub const fn source(self) -> Option<ClockSource> {
        match self {
            Self::Free => None,
            Self::Locked(source, _) | Self::Holdover(source, _) => Some(source),
        }
    }

    /// Start of the state.
    pub const fn since(self) -> Option<LocalTime> {
        match self {
            Self::Free => None,
            Self::Locked(_, since) | Self::Holdover(_, since) => Some(since),
        }
    }
}

/// Clock that follows TAI.
#[derive(Debug, Clone, Default)]
pub struct TaiClock {
    line: Option<Line>,
    mapping: Option<ClockMapping>,
    state: TaiState,
    /// Last synchronised time, uncertainty, maximum rate error.
    kept: (LocalTime, Span, f64),
    uncertain: bool,
    steps: u32,
}

impl TaiClock {
    /// Maximum slewed offset, as slewing would take 100 s. After a step, listeners assume a
    /// restarted talker ([`crate::frame_count`]).
    pub const STEP: Span = Span::from_millis(20);
    /// Minimum uncertainty of presentation times that are flagged uncertain: the maximum timing
    /// error in IEEE 1722 (class B).
    pub(crate) const UNCERTAIN: Span = Span::from_millis(1);
    /// Rate error in holdover: NTP's PHI, 15 ppm (RFC 5905 §7.2).
    pub const HOLDOVER: f64 = 15e-6;
    const BELIEF: Belief = Belief { rate: 60e-6, wander: 0.03e-6 };
    /// Additional rate error in deviations, up to 100 ppm.
    const DEVIATIONS: f64 = 10.0;
    const MAX: f64 = 100e-6;
    /// Nanoseconds of readings that show a changed rate.
    const JUDGED: f64 = 4e9;
    /// Deviations that cannot be chance.
    const UNLIKELY: f64 = 8.0;
    /// Minimum error of a set clock, as a thread may stall between the readings.
    const MIN_SET: Span = Span::from_micros(10);

    /// Adds a reading and returns the mapping to TAI.
    pub fn observe(&mut self, reading: &TaiReading) -> ClockMapping {
        let now = reading.local;
        let kept = reading.kept.filter(|kept| self.is_better(kept, now));
        if let Some(mapping) =
            self.mapping.filter(|_| kept.is_none() && self.state != TaiState::Free)
        {
            return self.hold(mapping, now);
        }
        self.take(reading);
        let drift = self.line.map_or(Self::MAX, |line| Self::DEVIATIONS * line.rate_deviation());
        let drift = (Self::HOLDOVER + drift).min(Self::MAX);
        let (uncertainty, source) = match kept {
            Some(kept) => (kept.uncertainty + reading.precision, kept.source),
            None => (reading.precision, ClockSource::System),
        };
        if kept.is_some() {
            self.kept = (now, uncertainty, drift);
            self.state = match self.state {
                TaiState::Locked(before, since) if before == source => {
                    TaiState::Locked(source, since)
                }
                _ => TaiState::Locked(source, now),
            };
        }
        self.go_over(now, uncertainty, source, DisciplinedClock::DRIFT)
    }

    /// Last mapping returned.
    pub const fn mapping(&self) -> Option<ClockMapping> {
        self.mapping
    }

    /// State of the clock.
    pub const fn state(&self) -> TaiState {
        self.state
    }

    /// Maximum error at `now`; `None` if never synchronised.
    pub fn uncertainty(&self, now: LocalTime) -> Option<Span> {
        self.state.source().and(self.mapping?.uncertainty_at(now))
    }

    /// Whether other hosts should not rely on this clock.
    pub const fn is_uncertain(&self) -> bool {
        self.uncertain || matches!(self.state, TaiState::Free)
    }

    /// Number of steps.
    pub const fn steps(&self) -> u32 {
        self.steps
    }

    /// Whether to use `kept`. After PTP, a system clock claims synchronisation for hours; holdover
    /// is better.
    fn is_better(&self, kept: &Keeping, now: LocalTime) -> bool {
        let by_ptp = self.state.source() == Some(ClockSource::Ptp);
        !by_ptp || kept.source == ClockSource::Ptp || kept.uncertainty < self.held(now)
    }

    fn held(&self, now: LocalTime) -> Span {
        let (since, uncertainty, drift) = self.kept;
        let age = (now - since).max(Span::ZERO).as_nanos();
        uncertainty + Span::from_nanos(Slope::new(drift).over(age))
    }

    fn hold(&mut self, before: ClockMapping, now: LocalTime) -> ClockMapping {
        let source = before.source;
        if matches!(self.state, TaiState::Locked(..)) {
            self.state = TaiState::Holdover(source, self.kept.0);
        }
        if let Some(line) = &mut self.line {
            line.advance(now.as_nanos());
        }
        self.go_over(now, self.held(now), source, self.kept.2)
    }

    fn take(&mut self, reading: &TaiReading) {
        let first = reading.local.as_nanos();
        let second = WallTime::of_local(reading.local, reading.offset).as_unix_nanos();
        let deviation = reading.precision.as_nanos().max(1) as f64;
        let anew = Line::through(first, second, deviation, Self::BELIEF);
        let Some(line) = &mut self.line else {
            self.line = Some(anew);
            return;
        };
        line.advance(first);
        let error = line.error(first, second);
        let off = Span::from_nanos(error as i64).abs();
        let unlikely = Self::UNLIKELY * (deviation + line.deviation());
        let unlikely = Span::from_nanos(unlikely as i64);
        if off > Self::STEP {
            *line = anew;
        } else if off > unlikely.max(Self::MIN_SET) {
            // The clock was set: the rate stays valid.
            *line = anew.running(line.rate());
        } else {
            line.correct(error, deviation * deviation, 1.0 / 8.0, Self::JUDGED);
        }
    }

    fn go_over(
        &mut self,
        now: LocalTime,
        uncertainty: Span,
        source: ClockSource,
        drift: f64,
    ) -> ClockMapping {
        let (second, rate) =
            self.line.map_or((now.as_nanos(), 0.0), |line| (line.second(), line.rate()));
        let second = WallTime::from_unix_nanos(second);
        let line = ClockMapping::through(now, second, rate, uncertainty, source, drift);
        let next = match self.mapping {
            Some(before) if (before.wall(now) - line.wall(now)).abs() > Self::STEP => {
                self.steps = self.steps.saturating_add(1);
                line
            }
            Some(before) => line.slewing(&before, Choice::SLEW),
            None => line,
        };
        let maximum = if self.uncertain { Self::UNCERTAIN.divided(2) } else { Self::UNCERTAIN };
        self.uncertain = next.uncertainty > maximum;
        self.mapping = Some(next);
        next
    }
}
