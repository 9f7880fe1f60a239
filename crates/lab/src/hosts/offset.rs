//! Whether clocks of one name are one clock. Machines that go on from one snapshot have the same name of their
//! start, and run apart from then on: exchanges show it. Decides; takes exchanges as they were.

use tautline_proto::clock::Exchange;
use tautline_proto::time::{Span, WallTime};

/// How far a host's clock is ahead of the one here, as far as exchanges with it leave that open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OffsetBounds {
    least: Span,
    most: Span,
}

/// What a clock may run beside another: a thousandth, as much as an exchange is believed (`proto::clock`).
const RATE: i64 = 1000;

impl OffsetBounds {
    pub(super) const HERE: Self = Self { least: Span::ZERO, most: Span::ZERO };

    /// No question arrived before it was asked, and no answer before it was given. None without exchanges.
    pub(super) fn of(exchanges: &[Exchange]) -> Option<Self> {
        let begun = exchanges.iter().map(|exchange| exchange.asked).min()?;
        let ended = exchanges.iter().map(|exchange| exchange.answered).max()?;
        let ahead = |there: WallTime, here| there - WallTime::of_local(here, Span::ZERO);
        let least = exchanges.iter().map(|one| ahead(one.peer_answered, one.answered)).max()?;
        let most = exchanges.iter().map(|one| ahead(one.peer_received, one.asked)).min()?;
        let reading = exchanges.iter().map(|one| one.reading_error).max()?;
        // Another host may have been asked before or after, so that its clock has run on meanwhile.
        let slack = reading + (ended - begun).divided(RATE);
        Some(Self { least: least - slack, most: most + slack })
    }

    pub(super) fn meets(&self, other: &Self) -> bool {
        self.least <= other.most && other.least <= self.most
    }
}

#[cfg(test)]
mod tests {
    use tautline_proto::time::LocalTime;

    use super::*;

    const WAY: Span = Span::from_micros(200);

    /// Exchanges with a clock that is ahead by so much, over a way that is slow there or back in turn.
    fn asked(ahead: Span, from: Span) -> OffsetBounds {
        let exchange = |turn: i64| {
            let asked = LocalTime::ZERO + from + Span::from_millis(2 * turn);
            let there = if turn % 2 == 0 { WAY } else { Span::ZERO };
            let shown = WallTime::of_local(asked + there, ahead);
            Exchange {
                asked,
                peer_received: shown,
                peer_answered: shown,
                answered: asked + WAY,
                reading_error: Span::from_nanos(1),
            }
        };
        let exchanges: Vec<_> = (0..8).map(exchange).collect();
        OffsetBounds::of(&exchanges).unwrap()
    }

    #[test]
    fn machines_that_went_on_from_one_snapshot_have_two_clocks() {
        for apart in [Span::from_millis(1), Span::from_millis(-1), Span::from_secs(3600)] {
            assert!(!asked(apart, Span::ZERO).meets(&OffsetBounds::HERE), "{apart}");
            // As seen from a third.
            let far = Span::from_secs(-5000);
            let (one, other) = (asked(far, Span::ZERO), asked(far + apart, Span::from_millis(20)));
            assert!(!one.meets(&other) && !other.meets(&one), "{apart}");
        }
    }

    #[test]
    fn one_clock_is_one_however_long_the_way_and_wherever_it_is_asked_from() {
        assert!(asked(Span::ZERO, Span::ZERO).meets(&OffsetBounds::HERE));
        let far = Span::from_secs(-5000);
        // It ran on by 10 ppm while the other was asked.
        let (one, other) =
            (asked(far, Span::ZERO), asked(far + Span::from_nanos(200), Span::from_millis(20)));
        assert!(one.meets(&other) && other.meets(&one));
        assert_eq!(OffsetBounds::of(&[]), None);
    }
}
