//! The control connection of a call ([`tautline_proto::call`]): TLS with pinned keys, by which each message is a
//! line of JSON; and the keys of its sound, which both ends make of that TLS session.
//!
//! The caller dials, by `line`; the serving crate has the other end. Nothing here blocks but dialling.

mod address;
mod dial;
mod keys;
mod line;
mod lines;
mod probe;
mod words;

pub use address::CallAddress;
pub use dial::DialError;
pub use keys::{CallKeys, MediaTicket, SALT_BYTES, SrtpSecret, call_secret, fresh_call};
pub use line::{CallLine, LineEnd};
pub use lines::{LineBuffer, LineTooLong, MOST_LINE};
pub use probe::{PROBE_BYTES, PathProbes, ProbeWay};
pub use words::{CallNonsense, read, written};

/// The protocol that is named in the TLS handshake (RFC 7301), so that one port serves others, too.
pub const ALPN: &[u8] = b"tautline-call/1";
/// Where a host is called if nobody says otherwise: TCP and, for the sound, UDP.
pub const CALL_PORT: u16 = 17240;

#[cfg(test)]
mod tests;
