//! Mapping one clock to another: a peer's wall clock to ours by timed exchanges, and a stream's
//! media time to the clock of its sender.
//!
//! A mapping is a value with an offset, a rate and an **uncertainty**. The uncertainty is a bound,
//! not a guess: half the round trip of the exchanges it came from at least, because the asymmetry of
//! a path cannot be seen from its ends, plus what the peer's reply was rounded to, plus what two
//! clocks may drift apart while the exchanges age.

mod disciplined;
mod estimator;
mod floor;
mod identity;
mod line;
mod mapping;
mod media;
mod round;
mod tai;

use crate::time::{LocalTime, Span, WallTime};

pub use disciplined::{Choice, DisciplinedClock};
pub use estimator::ClockEstimator;
pub(crate) use floor::Floor;
pub use identity::{ClockId, HostClock, HostReading};
pub(crate) use line::{Belief, Line};
pub use mapping::{ClockMapping, ClockSource};
pub use media::{MediaClock, ReadingOutcome, ToldRate};
pub(crate) use round::{Odd, Round};
pub use tai::{Keeping, TaiClock, TaiReading, TaiState};

/// One question and answer between two hosts (RFC 3611 §4.4 and §4.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    /// Our question left, by our clock.
    pub asked: LocalTime,
    /// It arrived at the peer, by the peer's clock.
    pub peer_received: WallTime,
    /// The peer's answer left, by the peer's clock.
    pub peer_answered: WallTime,
    /// It arrived here, by our clock.
    pub answered: LocalTime,
    /// What the four readings together may be wrong by through rounding and stamping, either way.
    /// In full, not halved: an error that moves the offset by half of itself may shorten the round
    /// trip, and so the bound, by the other half.
    pub reading_error: Span,
}

impl Exchange {
    /// Time on the way, there and back, without the peer's own delay. Never below zero.
    pub fn round_trip(&self) -> Span {
        let span = (self.answered - self.asked) - (self.peer_answered - self.peer_received);
        span.max(Span::ZERO)
    }

    /// Whether such an exchange can have been: nothing arrives before it left, and no clock makes of
    /// a wait of the peer's more than it was by a thousandth. What took an hour or is a century away
    /// was never asked.
    fn is_possible(&self) -> bool {
        const CENTURY: u64 = 100 * 366 * 86_400 * 1_000_000_000;
        let (asked, sent) = (self.asked.as_nanos(), self.peer_answered.as_unix_nanos());
        if asked.unsigned_abs() > CENTURY || sent.unsigned_abs() > CENTURY {
            return false;
        }
        let (here, there) = (self.answered - self.asked, self.peer_answered - self.peer_received);
        let slack = self.reading_error + there.abs().divided(1000);
        let asked_for = Span::ZERO..Span::from_secs(3600);
        asked_for.contains(&here) && there >= -slack && here - there >= -slack
    }
}
