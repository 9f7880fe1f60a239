//! Messages on the control connection of a call.

use super::CallId;
use super::terms::{CallOffer, CallPath, CallTerms};
use crate::text::{on_one_line, printable};

/// Protocol version.
pub const CALL_VERSION: u32 = 7;
/// Oldest supported version; older callers are refused.
pub const OLDEST_CALL_VERSION: u32 = 2;
/// First version with [`StreamAbilities::takes`](super::terms::StreamAbilities::takes).
pub const TAKES_VERSION: u32 = 3;
/// First version with [`CallMessage::NotReceived`].
pub const UNHEARD_VERSION: u32 = 4;
/// First version with a configurable maximum for automatic latency.
pub const MAX_VERSION: u32 = 4;
/// First version with adapting senders and feedback packets.
pub const ADAPTS_VERSION: u32 = 5;
/// First version with agreed redundancy.
pub const REDUNDANCY_VERSION: u32 = 6;
/// First version with senders that adapt after a heavy loss.
pub const AFTER_LOSS_VERSION: u32 = 7;
/// Maximum characters of a reason.
pub const MAX_REASON: usize = 300;

/// Reason of the peer for refusing or ending a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallReason(String);

impl CallReason {
    /// Creates a reason of one line from the [printable] characters.
    pub fn new(said: impl AsRef<str>) -> Self {
        Self(printable(&on_one_line(said.as_ref()), MAX_REASON))
    }

    /// Text of the reason.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallMessage {
    /// The caller's offer, or a request to resume a call.
    Call {
        /// From [`OLDEST_CALL_VERSION`] to [`CALL_VERSION`].
        version: u32,
        /// Offer.
        offer: CallOffer,
        /// Call to resume.
        resumes: Option<CallId>,
    },
    /// Answer: a new call.
    Accepted {
        /// Identifier.
        call: CallId,
        /// Agreed terms.
        terms: CallTerms,
        /// UDP port at the called address.
        udp_port: u16,
    },
    /// Answer: the call resumes unchanged.
    Resumed,
    /// Answer: refused. The connection closes.
    Refused(CallReason),
    /// The caller requests other terms.
    Change(CallTerms),
    /// The terms are accepted.
    Changed(CallTerms),
    /// The terms are rejected; the current terms stay.
    Kept(CallReason),
    /// The caller announces the transport in use.
    Path {
        /// Path.
        path: CallPath,
        /// Number, from 0. Keys derive from it.
        transport: u32,
    },
    /// The called end received no packet for a second. Repeats ([`UNHEARD_VERSION`]).
    NotReceived {
        /// Transport number.
        transport: u32,
    },
    /// Keep-alive request.
    Ping,
    /// Answer to [`CallMessage::Ping`].
    Pong,
    /// The call is over.
    Bye(CallReason),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_cannot_fill_the_log_nor_move_the_cursor() {
        let long = CallReason::new("x".repeat(10_000));
        assert_eq!(long.as_str().chars().count(), MAX_REASON);
        assert_eq!(CallReason::new("a\x1b[2Jb\nc").as_str(), "a\\u{1b}[2Jb\\nc");
        assert_eq!(CallReason::new("no card\nhint: plug it in").as_str(), "no card; plug it in");
    }
}
