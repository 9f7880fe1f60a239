//! Calls: audio in both directions with one other host, negotiated over a control connection.
//!
//! The caller opens the control connection, so it can be behind a NAT. Both ends describe their
//! abilities ([`terms`]) in [`message`]s, and the called end chooses. [`caller`] decides for the
//! caller: when to dial, which message to send, when the connection is dead. [`answering`] decides
//! for the called end and all its callers. [`caller_session`] combines the decisions of the caller.
//! [`packets`] computes which packets the terms allow. [`transport`] selects the transport of the
//! audio: UDP, or TCP if no datagram passes ([`path`]). [`window`] decides when a new TCP
//! connection can carry audio. Each sender chooses its codec ([`congestion`](crate::congestion))
//! within the agreed terms.
//!
//! The audio is independent of the control connection. If the connection is lost, the audio
//! continues as long as packets arrive. A caller that dials again resumes its call.

pub mod answering;
pub mod caller;
pub mod caller_session;
pub mod message;
pub mod packets;
pub mod path;
pub mod terms;
pub mod transport;
pub mod window;

use core::fmt;

use crate::time::Span;

/// Random identifier of a call. A caller with this identifier and the original key resumes the call
/// over a new control connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CallId(pub [u8; 16]);

impl fmt::Debug for CallId {
    /// Hides the identifier, since output may be stored.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallId")
    }
}

/// Interval of pings.
pub const PING_EVERY: Span = Span::from_secs(1);
/// Silence after which a control connection is dead: three pings, and a retransmission of one.
pub const LINE_DEAD: Span = Span::from_secs(4);
/// Time after the last audio packet for which a call without a control connection is kept.
pub const CALL_KEPT: Span = Span::from_secs(60);
