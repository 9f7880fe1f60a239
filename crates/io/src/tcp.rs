//! RTP and RTCP over TCP, framed as RFC 4571 says: for networks that let nothing else through.
//!
//! What UDP loses TCP sends again, and what comes behind it waits. So that the delay does not grow with every loss, the
//! kernel is given little more than it can send at once (`TCP_NOTSENT_LOWAT`), and what has waited here for longer than
//! [`TcpOptions::most_wait`] is dropped, the oldest first, but never a part of a frame
//! ([decision 51](../../../docs/decisions/0051-a-connection-drops-what-is-old.md)).
//!
//! A connection is a [`MuxedLine`](crate::link::muxed::MuxedLine) of a [muxed](crate::link::muxed) link. [`keep`] connects and
//! accepts, on an ordinary thread, and hands down another where one is lost.

mod claimed;
mod connection;
mod counting_on;
pub mod keep;
mod line;
mod outflow;
mod waiting;

use std::io;

use tautline_proto::time::Span;

pub use self::connection::{ConnectionLost, TcpWatch};
use crate::link::OpenError;
use crate::udp::DSCP_MEDIA;

/// How a connection is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpOptions {
    /// The largest datagram in bytes, before it is sealed. Who announces a longer one is no sender of ours.
    pub datagram_bytes: usize,
    /// Packets per second that are expected one way.
    pub packets_per_second: u32,
    /// Packets that are queued before a flush at most.
    pub batch: usize,
    /// How long a packet may wait for the connection to take it: two packets and what a lost segment takes to be sent
    /// again on a short way. Longer ones wait for what is newer to be worth more.
    pub most_wait: Span,
    /// Differentiated services code point of everything sent, 0 to 63.
    pub dscp: u8,
    /// No packet goes before the connection's window has room for those of a round trip: null packets do, which its far
    /// end is known to pass over ([`tautline_proto::call::window`]).
    pub grows_window: bool,
}

impl Default for TcpOptions {
    /// Packets that fit an Ethernet frame, a thousand a second, each of which may wait for 20 ms.
    fn default() -> Self {
        Self {
            datagram_bytes: 1472,
            packets_per_second: 1000,
            batch: 32,
            most_wait: Span::from_millis(20),
            dscp: DSCP_MEDIA,
            grows_window: false,
        }
    }
}

impl TcpOptions {
    /// Packets that may wait.
    fn waiting(&self) -> usize {
        let nanos = i128::from(self.most_wait.as_nanos()) * i128::from(self.packets_per_second);
        (nanos / 1_000_000_000).clamp(0, 4096) as usize + 2 * self.batch.max(1)
    }
}

/// Why a connected socket cannot be used.
fn unusable(error: &io::Error) -> OpenError {
    let tried = "setting up a TCP connection for sound".to_owned();
    OpenError::new(tried, error, "connect again")
}
