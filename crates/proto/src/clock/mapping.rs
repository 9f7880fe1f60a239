//! Mapping of another host's clock to ours.

use super::line::Slope;
use crate::time::{LocalTime, Span, WallTime, minus, plus};
use crate::units::Ppm;

tautline_dsp::named_enum! {
    /// Source of a mapping.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum ClockSource {
        /// RTCP exchanges (RFC 3611 §4.4, §4.5).
        Exchange = "rtcp",
        /// Both hosts' disciplined system clocks.
        System = "system",
        /// Both hosts' system clocks, disciplined via PTP hardware clocks.
        Ptp = "ptp",
        /// Both ends on one host.
        Host = "host",
        /// TAI at both ends, for presentation times.
        Tai = "tai",
    }
}

/// Maps a peer's wall clock to local time: two readings, a rate and an uncertainty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockMapping {
    local: LocalTime,
    wall: WallTime,
    /// Rate of the peer's clock, and the inverse.
    gains: Slope,
    loses: Slope,
    /// Nanoseconds above the line; fades to 0 over `within`, for a smooth transition.
    behind: i64,
    fades: Slope,
    unfades: Slope,
    within: Span,
    /// Maximum error at creation, either way.
    pub uncertainty: Span,
    /// Remaining change as the estimate improves. Not a bound: path asymmetry stays hidden.
    pub precision: Span,
    /// Round trip of the exchange, or 0.
    pub round_trip: Span,
    /// Source of the mapping.
    pub source: ClockSource,
    /// Time of creation; `None` if the mapping does not age.
    made: Option<LocalTime>,
    drift: Slope,
}

impl ClockMapping {
    /// Minimum measurable round trip: two ticks of compact timestamps (RFC 3550 §4), 2^-16 s each.
    const MIN_ROUND_TRIP: Span = Span::from_nanos(2 * 15_259);
    /// Maximum age of a mapping: twenty missing reports.
    const LIFE: Span = Span::from_secs(10);
    /// Maximum transition, in nanoseconds.
    const LATEST: f64 = 5e9;

    /// Round trip of the exchange, if measurable.
    pub fn known_round_trip(&self) -> Option<Span> {
        let exchanged = self.source == ClockSource::Exchange;
        (exchanged && self.round_trip >= Self::MIN_ROUND_TRIP).then_some(self.round_trip)
    }

    /// Mapping of clocks with equal rates.
    pub const fn known(offset: Span, uncertainty: Span) -> Self {
        Self {
            local: LocalTime::ZERO,
            wall: WallTime::from_unix_nanos(offset.as_nanos()),
            gains: Slope::NONE,
            loses: Slope::NONE,
            behind: 0,
            fades: Slope::NONE,
            unfades: Slope::NONE,
            within: Span::ZERO,
            uncertainty,
            precision: uncertainty,
            round_trip: Span::ZERO,
            source: ClockSource::Exchange,
            made: None,
            drift: Slope::NONE,
        }
    }

    /// A peer's clock on this host; never ages.
    pub(super) const fn same_host(offset: Span) -> Self {
        Self { source: ClockSource::Host, ..Self::known(offset, Span::ZERO) }
    }

    /// The peer's clock shows `wall` at `local`, with a rate error up to `drift`.
    pub(super) fn through(
        local: LocalTime,
        wall: WallTime,
        rate: f64,
        uncertainty: Span,
        source: ClockSource,
        drift: f64,
    ) -> Self {
        let gains = Slope::new(rate);
        Self {
            local,
            wall,
            gains,
            loses: gains.inverse(),
            source,
            made: Some(local),
            drift: Slope::new(drift),
            ..Self::known(Span::ZERO, uncertainty)
        }
    }

    /// Adds a transition from `before` of at least `soonest`, up to `LATEST` if its rate would
    /// exceed `fastest`.
    pub(super) fn following(self, before: &Self, soonest: Span, fastest: f64) -> Self {
        self.going_over(before, soonest, fastest, Self::LATEST)
    }

    /// Like `Self::following`, but never faster than `fastest`: a building's clock has no deadline.
    pub(super) fn slewing(self, before: &Self, fastest: f64) -> Self {
        self.going_over(before, Span::from_secs(1), fastest, f64::MAX)
    }

