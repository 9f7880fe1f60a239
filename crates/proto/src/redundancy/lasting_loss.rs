//! Loss that lasts, found in the totals of a receiver.

use super::sizing::Tally;
use crate::time::{LocalTime, Span};

/// A loss counts as lasting if it spans this window.
const WINDOW: Span = Span::from_secs(3);
/// Minimum packets in the window.
const PACKETS: u64 = 50;

/// Finds the begin of a loss of a given share. Too many packets do not cause an outage, so outages
/// do not count.
#[derive(Debug, Clone, Copy)]
pub struct LastingLoss {
    /// Minimum share in percent.
    percent: u64,
    /// Totals at the begin of a window.
    window: Option<(LocalTime, Tally)>,
    /// Whether the last window had the loss.
    is_lost: bool,
}

impl LastingLoss {
    /// A fifth: the path carries less than the stream needs.
    pub const HEAVY: Self = Self::above(20);
    /// A twentieth, in spite of repairs: the path does not carry the repair data.
    pub const UNREPAIRED: Self = Self::above(5);
    /// A hundredth: users notice the concealed gaps.
    pub const AUDIBLE: Self = Self::above(1);

    const fn above(percent: u64) -> Self {
        Self { percent, window: None, is_lost: false }
    }

    /// Follows the totals. Returns the lost packets in percent when a loss begins.
    pub fn follow(&mut self, tally: Tally, now: LocalTime) -> Option<u8> {
        let (since, before) = *self.window.get_or_insert((now, tally));
        if now - since < WINDOW {
            return None;
        }
        self.window = Some((now, tally));
        let Tally { expected, missing, .. } = tally.since(&before);
        let is_lost = expected >= PACKETS && missing * 100 >= expected * self.percent;
        let was_lost = core::mem::replace(&mut self.is_lost, is_lost);
        (is_lost && !was_lost).then(|| (missing * 100 / expected) as u8)
    }
}
