//! Messages of the two ends of a call on the control connection.

use super::CallId;
use super::terms::{CallOffer, CallPath, CallTerms};
use crate::text::{on_one_line, printable};

/// Protocol version of these messages.
pub const CALL_VERSION: u32 = 6;
/// Oldest supported version. Older callers are refused with a reason.
pub const OLDEST_CALL_VERSION: u32 = 2;
/// First version with the latency of devices ([`StreamAbilities::takes`]).
///
/// [`StreamAbilities::takes`]: super::terms::StreamAbilities::takes
pub const TAKES_VERSION: u32 = 3;
/// First version with [`CallMessage::Unheard`].
pub const UNHEARD_VERSION: u32 = 4;
/// First version with a maximum for automatic latency other than the default.
pub const MAX_VERSION: u32 = 4;
/// First version in which senders adapt to the network, with feedback packets.
pub const ADAPTS_VERSION: u32 = 5;
/// First version in which both ends agree on redundancy.
pub const REDUNDANCY_VERSION: u32 = 6;
/// Maximum characters of a reason.
pub const MAX_REASON: usize = 300;

/// Reason for refusing or ending a call, written by the other end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallReason(String);

impl CallReason {
    /// Creates a reason from its [printable] characters. It is one line: its fix follows a
    /// semicolon.
    pub fn new(said: impl AsRef<str>) -> Self {
        Self(printable(&on_one_line(said.as_ref()), MAX_REASON))
    }

    /// Text of the reason.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Message on the control connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallMessage {
    /// First message, by the caller: its offer. With `resumes`, a request to resume that call.
    Call {
        /// From [`OLDEST_CALL_VERSION`] to [`CALL_VERSION`].
        version: u32,
        /// Offer of the caller.
        offer: CallOffer,
        /// Call to resume.
        resumes: Option<CallId>,
    },
    /// Answer: a new call.
    Accepted {
        /// Identifier of the call.
        call: CallId,
        /// Agreed terms.
        terms: CallTerms,
        /// UDP port for the audio, at the address that was called.
        udp_port: u16,
    },
    /// Answer: the call resumes unchanged.
    Resumed,
    /// Answer: refused, for this reason. The connection is closed afterwards.
    Refused(CallReason),
    /// Request of the caller for other terms.
    Change(CallTerms),
    /// The requested terms are accepted.
    Changed(CallTerms),
    /// The requested terms are rejected, for this reason. The current ones stay.
    Kept(CallReason),
    /// Announcement of the caller: the audio uses this transport from now on.
    Path {
        /// Path of the transport.
        path: CallPath,
        /// Number of the transport: 0 for the first, then one more each. Its keys derive from it.
        transport: u32,
    },
    /// Report of the called end, from version [`UNHEARD_VERSION`] on: no packet has arrived for a
    /// second via this transport. Repeated once a second.
    Unheard {
        /// Number of the transport.
        transport: u32,
    },
    /// Keep-alive request, answered with [`CallMessage::Pong`].
    Ping,
    /// Answer to [`CallMessage::Ping`].
    Pong,
    /// The call is over, for this reason.
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
