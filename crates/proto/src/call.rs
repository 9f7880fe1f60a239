//! Two-way audio calls with one other host, negotiated over a control connection.
//!
//! The caller opens the control connection, so it can be behind a NAT. Both ends announce their
//! abilities ([`terms`]) in [`message`]s, and the called end chooses. [`transport`] selects UDP, or
//! TCP if no datagram passes ([`path`], [`window`]). Senders choose their codec
//! ([`congestion`](crate::congestion)) within the terms.
//!
//! If the control connection is lost, the audio continues as long as packets arrive. A caller that
//! dials again resumes its call.

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

/// Random identifier of a call. A caller resumes the call with it and the original key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CallId(pub [u8; 16]);

impl fmt::Debug for CallId {
    /// Hides the identifier from logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallId")
    }
}

/// Interval of pings.
pub const PING_EVERY: Span = Span::from_secs(1);
/// Silence after which a control connection is dead: three pings and one retransmission.
pub const LINE_DEAD: Span = Span::from_secs(4);
/// Time that a call without a control connection is kept after its last audio packet.
pub const CALL_KEPT: Span = Span::from_secs(60);
