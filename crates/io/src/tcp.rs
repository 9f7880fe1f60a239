//! RTP and RTCP over TCP, framed per RFC 4571, for networks that block everything else.
//!
//! TCP retransmits, which delays later data. To keep the delay from growing, the kernel gets little
//! more than it can send at once (`TCP_NOTSENT_LOWAT`). Packets that wait longer than
//! [`TcpOptions::max_wait`] are dropped, oldest first, in whole frames ([decision
//! 51](../../../docs/internals/decisions/0051-a-connection-drops-what-is-old.md)).
//!
//! A connection is a [`MuxedTransport`](crate::link::muxed::MuxedTransport); [`keep`] connects,
//! accepts and reconnects.

mod connection;
pub mod keep;
mod outflow;
mod transport;

use std::io;

use tautline_proto::time::Span;

pub use self::connection::{ConnectionLost, TcpWatch};
use crate::link::OpenError;
use crate::udp::DSCP_MEDIA;

/// Options of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpOptions {
    /// Maximum datagram size in bytes, before encryption. A peer that announces a longer frame is
    /// not a tautline sender.
    pub datagram_bytes: usize,
    /// Expected packets per second in one direction.
    pub packets_per_second: u32,
    /// Maximum number of packets queued before a flush.
    pub batch: usize,
    /// Maximum time that a packet waits for the connection: two packets and a retransmission on a
    /// short path.
    pub max_wait: Span,
    /// DSCP of everything sent, 0 to 63.
    pub dscp: u8,
    /// Whether to send null packets first, until the window holds a round trip's packets. The peer
    /// must skip them ([`tautline_proto::call::window`]).
    pub grows_window: bool,
}

impl Default for TcpOptions {
    /// Returns options for packets of up to an Ethernet frame, 1000 per second, with a maximum wait
    /// of 20 ms.
    fn default() -> Self {
        Self {
            datagram_bytes: 1472,
            packets_per_second: 1000,
            batch: 32,
            max_wait: Span::from_millis(20),
            dscp: DSCP_MEDIA,
            grows_window: false,
        }
    }
}

impl TcpOptions {
    fn waiting(&self) -> usize {
        let nanos = i128::from(self.max_wait.as_nanos()) * i128::from(self.packets_per_second);
        (nanos / 1_000_000_000).clamp(0, 4096) as usize + 2 * self.batch.max(1)
    }
}

fn unusable(error: &io::Error) -> OpenError {
    let tried = "setting up a TCP connection for sound".to_owned();
    OpenError::new(tried, error, "connect again")
}
