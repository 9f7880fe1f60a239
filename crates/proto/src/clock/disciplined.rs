//! Disciplined clocks of two hosts: their offsets are known from a reference.

use super::{ClockMapping, ClockSource};
use crate::time::{LocalTime, Span, WallTime};

/// A host's disciplined system clock: its session's clock plus `offset` is UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DisciplinedClock {
    /// UTC minus our monotonic or the peer's session clock.
    pub offset: Span,
    /// Maximum error, either way.
    pub uncertainty: Span,
    /// [`ClockSource::System`] or [`ClockSource::Ptp`].
    pub source: ClockSource,
}

impl DisciplinedClock {
    /// Maximum drift between two disciplined clocks.
    pub(super) const DRIFT: f64 = 5e-6;

    /// Mapping to a peer's clock disciplined as `theirs`.
    pub fn mapping(&self, theirs: &Self, now: LocalTime) -> ClockMapping {
        let both = self.source == ClockSource::Ptp && theirs.source == ClockSource::Ptp;
        let uncertainty = self.uncertainty + theirs.uncertainty;
        let source = if both { ClockSource::Ptp } else { ClockSource::System };
        let utc = WallTime::of_local(now, self.offset);
        ClockMapping::through(now, utc + -theirs.offset, 0.0, uncertainty, source, Self::DRIFT)
    }
}

/// Chooses the most certain mapping.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    exchanged: Option<ClockMapping>,
    kept: Option<ClockMapping>,
    host: Option<ClockMapping>,
    chosen: Option<ClockMapping>,
}

impl Choice {
    /// Required improvement in quarters, against flapping.
    const SURER: i64 = 3;
    /// Maximum slew rate, a third of a cent.
    pub(super) const SLEW: f64 = 200e-6;
    /// Maximum contradiction of a shared host clock. Virtual machines copied while running share a
    /// name.
    const CONTRARY: Span = Span::from_millis(1);

    /// Sets a mapping from exchanges; returns a changed choice.
    pub fn exchanged(&mut self, mapping: ClockMapping, now: LocalTime) -> Option<ClockMapping> {
        self.exchanged = Some(mapping);
        self.choose(now, ClockSource::Exchange)
    }

    /// Sets a mapping from disciplined clocks; returns a changed choice.
    pub fn kept(&mut self, mapping: ClockMapping, now: LocalTime) -> Option<ClockMapping> {
        self.kept = Some(mapping);
        self.choose(now, mapping.source)
    }

    /// Sets a peer's clock on this host, `offset` ahead; returns a changed choice.
    pub fn same_host(&mut self, offset: Span, now: LocalTime) -> Option<ClockMapping> {
        self.host = Some(ClockMapping::same_host(offset));
        self.choose(now, ClockSource::Host)
    }

    fn choose(&mut self, now: LocalTime, newer: ClockSource) -> Option<ClockMapping> {
        let sure = |mapping: &Option<ClockMapping>| {
            mapping.as_ref().and_then(|mapping| mapping.uncertainty_at(now))
        };
        let maximum = sure(&self.exchanged).map_or(Span::MAX, |unsure| unsure + Self::CONTRARY);
        if let Some(host) = self.host.filter(|_| self.apart(self.host, now) <= maximum) {
            let before = self.chosen.replace(host);
            return (before != self.chosen).then_some(host);
        }
        let by_exchange = |mapping: &ClockMapping| mapping.source == ClockSource::Exchange;
        let before = self.chosen.is_none_or(|chosen| by_exchange(&chosen));
        let kept = match (sure(&self.exchanged), sure(&self.kept)) {
            (_, None) => false,
            (None, Some(_)) => true,
            // One is wrong; the exchange is measured.
            (Some(one), Some(other)) if self.apart(self.kept, now) > one + other => false,
            (Some(one), Some(other)) if before => other.times(4) < one.times(Self::SURER),
            (Some(one), Some(other)) => other.times(Self::SURER) <= one.times(4),
        };
        let next = if kept { self.kept } else { self.exchanged }?;
        let changes = before == kept;
        if !changes && kept == (newer == ClockSource::Exchange) {
            return None;
        }
        // Exchanges already change smoothly.
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

    /// UTC is ours plus 100 s and theirs plus 30 s.
    fn both(micros: i64, source: ClockSource) -> ClockMapping {
        let ours = kept(Span::from_secs(100), micros, source);
        ours.mapping(&kept(Span::from_secs(30), micros, source), NOW)
    }

    #[test]
    fn two_synchronised_clocks_are_mapped_by_their_master() {
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
    fn shared_host_clock_is_used_unless_exchanges_contradict_it() {
        let mut choice = Choice::default();
        let (offset, off) = (Span::from_secs(70), Span::from_micros(200));
        choice.exchanged(exchanged(offset + off, 250), NOW).expect("the only one");
        let host = choice.same_host(offset, NOW).expect("surer than any");
        assert_eq!((host.source, host.uncertainty), (ClockSource::Host, Span::ZERO));
        assert_eq!(host.uncertainty_at(NOW + Span::from_secs(3600)), Some(Span::ZERO));
        let later = NOW + Span::from_secs(1);
        assert_eq!(choice.exchanged(exchanged(offset + off, 250), later), None);
        assert_eq!(choice.same_host(offset, later), None, "nothing new");
        let copied = exchanged(offset + Span::from_millis(40), 250);
        let other = choice.exchanged(copied, later).expect("the exchanges are relied on again");
        assert_eq!(other.source, ClockSource::Exchange);
        assert_eq!(choice.same_host(offset, later), None);
    }

    #[test]
    fn system_clock_that_contradicts_exchanges_is_ignored() {
        let mut choice = Choice::default();
        let offset = Span::from_secs(70) + Span::from_millis(30);
        choice.exchanged(exchanged(offset, 250), NOW).expect("the only one");
        assert_eq!(choice.kept(both(2, ClockSource::Ptp), NOW), None);
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
