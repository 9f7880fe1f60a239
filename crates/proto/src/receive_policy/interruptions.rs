//! Notes on packets that stop, and on heavy loss.

use super::ReceiveNote;
use super::recent::Recent;
use crate::redundancy::sizing::Tally;
use crate::time::{LocalTime, Span};

/// A heavy loss lasts this long, affects this share, and is not of single packets.
const WINDOW: Span = Span::from_secs(3);
const PERCENT: u64 = 20;
const PACKETS: u64 = 50;

#[derive(Debug, Clone, Default)]
pub(super) struct Interruptions {
    /// Last packet before a reported silence.
    stopped: Option<LocalTime>,
    /// Losses at the begin of a window.
    window: Option<(LocalTime, Tally)>,
    /// Whether the last window had a heavy loss.
    loses_many: bool,
}

impl Interruptions {
    /// `left`: the sender said goodbye.
    pub(super) fn silence(
        &mut self,
        recent: &Recent,
        left: bool,
        now: LocalTime,
    ) -> Option<ReceiveNote> {
        let last = recent.last();
        match self.stopped {
            None if recent.is_gone(now) && !left => {
                self.stopped = Some(last);
                Some(ReceiveNote::Stopped)
            }
            Some(since) if last > since => {
                self.stopped = None;
                Some(ReceiveNote::Resumed(last - since))
            }
            _ => None,
        }
    }

    /// Too many packets do not cause an outage, so outages do not count.
    pub(super) fn loss(&mut self, tally: Tally, now: LocalTime) -> Option<ReceiveNote> {
        let (since, before) = *self.window.get_or_insert((now, tally));
        if now - since < WINDOW {
            return None;
        }
        self.window = Some((now, tally));
        let Tally { expected, missing, .. } = tally.since(&before);
        let loses_many = expected >= PACKETS && missing * 100 >= expected * PERCENT;
        let noted = core::mem::replace(&mut self.loses_many, loses_many);
        (loses_many && !noted).then(|| ReceiveNote::HeavyLoss((missing * 100 / expected) as u8))
    }
}
