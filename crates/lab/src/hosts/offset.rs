//! Decides whether same-named clocks are one. Machines resumed from one snapshot share a boot ID,
//! but not a clock. No I/O.

use tautline_proto::clock::Exchange;
use tautline_proto::time::{Span, WallTime};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OffsetBounds {
    minimum: Span,
    maximum: Span,
}

/// Divisor of the time: the maximum rate error is 1/1000, as in `proto::clock`.
const RATE: i64 = 1000;

impl OffsetBounds {
    pub(super) const HERE: Self = Self { minimum: Span::ZERO, maximum: Span::ZERO };

    /// No message arrives before it was sent. `None` without exchanges.
    pub(super) fn of(exchanges: &[Exchange]) -> Option<Self> {
        let begun = exchanges.iter().map(|exchange| exchange.requested).min()?;
        let ended = exchanges.iter().map(|exchange| exchange.answered).max()?;
        let ahead = |there: WallTime, here| there - WallTime::of_local(here, Span::ZERO);
        let minimum = exchanges.iter().map(|one| ahead(one.peer_answered, one.answered)).max()?;
        let maximum = exchanges.iter().map(|one| ahead(one.peer_received, one.requested)).min()?;
        let reading = exchanges.iter().map(|one| one.reading_error).max()?;
        // Exchanges with hosts differ in time; clocks drift in between.
        let slack = reading + (ended - begun).divided(RATE);
        Some(Self { minimum: minimum - slack, maximum: maximum + slack })
    }

    pub(super) fn meets(&self, other: &Self) -> bool {
        self.minimum <= other.maximum && other.minimum <= self.maximum
    }
}

#[cfg(test)]
mod tests {
    use tautline_proto::time::LocalTime;

    use super::*;

    const WAY: Span = Span::from_micros(200);

    fn requested(ahead: Span, from: Span) -> OffsetBounds {
        let exchange = |turn: i64| {
            let requested = LocalTime::ZERO + from + Span::from_millis(2 * turn);
            let there = if turn % 2 == 0 { WAY } else { Span::ZERO };
            let shown = WallTime::of_local(requested + there, ahead);
            Exchange {
                requested,
                peer_received: shown,
                peer_answered: shown,
                answered: requested + WAY,
                reading_error: Span::from_nanos(1),
            }
        };
        let exchanges: Vec<_> = (0..8).map(exchange).collect();
        OffsetBounds::of(&exchanges).unwrap()
    }

    #[test]
    fn machines_that_went_on_from_one_snapshot_have_two_clocks() {
        for apart in [Span::from_millis(1), Span::from_millis(-1), Span::from_secs(3600)] {
            assert!(!requested(apart, Span::ZERO).meets(&OffsetBounds::HERE), "{apart}");
            let far = Span::from_secs(-5000);
            let (one, other) =
                (requested(far, Span::ZERO), requested(far + apart, Span::from_millis(20)));
            assert!(!one.meets(&other) && !other.meets(&one), "{apart}");
        }
    }

    #[test]
    fn same_clock_is_recognized_across_any_delay_and_host() {
        assert!(requested(Span::ZERO, Span::ZERO).meets(&OffsetBounds::HERE));
        let far = Span::from_secs(-5000);
        let (one, other) = (
            requested(far, Span::ZERO),
            requested(far + Span::from_nanos(200), Span::from_millis(20)),
        );
        assert!(one.meets(&other) && other.meets(&one));
        assert_eq!(OffsetBounds::of(&[]), None);
    }
}
