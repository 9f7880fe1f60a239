//! Whether packets of a stream go on coming, by the instants that are handed in alone.

use crate::time::{LocalTime, Span};

/// A sender without packets for so long may be followed by another: as long as the receiver machine
/// waits, and a report of its status.
const QUIET: Span = Span::from_millis(50);

/// A sender without packets for so long is gone, even if its goodbye never came.
pub(crate) const GONE: Span = Span::from_secs(3);

const SECOND: Span = Span::from_secs(1);

/// When packets of one stream came last.
#[derive(Debug, Clone, Copy)]
pub struct Recent {
    received: u64,
    /// When that was first known.
    since: LocalTime,
    /// When it was last looked.
    looked: LocalTime,
}

impl Recent {
    /// None has come yet.
    pub const NONE: Self = Self { received: 0, since: LocalTime::ZERO, looked: LocalTime::ZERO };

    /// So many had come by `at`.
    pub fn look(&mut self, received: u64, at: LocalTime) {
        if received != self.received {
            (self.received, self.since) = (received, at);
        }
        self.looked = at;
    }

    /// Whether any has come at all.
    pub const fn any(&self) -> bool {
        self.received > 0
    }

    /// When the last was known to have come.
    pub const fn last(&self) -> LocalTime {
        self.since
    }

    pub(crate) fn is_lively(&self) -> bool {
        self.any() && self.looked - self.since < QUIET
    }

    /// Whether what came still sounds, which it does for `latency`, or is likely to go on.
    pub fn sounds(&self, latency: Span) -> bool {
        self.any() && self.looked - self.since < QUIET.max(latency)
    }

    /// How many whole seconds none has come of a stream that brought some; `None` below one.
    pub fn silent(&self) -> Option<Span> {
        let seconds = (self.looked - self.since).as_nanos() / SECOND.as_nanos();
        (self.any() && seconds > 0).then(|| SECOND.times(seconds))
    }

    /// Whether the stream brought some and none for so long that no more will come.
    pub fn is_gone(&self, now: LocalTime) -> bool {
        self.any() && now - self.since > GONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> LocalTime {
        LocalTime::ZERO + Span::from_millis(millis)
    }

    #[test]
    fn a_stream_that_sounded_and_brings_nothing_is_silent_in_whole_seconds() {
        let mut recent = Recent::NONE;
        recent.look(0, at(60_000));
        assert!(!recent.any() && recent.silent().is_none(), "it never sounded");
        recent.look(1, at(60_010));
        for (millis, lively, seconds) in [
            (60_010, true, None),
            (60_059, true, None),
            (60_060, false, None),
            (61_009, false, None),
            (61_010, false, Some(1)),
            (64_500, false, Some(4)),
        ] {
            recent.look(1, at(millis));
            let silent = recent.silent().map(|span| span.as_nanos() / 1_000_000_000);
            assert_eq!((recent.is_lively(), silent), (lively, seconds), "{millis} ms");
        }
        assert!(!recent.is_gone(at(63_010)) && recent.is_gone(at(63_011)));
        recent.look(1, at(60_410));
        let latencies = [Span::ZERO, Span::from_millis(400), Span::from_millis(401)];
        assert_eq!(latencies.map(|latency| recent.sounds(latency)), [false, false, true]);
        recent.look(2, at(65_000));
        assert!(recent.is_lively() && recent.silent().is_none() && !recent.is_gone(at(65_000)));
    }
}
