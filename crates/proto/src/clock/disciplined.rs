//! Clocks that are kept by other means: where the system clocks of both hosts follow a reference,
//! each host can tell what it is by that, and no packet needs to be timed.

use super::{ClockMapping, ClockSource};
use crate::time::{LocalTime, Span, WallTime};

/// What a host's kernel says of its system clock: the clock that a session uses, plus `offset`, is
/// UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DisciplinedClock {
    /// UTC less the clock: of our own, the monotonic clock; of a peer's, its session's wall clock.
    pub offset: Span,
    /// How far that may be from the truth, either way.
    pub uncertainty: Span,
    /// What keeps it: [`ClockSource::System`] or [`ClockSource::Ptp`].
    pub source: ClockSource,
}

impl DisciplinedClock {
    /// Two clocks that are kept may drift apart by this until they are read again.
    pub(super) const DRIFT: f64 = 5e-6;

    /// How to read the clock of a peer that is kept as it says, where ours is kept like this.
    pub fn mapping(&self, theirs: &Self, now: LocalTime) -> ClockMapping {
        let both = self.source == ClockSource::Ptp && theirs.source == ClockSource::Ptp;
        let uncertainty = self.uncertainty + theirs.uncertainty;
        let source = if both { ClockSource::Ptp } else { ClockSource::System };
        let utc = WallTime::of_local(now, self.offset);
        ClockMapping::through(now, utc + -theirs.offset, 0.0, uncertainty, source, Self::DRIFT)
    }
}

/// Takes the surest of the mappings of one clock: the host's own where both ends read it, else by
/// exchanges or by what keeps the clocks.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    exchanged: Option<ClockMapping>,
    kept: Option<ClockMapping>,
    host: Option<ClockMapping>,
    chosen: Option<ClockMapping>,
}

impl Choice {
    /// The other is taken only if it is surer by this, in quarters: nothing is won by flapping.
    const SURER: i64 = 3;
    /// A clock that is set moves a mapping over by no more than this, as a rate: a third of a cent.
    pub(super) const SLEW: f64 = 200e-6;
    /// Exchanges that are further from a clock that both ends say they read, beyond what they are
    /// unsure of, give it the lie: virtual machines that were copied while they ran have one name.
    const CONTRARY: Span = Span::from_millis(1);

    /// Takes a newer mapping by exchanges; the one to use if it is another now.
    pub fn exchanged(&mut self, mapping: ClockMapping, now: LocalTime) -> Option<ClockMapping> {
        self.exchanged = Some(mapping);
        self.choose(now, ClockSource::Exchange)
    }

    /// Takes a newer mapping by what keeps the clocks.
    pub fn kept(&mut self, mapping: ClockMapping, now: LocalTime) -> Option<ClockMapping> {
        self.kept = Some(mapping);
        self.choose(now, mapping.source)
    }

    /// Takes the wall clock of a peer on this very host, which is ahead of the host's by `offset`;
    /// the mapping to use if it is another now.
    pub fn same_host(&mut self, offset: Span, now: LocalTime) -> Option<ClockMapping> {
        self.host = Some(ClockMapping::same_host(offset));
        self.choose(now, ClockSource::Host)
    }

    fn choose(&mut self, now: LocalTime, newer: ClockSource) -> Option<ClockMapping> {
        let sure = |mapping: &Option<ClockMapping>| {
            mapping.as_ref().and_then(|mapping| mapping.uncertainty_at(now))
        };
        let most = sure(&self.exchanged).map_or(Span::MAX, |unsure| unsure + Self::CONTRARY);
        if let Some(host) = self.host.filter(|_| self.apart(self.host, now) <= most) {
            let before = self.chosen.replace(host);
            return (before != self.chosen).then_some(host);
        }
        let by_exchange = |mapping: &ClockMapping| mapping.source == ClockSource::Exchange;
        let before = self.chosen.is_none_or(|chosen| by_exchange(&chosen));
        let kept = match (sure(&self.exchanged), sure(&self.kept)) {
            (_, None) => false,
            (None, Some(_)) => true,
            // One of two that exclude each other is wrong, and an exchange is measured.
            (Some(one), Some(other)) if self.apart(self.kept, now) > one + other => false,
            (Some(one), Some(other)) if before => other.times(4) < one.times(Self::SURER),
            (Some(one), Some(other)) => other.times(Self::SURER) <= one.times(4),
        };
        let next = if kept { self.kept } else { self.exchanged }?;
        let changes = before == kept;
        if !changes && kept == (newer == ClockSource::Exchange) {
            return None;
        }
        // By exchanges it goes over by itself.
        let smooth = self.chosen.filter(|before| !by_exchange(before) || !by_exchange(&next));
        let next =
            smooth.map_or(next, |before| next.following(&before, Span::from_secs(1), Self::SLEW));
        self.chosen = Some(next);
        self.chosen
    }

