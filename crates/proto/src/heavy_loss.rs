//! Heavy loss: the network carries less than a stream needs.

use crate::redundancy::sizing::Tally;
use crate::time::{LocalTime, Span};

/// A heavy loss lasts this long, affects this share, and is not of single packets.
const WINDOW: Span = Span::from_secs(3);
const PERCENT: u64 = 20;
pub(crate) const PACKETS: u64 = 50;

/// Detects heavy loss in totals of lost packets. Too many packets do not cause an outage, so outages do
/// not count.
#[derive(Debug, Clone, Default)]
pub(crate) struct HeavyLoss {
    /// Totals at the begin of a window.
    window: Option<(LocalTime, Tally)>,
    /// Whether the last window had a heavy loss.
    loses_many: bool,
}

impl HeavyLoss {
    /// Returns the percentage of lost packets, once until the loss ends.
    pub(crate) fn observe(&mut self, tally: Tally, now: LocalTime) -> Option<u8> {
        let (since, before) = *self.window.get_or_insert((now, tally));
        if now - since < WINDOW {
            return None;
        }
        self.window = Some((now, tally));
        let Tally { expected, missing, .. } = tally.since(&before);
        let loses_many = expected >= PACKETS && missing * 100 >= expected * PERCENT;
        let noted = core::mem::replace(&mut self.loses_many, loses_many);
        (loses_many && !noted).then(|| (missing * 100 / expected) as u8)
    }
}
