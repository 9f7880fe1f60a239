//! RTP and RTCP over TCP (RFC 4571), for networks that block everything else.
//!
//! Retransmission delays later data, so packets older than [`TcpOptions::max_wait`] are dropped
//! ([decision 51](../../../docs/internals/decisions/0051-a-connection-drops-what-is-old.md)). A
//! connection is a [`MuxedTransport`](crate::link::muxed::MuxedTransport), maintained by [`keep`].

mod connection;
pub mod keep;
mod outflow;
mod transport;

use std::io;
use std::os::fd::AsFd;

use tautline_proto::time::Span;

pub use self::connection::{ConnectionLost, TcpWatch};
use crate::link::OpenError;
use crate::socket::descriptor::option;
use crate::udp::DSCP_MEDIA;

/// Smoothed round trip of a TCP connection.
///
/// # Errors
/// If the descriptor is not a TCP socket.
pub fn round_trip(connection: impl AsFd) -> io::Result<Span> {
    let state: libc::tcp_info = option(connection, libc::IPPROTO_TCP, libc::TCP_INFO)?;
    Ok(Span::from_micros(state.tcpi_rtt.into()))
}

/// Options of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpOptions {
    /// Maximum datagram bytes before encryption. Longer frames are not a tautline sender's.
    pub datagram_bytes: usize,
    /// Expected packets per second, one way.
    pub packets_per_second: u32,
    /// Maximum packets per flush.
    pub batch: usize,
    /// Maximum wait of a packet.
    pub max_wait: Span,
    /// DSCP of everything sent, 0 to 63.
    pub dscp: u8,
    /// Send null packets until the window holds a round trip ([`tautline_proto::call::window`]).
    pub grows_window: bool,
}

impl Default for TcpOptions {
    /// Up to an Ethernet frame, 1000 packets per second, 20 ms wait.
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