    fn apart(&self, other: Option<ClockMapping>, now: LocalTime) -> Span {
        let walls = self.exchanged.zip(other);
        walls.map_or(Span::ZERO, |(one, other)| (one.wall(now) - other.wall(now)).abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: LocalTime = LocalTime::from_nanos(50_000_000_000);

    fn kept(offset: Span, micros: i64, source: ClockSource) -> DisciplinedClock {
        DisciplinedClock { offset, uncertainty: Span::from_micros(micros), source }
    }

    fn exchanged(offset: Span, micros: i64) -> ClockMapping {
        ClockMapping::known(offset, Span::from_micros(micros))
    }

    /// UTC is our clock plus 100 s and the peer's plus 30 s, so theirs is ours plus 70 s.
    fn both(micros: i64, source: ClockSource) -> ClockMapping {
        let ours = kept(Span::from_secs(100), micros, source);
        ours.mapping(&kept(Span::from_secs(30), micros, source), NOW)
    }

    #[test]
    fn two_kept_clocks_are_mapped_by_what_keeps_them() {
        let mapping = both(400, ClockSource::System);
        assert_eq!(mapping.wall(NOW) - WallTime::of_local(NOW, Span::from_secs(70)), Span::ZERO);
        assert_eq!(mapping.uncertainty, Span::from_micros(800));
        assert_eq!(mapping.source, ClockSource::System);
        assert_eq!(both(1, ClockSource::Ptp).source, ClockSource::Ptp);
    }

    #[test]
    fn the_surer_of_the_two_is_taken_and_gone_over_to_smoothly() {
        let mut choice = Choice::default();
        let offset = Span::from_secs(70) + Span::from_micros(150);
        let first = choice.exchanged(exchanged(offset, 250), NOW).expect("the only one");
        assert_eq!(choice.kept(both(400, ClockSource::System), NOW), None);
        let better = choice.kept(both(2, ClockSource::Ptp), NOW).expect("surer");
        assert_eq!(better.source, ClockSource::Ptp);
        assert!((better.wall(NOW) - first.wall(NOW)).abs() <= Span::from_nanos(2));
        let later = NOW + Span::from_secs(2);
        assert_eq!(better.wall(later), WallTime::of_local(later, Span::from_secs(70)));
        assert_eq!(choice.exchanged(exchanged(offset, 250), later), None);
    }

    #[test]
    fn the_host_both_ends_run_on_is_believed_unless_the_exchanges_exclude_it() {
        let mut choice = Choice::default();
        let (offset, off) = (Span::from_secs(70), Span::from_micros(200));
        choice.exchanged(exchanged(offset + off, 250), NOW).expect("the only one");
        let host = choice.same_host(offset, NOW).expect("surer than any");
        assert_eq!((host.source, host.uncertainty), (ClockSource::Host, Span::ZERO));
        assert_eq!(host.uncertainty_at(NOW + Span::from_secs(3600)), Some(Span::ZERO));
        let later = NOW + Span::from_secs(1);
        assert_eq!(choice.exchanged(exchanged(offset + off, 250), later), None);
        assert_eq!(choice.same_host(offset, later), None, "nothing new");
        // A machine that was copied while it ran calls its clock by the same name.
        let copied = exchanged(offset + Span::from_millis(40), 250);
        let other = choice.exchanged(copied, later).expect("the exchanges are relied on again");
        assert_eq!(other.source, ClockSource::Exchange);
        assert_eq!(choice.same_host(offset, later), None);
    }

    #[test]
    fn a_system_clock_that_contradicts_the_exchanges_is_not_followed() {
        let mut choice = Choice::default();
        let offset = Span::from_secs(70) + Span::from_millis(30);
        choice.exchanged(exchanged(offset, 250), NOW).expect("the only one");
        assert_eq!(choice.kept(both(2, ClockSource::Ptp), NOW), None);
        // It was right, and then somebody set it.
        let mut choice = Choice::default();
        choice.exchanged(exchanged(Span::from_secs(70), 250), NOW).expect("the only one");
        choice.kept(both(2, ClockSource::Ptp), NOW).expect("surer");
        let ours = kept(Span::from_secs(160), 2, ClockSource::Ptp);
        let set = ours.mapping(&kept(Span::from_secs(30), 2, ClockSource::Ptp), NOW);
        let again = choice.kept(set, NOW).expect("the exchanges are relied on again");
        assert_eq!(again.source, ClockSource::Exchange);
        assert!(
            (again.wall(NOW) - WallTime::of_local(NOW, Span::from_secs(70))).abs().as_nanos() < 9
        );
    }
}
