//! Maps a peer's wall clock to ours, and media time to its sender's clock.
//!
//! A mapping has an offset, a rate and an **uncertainty**. The uncertainty is a bound: at least
//! half the round trip, because the path's asymmetry is invisible. Rounding and drift are added.

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
pub use media::{MediaClock, ReadingOutcome, ReportedRate};
pub(crate) use round::{Odd, Round};
pub use tai::{Keeping, TaiClock, TaiReading, TaiState};

/// Timed exchange between two hosts (RFC 3611 §4.4 and §4.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    /// Departure of our question, our clock.
    pub requested: LocalTime,
    /// Arrival of the request, peer's clock.
    pub peer_received: WallTime,
    /// Departure of the answer, peer's clock.
    pub peer_answered: WallTime,
    /// Arrival of the answer, our clock.
    pub answered: LocalTime,
    /// Maximum total reading error, either way. Not halved: an error that moves the offset by half
    /// may shorten the bound by the other half.
    pub reading_error: Span,
}

impl Exchange {
    /// Network time of both legs, at least 0.
    pub fn round_trip(&self) -> Span {
        let span = (self.answered - self.requested) - (self.peer_answered - self.peer_received);
        span.max(Span::ZERO)
    }

    /// Whether the times are possible: no packet may arrive before it leaves.
    fn is_possible(&self) -> bool {
        const CENTURY: u64 = 100 * 366 * 86_400 * 1_000_000_000;
        let (requested, sent) = (self.requested.as_nanos(), self.peer_answered.as_unix_nanos());
        if requested.unsigned_abs() > CENTURY || sent.unsigned_abs() > CENTURY {
            return false;
        }
        let (here, there) =
            (self.answered - self.requested, self.peer_answered - self.peer_received);
        let slack = self.reading_error + there.abs().divided(1000);
        let asked_for = Span::ZERO..Span::from_secs(3600);
        asked_for.contains(&here) && there >= -slack && here - there >= -slack
    }
}
