//! RTP and RTCP over TCP, framed per RFC 4571: for networks that let nothing else through.
//!
//! TCP retransmits, and later data waits. So that the delay does not grow, the kernel gets little more than it can send
//! at once (`TCP_NOTSENT_LOWAT`); packets that wait here longer than [`TcpOptions::most_wait`] are dropped, oldest
//! first, in whole frames ([decision 51](../../../docs/decisions/0051-a-connection-drops-what-is-old.md)).
//!
//! A connection is a [`MuxedTransport`](crate::link::muxed::MuxedTransport); [`keep`] connects, accepts and replaces lost ones.

mod connection;
pub mod keep;
mod outflow;
mod transport;

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
    /// How long a packet may wait for the connection: two packets and a retransmission on a short path.
    pub most_wait: Span,
    /// Differentiated services code point of everything sent, 0 to 63.
    pub dscp: u8,
    /// Null packets go first until the window holds those of a round trip; the far end must skip them
    /// ([`tautline_proto::call::window`]).
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
    fn waiting(&self) -> usize {
        let nanos = i128::from(self.most_wait.as_nanos()) * i128::from(self.packets_per_second);
        (nanos / 1_000_000_000).clamp(0, 4096) as usize + 2 * self.batch.max(1)
    }
}

fn unusable(error: &io::Error) -> OpenError {
    let tried = "setting up a TCP connection for sound".to_owned();
    OpenError::new(tried, error, "connect again")
}
