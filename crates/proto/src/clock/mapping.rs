//! How to read another host's clock here, as a value that is handed on.

use super::line::Slope;
use crate::time::{LocalTime, Span, WallTime, minus, plus};
use crate::units::Ppm;

tautline_dsp::named_enum! {
    /// What a mapping rests on.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum ClockSource {
        /// Timed exchanges of RTCP reports (RFC 3611 §4.4, §4.5).
        Exchange = "rtcp",
        /// The system clocks of both hosts, each kept by its own means.
        System = "system",
        /// The system clocks of both hosts, each kept by a hardware clock that follows PTP.
        Ptp = "ptp",
        /// Both ends run on one host: they read the same clock.
        Host = "host",
        /// TAI by each end's own reading, which packets are presented by that say when: what the two readings differ by is
        /// seen by neither.
        Tai = "tai",
    }
}

/// How to read a peer's wall clock as an instant here: a pair of readings, a rate, and how sure
/// that is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockMapping {
    local: LocalTime,
    wall: WallTime,
    /// What the peer's clock gains on ours, and ours on the peer's.
    gains: Slope,
    loses: Slope,
    /// By how many nanoseconds the wall clock is read later than the line says at the pair, so that
    /// it follows from the mapping before without a step; that fades within the span.
    behind: i64,
    fades: Slope,
    unfades: Slope,
    within: Span,
    /// How far the mapping may have been from the truth when it was made, either way.
    pub uncertainty: Span,
    /// How far it may still have moved when it was made, as more is learnt: no bound on the truth, as
    /// what an asymmetric path hides is hidden for good.
    pub precision: Span,
    /// The round trip of the exchange it rests on; zero where it rests on none.
    pub round_trip: Span,
    /// What it rests on.
    pub source: ClockSource,
    /// When it was made; `None` for one that does not age.
    made: Option<LocalTime>,
    drift: Slope,
}

impl ClockMapping {
    /// Below this a round trip is not known: two ticks of the compact stamps of an exchange (RFC 3550
    /// §4, 2^-16 s each).
    const LEAST_ROUND_TRIP: Span = Span::from_nanos(2 * 15_259);
    /// A mapping this old says nothing any more: twenty reports of the peer's did not come.
    const LIFE: Span = Span::from_secs(10);
    /// It has gone over to the line after so many nanoseconds, however far away it was.
    const LATEST: f64 = 5e9;

    /// The round trip that it rests on, if that is known.
    pub fn known_round_trip(&self) -> Option<Span> {
        let exchanged = self.source == ClockSource::Exchange;
        (exchanged && self.round_trip >= Self::LEAST_ROUND_TRIP).then_some(self.round_trip)
    }

    /// A mapping known by other means than an exchange, of clocks that run alike.
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

    /// The wall clock of a peer on this very host, which is ahead of the host's clock by `offset`.
    /// Never ages.
    pub(super) const fn same_host(offset: Span) -> Self {
        Self { source: ClockSource::Host, ..Self::known(offset, Span::ZERO) }
    }

    /// The peer's clock shows `wall` at `local` and gains `rate` on ours, which may be wrong by `drift`.
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

    /// The same, but beginning where `before` is now and going over to itself within `soonest`, or
    /// later where that would take more than `fastest`, as a rate, but not for ever: what follows the
    /// mapping has a limit of its own.
    pub(super) fn following(self, before: &Self, soonest: Span, fastest: f64) -> Self {
        self.going_over(before, soonest, fastest, Self::LATEST)
    }

    /// The same, but never faster than `fastest`, however long that takes: a clock that everybody in a
    /// building is to keep to has no limit that would make it hurry.
    pub(super) fn slewing(self, before: &Self, fastest: f64) -> Self {
        self.going_over(before, Span::from_secs(1), fastest, f64::MAX)
    }

    fn going_over(self, before: &Self, soonest: Span, fastest: f64, latest: f64) -> Self {
        let behind = before.wall(self.local) - self.wall;
        // What cannot fade in that time is no error of an estimate but another clock.
        if behind.abs() > Span::from_secs(1) {
            return self;
        }
        let away = behind.as_nanos() as f64;
        let soonest = soonest.max(Span::from_millis(1)).as_nanos() as f64;
        let within = (away.abs() / fastest).clamp(soonest, latest);
        // Counted by the line's own time at the pair, where some of what leads has faded.
        let own = (behind.as_nanos() + self.loses.over(behind.as_nanos())) as f64;
        let own = if own > 0.0 { own / (1.0 - own / within) } else { own };
        let fades = Slope::new(own / within);
        // Time that is read too early or too late is read from where more or less has faded.
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

    /// When the peer's clock showed `wall`, by ours.
    pub fn local(&self, wall: WallTime) -> LocalTime {
        let since = (wall - self.wall).as_nanos();
        let since = plus(since, self.loses.over(since));
        self.local + Span::from_nanos(minus(since, self.left(since)))
    }

    /// What the peer's clock shows at `local`.
    pub fn wall(&self, local: LocalTime) -> WallTime {
        // What is left of `behind` is counted by the line's time, which is what is sought.
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

    /// How far the mapping still is from its line, so long after its pair.
    fn left(&self, since: i64) -> i64 {
        let since = since.max(0);
        if since >= self.within.as_nanos() { 0 } else { self.behind - self.fades.over(since) }
    }

    /// How far the mapping may be from the truth at `now`: the clocks drift apart from the moment
    /// it was made. `None` once it is too old to be used.
    pub fn uncertainty_at(&self, now: LocalTime) -> Option<Span> {
        Some(self.uncertainty + self.drifted(now)?)
    }

    /// How far the mapping may still move at `now`, as more is learnt. `None` once it is too old to be
    /// used.
    pub(crate) fn precision_at(&self, now: LocalTime) -> Option<Span> {
        Some(self.precision + self.drifted(now)?)
    }

    fn drifted(&self, now: LocalTime) -> Option<Span> {
        let Some(made) = self.made else { return Some(Span::ZERO) };
        let age = (now - made).max(Span::ZERO);
        (age <= Self::LIFE).then(|| Span::from_nanos(self.drift.over(age.as_nanos())))
    }

    /// The peer's wall clock less our local clock when the mapping was made.
    pub fn offset(&self) -> Span {
        let local = self.made.unwrap_or(LocalTime::ZERO);
        Span::from_nanos(self.wall(local).as_unix_nanos().saturating_sub(local.as_nanos()))
    }

    /// How much faster the peer's clock runs than ours; `None` for a mapping that never says.
    pub fn rate(&self) -> Option<Ppm> {
        let says = self.made.is_some() || self.source == ClockSource::Host;
        says.then(|| Ppm::from_f64(self.gains.as_f64() * 1e6))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_that_follows_another_begins_where_that_is_and_ends_where_it_should_be() {
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
                    let most = Span::from_nanos(7_000_000 / 100 + 700);
                    assert!(next.abs() <= most, "{micros}, {millis}: {next}");
                }
            }
        }
    }
}
