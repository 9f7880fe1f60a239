//! Decides when to request missing blocks.

use core::ops::Range;

use crate::time::{LocalTime, Span};

/// First wait: a local round trip plus a host period. A longer period costs an extra datagram.
const FIRST_WAIT: Span = Span::from_millis(5);
/// Maximum wait while the sender is active.
const LONGEST_WAIT: Span = Span::from_millis(40);
/// Maximum wait while the sender is silent, perhaps for ever.
const LONGEST_SILENT: Span = Span::from_secs(4);

#[derive(Debug, Clone)]
pub(super) struct BlockAsking {
    requested: Box<[u64]>,
    wait: Span,
    again: LocalTime,
}

const NOTHING: u64 = u64::MAX;

impl BlockAsking {
    pub(super) fn new(hold: u64) -> Self {
        Self {
            requested: vec![NOTHING; hold as usize].into(),
            wait: FIRST_WAIT,
            again: LocalTime::NEVER,
        }
    }

    pub(super) const fn again(&self) -> LocalTime {
        self.again
    }

    pub(super) const fn wait(&self) -> Span {
        self.wait
    }

    pub(super) fn nothing_is_missing(&mut self) {
        if !self.again.is_never() {
            self.requested.fill(NOTHING);
        }
        (self.wait, self.again) = (FIRST_WAIT, LocalTime::NEVER);
    }

    /// After a silence, shortens the wait to [`LONGEST_WAIT`].
    pub(super) fn received(&mut self) {
        if self.wait > LONGEST_WAIT {
            if !self.again.is_never() {
                self.again = self.again - self.wait + LONGEST_WAIT;
            }
            self.wait = LONGEST_WAIT;
        }
    }

    pub(super) fn progress(&mut self) {
        self.wait = FIRST_WAIT;
    }

    /// If `open`, a few at the end are not worth a request.
    pub(super) fn next(
        &mut self,
        among: Range<u64>,
        open: bool,
        now: LocalTime,
        missing: impl Fn(u64) -> bool,
    ) -> Option<Range<u64>> {
        if now >= self.again {
            self.requested.fill(NOTHING);
            self.again = LocalTime::NEVER;
            self.wait = (self.wait + self.wait).min(LONGEST_SILENT);
        }
        let hold = self.requested.len() as u64;
        let at = |block: u64| (block % hold) as usize;
        let wanted =
            |requested: &[u64], block: u64| missing(block) && requested[at(block)] != block;
        let from = among.clone().find(|block| wanted(&self.requested, *block))?;
        let until = (from..among.end).find(|block| !wanted(&self.requested, *block));
        let until = until.unwrap_or(among.end);
        let few = (until - from) * 4 < hold;
        if open && until == among.end && few && !self.again.is_never() {
            return None;
        }
        (from..until).for_each(|block| self.requested[at(block)] = block);
        if self.again.is_never() {
            self.again = now + self.wait;
        }
        Some(from..until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> LocalTime {
        LocalTime::ZERO + Span::from_millis(millis)
    }

    /// Polled every millisecond.
    fn questions(
        asking: &mut BlockAsking,
        looks: Range<i64>,
        handles: impl Fn(i64) -> bool,
    ) -> Vec<i64> {
        let requests = |millis: &i64| {
            if handles(*millis) {
                asking.received();
            }
            asking.next(0..1, false, at(*millis), |_| true).is_some()
        };
        looks.filter(requests).collect()
    }

    #[test]
    fn silent_sender_is_queried_ever_less_often() {
        let mut asking = BlockAsking::new(16);
        let requested = questions(&mut asking, 0..60_000, |_| false);
        assert_eq!(requested[..5], [0, 5, 15, 35, 75]);
        let seldom = requested.windows(2).map(|pair| pair[1] - pair[0]).filter(|gap| *gap == 4000);
        assert!(requested.len() < 30 && seldom.count() > 10, "{requested:?}");
    }

    #[test]
    fn returned_sender_is_queried_immediately() {
        let mut asking = BlockAsking::new(16);
        questions(&mut asking, 0..10_000, |_| false);
        assert_eq!(questions(&mut asking, 10_000..10_060, |at| at >= 10_007), [10_007, 10_047]);
    }

    #[test]
    fn continuous_sender_is_queried_every_40_ms() {
        let mut asking = BlockAsking::new(16);
        questions(&mut asking, 0..1000, |at| at % 5 == 0);
        let requested = questions(&mut asking, 1000..2000, |at| at % 5 == 0);
        assert!(requested.windows(2).all(|pair| pair[1] - pair[0] == 40), "{requested:?}");
        assert_eq!(requested.len(), 25);
    }
}
