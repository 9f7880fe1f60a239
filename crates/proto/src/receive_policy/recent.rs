//! Tracks whether packets still arrive.

use crate::time::{LocalTime, Span};

/// Silence after which another sender may follow: the jitter buffer's timeout plus a status
/// interval.
const QUIET: Span = Span::from_millis(50);

/// Silence after which a sender counts as gone.
pub(crate) const GONE: Span = Span::from_secs(3);

const SECOND: Span = Span::from_secs(1);

/// Time of a stream's last packets.
#[derive(Debug, Clone, Copy)]
pub struct Recent {
    received: u64,
    since: LocalTime,
    looked: LocalTime,
}

impl Recent {
    /// State before the first packet.
    pub const NONE: Self = Self { received: 0, since: LocalTime::ZERO, looked: LocalTime::ZERO };

    /// Updates the count as of `at`.
    pub fn look(&mut self, received: u64, at: LocalTime) {
        if received != self.received {
            (self.received, self.since) = (received, at);
        }
        self.looked = at;
    }

    /// Whether any packet has arrived.
    pub const fn any(&self) -> bool {
        self.received > 0
    }

    /// Arrival of the last packet.
    pub const fn last(&self) -> LocalTime {
        self.since
    }

    pub(crate) fn is_lively(&self) -> bool {
        self.any() && self.looked - self.since < QUIET
    }

    /// Whether sound plays or is likely to continue.
    pub fn sounds(&self, latency: Span) -> bool {
        self.any() && self.looked - self.since < QUIET.max(latency)
    }

    /// Whole seconds of silence, at least 1.
    pub fn silent(&self) -> Option<Span> {
        let seconds = (self.looked - self.since).as_nanos() / SECOND.as_nanos();
        (self.any() && seconds > 0).then(|| SECOND.times(seconds))
    }

    /// Whether no more packets are expected.
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
    fn silence_after_sound_is_reported_in_whole_seconds() {
        let mut recent = Recent::NONE;
        recent.look(0, at(60_000));
        assert!(!recent.any() && recent.silent().is_none(), "no packet arrived");
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