    fn going_over(self, before: &Self, soonest: Span, fastest: f64, latest: f64) -> Self {
        let behind = before.wall(self.local) - self.wall;
        if behind.abs() > Span::from_secs(1) {
            return self;
        }
        let away = behind.as_nanos() as f64;
        let soonest = soonest.max(Span::from_millis(1)).as_nanos() as f64;
        let within = (away.abs() / fastest).clamp(soonest, latest);
        // In the line's time, where part of a lead has faded.
        let own = (behind.as_nanos() + self.loses.over(behind.as_nanos())) as f64;
        let own = if own > 0.0 { own / (1.0 - own / within) } else { own };
        let fades = Slope::new(own / within);
        // An uncertain time reads the fade at another point.
        let uncertainty = self.uncertainty + behind.abs();
        let faded = fades.over(uncertainty.as_nanos()).saturating_abs() + 1;
        Self {
            behind: own.round() as i64,
            fades,
            unfades: fades.inverse(),
            within: Span::from_nanos(within as i64),
            uncertainty: uncertainty + Span::from_nanos(faded),
            precision: self.precision + behind.abs(),
            ..self
        }
    }

    /// Local time at which the peer's clock shows `wall`.
    pub fn local(&self, wall: WallTime) -> LocalTime {
        let since = (wall - self.wall).as_nanos();
        let since = plus(since, self.loses.over(since));
        self.local + Span::from_nanos(minus(since, self.left(since)))
    }

    /// The peer's clock at `local`.
    pub fn wall(&self, local: LocalTime) -> WallTime {
        // `behind` fades by the unknown line time.
        let since = (local - self.local).as_nanos();
        let begun = plus(since, self.behind);
        let slewing = plus(begun, self.unfades.over(begun));
        let since = match slewing {
            ..0 => begun,
            _ if slewing < self.within.as_nanos() => slewing,
            _ => since,
        };
        self.wall + Span::from_nanos(plus(since, self.gains.over(since)))
    }

    fn left(&self, since: i64) -> i64 {
        let since = since.max(0);
        if since >= self.within.as_nanos() { 0 } else { self.behind - self.fades.over(since) }
    }

    /// Maximum error at `now`; `None` if too old.
    pub fn uncertainty_at(&self, now: LocalTime) -> Option<Span> {
        Some(self.uncertainty + self.drifted(now)?)
    }

    /// Remaining change at `now`; `None` if too old.
    pub(crate) fn precision_at(&self, now: LocalTime) -> Option<Span> {
        Some(self.precision + self.drifted(now)?)
    }

    fn drifted(&self, now: LocalTime) -> Option<Span> {
        let Some(made) = self.made else { return Some(Span::ZERO) };
        let age = (now - made).max(Span::ZERO);
        (age <= Self::LIFE).then(|| Span::from_nanos(self.drift.over(age.as_nanos())))
    }

    /// The peer's clock minus ours at creation.
    pub fn offset(&self) -> Span {
        let local = self.made.unwrap_or(LocalTime::ZERO);
        Span::from_nanos(self.wall(local).as_unix_nanos().saturating_sub(local.as_nanos()))
    }

    /// Rate error of the peer's clock.
    pub fn rate(&self) -> Option<Ppm> {
        let says = self.made.is_some() || self.source == ClockSource::Host;
        says.then(|| Ppm::from_f64(self.gains.as_f64() * 1e6))
    }

    /// Maximum error of [`Self::rate`], either way: how fast the uncertainty grows.
    pub fn rate_uncertainty(&self) -> Ppm {
        Ppm::from_f64(self.drift.as_f64() * 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapping_transition_starts_at_old_and_ends_at_new_mapping() {
        let through = |local, wall, rate| {
            let source = ClockSource::Exchange;
            ClockMapping::through(local, wall, rate, Span::from_micros(10), source, 0.0)
        };
        let at = |millis: i64| LocalTime::ZERO + Span::from_millis(millis);
        let wall = |local: LocalTime, micros: i64| {
            WallTime::of_local(local, Span::from_secs(1_000) + Span::from_micros(micros))
        };
        for micros in [-20_000, -3000, -40, 0, 7, 900] {
            let before = through(at(0), wall(at(0), 0), 30e-6);
            let line = through(at(500), wall(at(500), micros), 25e-6);
            for fastest in [200e-6, 0.01] {
                let after = line.following(&before, Span::from_secs(1), fastest);
                let begins = after.wall(at(500)) - before.wall(at(500));
                assert!(begins.abs() <= Span::from_nanos(3), "{micros}: {begins}");
                let ends = after.wall(at(30_000)) - line.wall(at(30_000));
                assert_eq!(ends, Span::ZERO, "{micros}");
                for millis in (0..30_000).step_by(7) {
                    let there = after.wall(at(millis));
                    let back = after.local(there) - at(millis);
                    assert!(back.abs() <= Span::from_nanos(3), "{micros}, {millis}: {back}");
                    let next = after.wall(at(millis + 7)) - there - Span::from_millis(7);
                    let maximum = Span::from_nanos(7_000_000 / 100 + 700);
                    assert!(next.abs() <= maximum, "{micros}, {millis}: {next}");
                }
            }
        }
    }
}
