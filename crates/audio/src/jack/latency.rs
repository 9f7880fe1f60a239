//! Latency between our ports and the converter, from the server's graph. It stays while no port is
//! connected or a path has it, so that patching moves no times. Initially the card's.

use tautline_proto::time::Frames;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LatencyBounds {
    pub(crate) minimum: Frames,
    pub(crate) maximum: Frames,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PortLatency {
    pub(crate) counted: Frames,
    pub(crate) spread: Frames,
}

impl PortLatency {
    pub(crate) fn of_card(card: Frames) -> Self {
        Self { counted: card, spread: Frames::ZERO }
    }

    pub(crate) fn to_be(connected: Option<LatencyBounds>, card: Frames) -> Self {
        Self::of_card(card).follow(connected, card, card)
    }

    /// Cycles to the converter, rounded up, plus the cycle being filled.
    pub(crate) fn periods(self, cycle: Frames) -> u32 {
        let (counted, cycle) = (self.counted.count().max(0), cycle.count().max(1));
        u32::try_from((counted + cycle - 1) / cycle + 1).unwrap_or(u32::MAX)
    }

    /// `None`: no connection. The card's latency was `was` and is `card`; a promised playback lead
    /// stays (decision 15).
    pub(crate) fn follow(
        self,
        connected: Option<LatencyBounds>,
        was: Frames,
        card: Frames,
    ) -> Self {
        let kept = if self.counted == was { card } else { self.counted.min(card) };
        let Some(bounds) = connected else { return Self::of_card(kept) };
        let (minimum, maximum) = (bounds.minimum.min(card), bounds.maximum.min(card));
        let counted = kept.clamp(minimum, maximum.max(minimum));
        Self { counted, spread: (counted - minimum).max(maximum - counted) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CARD: Frames = Frames::new(256);

    fn bounds(minimum: i64, maximum: i64) -> Option<LatencyBounds> {
        Some(LatencyBounds { minimum: Frames::new(minimum), maximum: Frames::new(maximum) })
    }

    fn followed(changes: &[Option<LatencyBounds>]) -> Vec<(i64, i64)> {
        let mut latency = PortLatency::of_card(CARD);
        let follow = changes.iter().map(|connected| {
            latency = latency.follow(*connected, CARD, CARD);
            (latency.counted.count(), latency.spread.count())
        });
        follow.collect()
    }

    #[test]
    fn block_takes_the_card_periods_if_a_card_may_be_connected() {
        let periods = |connected| PortLatency::to_be(connected, CARD).periods(Frames::new(128));
        assert_eq!([periods(None), periods(bounds(256, 256)), periods(bounds(0, 256))], [3; 3]);
        assert_eq!(
            [periods(bounds(130, 130)), periods(bounds(1, 1)), periods(bounds(999, 999))],
            [3, 2, 3]
        );
    }

    #[test]
    fn block_takes_one_period_if_the_connection_has_no_latency() {
        for cycle in [16, 64, 128, 1024] {
            let latency = PortLatency::to_be(bounds(0, 0), CARD);
            assert_eq!(latency.periods(Frames::new(cycle)), 1, "{cycle}");
        }
    }

    #[test]
    fn the_card_counts_before_the_first_cable_and_after_the_last() {
        let changes = [None, bounds(256, 256), None, bounds(256, 256), None];
        assert_eq!(followed(&changes), [(256, 0); 5]);
    }

    #[test]
    fn last_latency_holds_without_connections() {
        let changes = [bounds(0, 0), None, bounds(0, 0), bounds(256, 256), None];
        assert_eq!(followed(&changes), [(0, 0), (0, 0), (0, 0), (256, 0), (256, 0)]);
    }

    #[test]
    fn latency_stays_while_any_path_needs_it() {
        let changes =
            [bounds(256, 256), bounds(0, 256), bounds(0, 0), bounds(0, 256), bounds(256, 256)];
        let expected = [(256, 0), (256, 256), (0, 0), (0, 256), (256, 0)];
        assert_eq!(followed(&changes), expected);
    }

    #[test]
    fn graph_path_counts_at_most_the_card_latency() {
        assert_eq!(followed(&[bounds(1000, 2000), bounds(10, 1000)]), [(256, 0), (256, 246)]);
    }

    #[test]
    fn card_buffer_change_is_followed_connected_or_not() {
        let other = Frames::new(1024);
        let latency = PortLatency::of_card(CARD);
        assert_eq!(latency.follow(None, CARD, other), PortLatency::of_card(other));
        let mixed = latency.follow(bounds(0, 1024), CARD, other);
        assert_eq!((mixed.counted, mixed.spread), (other, other));
        let synthesiser = latency.follow(bounds(0, 0), CARD, CARD);
        assert_eq!(synthesiser.follow(None, CARD, other), synthesiser);
        let shorter =
            latency.follow(bounds(200, 200), CARD, CARD).follow(None, CARD, Frames::new(64));
        assert_eq!(shorter, PortLatency::of_card(Frames::new(64)));
    }
}
