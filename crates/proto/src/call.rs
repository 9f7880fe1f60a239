//! Calls: sound both ways with one other host, agreed on by a control connection that the caller makes.
//!
//! The caller is never connected to: whoever is behind a NAT can call. Both ends say what they can
//! ([`terms`]), the answering end chooses, and the words they exchange are [`message`]. [`caller`] decides for
//! the end that calls: when to dial, what to say, when the line is dead. [`answering`] decides for the end that is
//! called, for all its callers, and [`caller_session`] joins what is decided at the calling end. [`packets`] says of which
//! terms there are any. [`transport`] decides by what the sound goes: UDP, or TCP where no datagram passes ([`path`]), and
//! [`window`] when a new connection can carry it. How it is coded each sender decides
//! ([`congestion`](crate::congestion)), within what was agreed on.
//!
//! The control connection and the sound are two things: where the one is lost, the other goes on as long as
//! its packets come, and a caller that dials again finds its call as it was.

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

/// By what a call is known that is to go on over another control connection: whoever has it, and the key of
/// who began it, takes it up. Random.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CallId(pub [u8; 16]);

impl fmt::Debug for CallId {
    /// Nothing of it: what is printed is kept by somebody.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallId")
    }
}

/// So often each end says that it is there.
pub const PING_EVERY: Span = Span::from_secs(1);
/// A line on which nothing came for so long is dead: three pings, and one that was lost and sent again.
pub const LINE_DEAD: Span = Span::from_secs(4);
/// A call whose control connection is lost is kept for so long after the last packet of its sound.
pub const CALL_KEPT: Span = Span::from_secs(60);
