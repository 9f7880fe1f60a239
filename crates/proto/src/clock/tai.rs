//! TAI by this host's clock: followed while something keeps it, held over when that goes, and slewed back when it
//! returns.
//!
//! A reading says what TAI is by the local clock and what keeps it so. While it is kept, a line through the readings
//! learns the rate. When nothing keeps it any more (the *grandmaster* went) the line goes on at that rate, which is
//! *holdover*, and is less sure with each second. What returns is gone over to at a bounded rate, as what is heard
//! hangs on it.

#[cfg(test)]
mod tests;

use super::disciplined::{Choice, DisciplinedClock};
use super::line::{Belief, Line, Slope};
use super::{ClockMapping, ClockSource};
use crate::time::{LocalTime, Span, WallTime};

/// What TAI was at an instant, as this host reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaiReading {
    /// When it was read.
    pub local: LocalTime,
    /// TAI less the local clock.
    pub offset: Span,
    /// What one reading errs by at random: what lay between the readings of the two clocks.
    pub precision: Span,
    /// What keeps it; `None` where nothing does, or what kept it went.
    pub kept: Option<Keeping>,
}

/// What keeps a clock and how well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keeping {
    /// [`ClockSource::System`] or [`ClockSource::Ptp`].
    pub source: ClockSource,
    /// How far it may be from the truth, either way.
    pub uncertainty: Span,
}

/// How TAI is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TaiState {
    /// Nothing keeps it, nor ever did: it is what the kernel shows.
    #[default]
    Free,
    /// It is kept by this, since then.
    Locked(ClockSource, LocalTime),
    /// What kept it went then: it goes on at the rate that it had.
    Holdover(ClockSource, LocalTime),
}

impl TaiState {
    /// The word in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Locked(..) => "locked",
            Self::Holdover(..) => "holdover",
        }
    }

    /// What keeps it, or did.
    pub const fn source(self) -> Option<ClockSource> {
        match self {
            Self::Free => None,
            Self::Locked(source, _) | Self::Holdover(source, _) => Some(source),
        }
    }

    /// Since when it is so.
    pub const fn since(self) -> Option<LocalTime> {
        match self {
            Self::Free => None,
            Self::Locked(_, since) | Self::Holdover(_, since) => Some(since),
        }
    }
}

/// Follows TAI.
#[derive(Debug, Clone, Default)]
pub struct TaiClock {
    line: Option<Line>,
    mapping: Option<ClockMapping>,
    state: TaiState,
    /// When it was kept last, how sure it was then, and what its rate may have been wrong by.
    kept: (LocalTime, Span, f64),
    uncertain: bool,
    steps: u32,
}

impl TaiClock {
    /// What is further off than this is another time and gone to at once: it would take 100 s to slew, and from there
    /// on a listener takes packets for those of a talker that began anew ([`crate::frame_count`]).
    pub const STEP: Span = Span::from_millis(20);
    /// Beyond this presentation times are called uncertain: the largest that IEEE 1722 allows the timing of a stream
    /// to err by (class B), and what a system clock that PTP keeps is known better than by the kernel's own count.
    pub(crate) const UNCERTAIN: Span = Span::from_millis(1);
    /// What a clock that was kept may be wrong by in its rate once nothing keeps it: 15 ppm, the tolerance by which NTP
    /// lets dispersion grow (RFC 5905 §7.2, PHI).
    pub const HOLDOVER: f64 = 15e-6;
    /// Oscillators of two free clocks, as [`super::ClockEstimator`] believes.
    const BELIEF: Belief = Belief { rate: 60e-6, wander: 0.03e-6 };
    /// Deviations that the rate may be wrong by beside that, but no more than 100 ppm, as two free quartzes.
    const DEVIATIONS: f64 = 10.0;
    const MOST: f64 = 100e-6;
    /// Readings are judged over this time whether the rate has become another, in nanoseconds.
    const JUDGED: f64 = 4e9;
    /// So many deviations of the line and of a reading are no chance.
    const UNLIKELY: f64 = 8.0;
    /// A reading that errs by less than this is none that was set: a thread may stand still between two clocks.
    const LEAST_SET: Span = Span::from_micros(10);

    /// Takes a reading and gives the mapping to use from then on: of the local clock to TAI.
    pub fn observe(&mut self, reading: &TaiReading) -> ClockMapping {
        let now = reading.local;
        let kept = reading.kept.filter(|kept| self.is_better(kept, now));
        if let Some(mapping) =
            self.mapping.filter(|_| kept.is_none() && self.state != TaiState::Free)
        {
            return self.hold(mapping, now);
        }
        self.take(reading);
        let drift = self.line.map_or(Self::MOST, |line| Self::DEVIATIONS * line.rate_deviation());
        let drift = (Self::HOLDOVER + drift).min(Self::MOST);
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

    /// The mapping that was given last.
    pub const fn mapping(&self) -> Option<ClockMapping> {
        self.mapping
    }

    /// How it is known.
    pub const fn state(&self) -> TaiState {
        self.state
    }

    /// How far it may be from the truth; `None` where nothing ever said.
    pub fn uncertainty(&self, now: LocalTime) -> Option<Span> {
        self.state.source().and(self.mapping?.uncertainty_at(now))
    }

    /// Whether others had better not rely on it.
    pub const fn is_uncertain(&self) -> bool {
        self.uncertain || matches!(self.state, TaiState::Free)
    }

    /// How often it was so far off that it was stepped.
    pub const fn steps(&self) -> u32 {
        self.steps
    }

    /// Whether to go by what keeps it now. A system clock that PTP left says for hours that it is kept, and how much
    /// less it is: what is held over is surer, until something better keeps that clock.
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
        } else if off > unlikely.max(Self::LEAST_SET) {
            // Somebody set the clock, or it returns: its rate is as good as it was.
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
        // Half as much is sure again: a bound that is touched does not flicker.
        let most = if self.uncertain { Self::UNCERTAIN.divided(2) } else { Self::UNCERTAIN };
        self.uncertain = next.uncertainty > most;
        self.mapping = Some(next);
        next
    }
}
