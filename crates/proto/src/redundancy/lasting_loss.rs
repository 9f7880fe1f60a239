//! Heavy loss: the path carries less than the stream needs.

use super::sizing::Tally;
use crate::time::{LocalTime, Span};

/// A heavy loss lasts this long, affects this share, and is not of single packets.
const WINDOW: Span = Span::from_secs(3);
const PERCENT: u64 = 20;
const PACKETS: u64 = 50;

/// Finds the begin of heavy loss in the totals of a receiver. Too many packets do not cause an
/// outage, so outages do not count.
#[derive(Debug, Clone, Copy, Default)]
pub struct HeavyLoss {
    /// Totals at the begin of a window.
    window: Option<(LocalTime, Tally)>,
    /// Whether the last window had a heavy loss.
    is_heavy: bool,
}

impl HeavyLoss {
    /// Follows the totals. Returns the lost packets in percent when a heavy loss begins.
    pub fn follow(&mut self, tally: Tally, now: LocalTime) -> Option<u8> {
        let (since, before) = *self.window.get_or_insert((now, tally));
        if now - since < WINDOW {
            return None;
        }
        self.window = Some((now, tally));
        let Tally { expected, missing, .. } = tally.since(&before);
        let is_heavy = expected >= PACKETS && missing * 100 >= expected * PERCENT;
        let was_heavy = core::mem::replace(&mut self.is_heavy, is_heavy);
        (is_heavy && !was_heavy).then(|| (missing * 100 / expected) as u8)
    }
}
