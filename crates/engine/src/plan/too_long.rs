//! Checks for packets that exceed the path MTU.

use std::net::SocketAddr;

use tautline_io::udp::{header_bytes, path_mtu};
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{Frames, Span};

/// Packets that exceed the MTU of the path to a destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TooLong {
    /// Packet size with all headers, in bytes.
    pub bytes: usize,
    /// MTU of the path, in bytes.
    pub mtu: usize,
    /// Destination.
    pub to: SocketAddr,
    /// IP fragments per packet.
    pub fragments: usize,
    /// Maximum packet duration that fits the MTU.
    pub shorter: Span,
}

/// Returns the destinations with a path MTU below datagrams of `bytes`, which hold packets of
/// `format`.
pub fn too_long(
    destinations: impl Iterator<Item = SocketAddr>,
    bytes: usize,
    format: &StreamFormat,
) -> impl Iterator<Item = TooLong> {
    destinations.filter_map(move |to| {
        let (headers, mtu) = (header_bytes(&to), path_mtu(to)?);
        let whole = bytes + headers;
        let overhead = headers + bytes - format.payload_bytes();
        let fits = mtu.saturating_sub(overhead) / format.frame_bytes().max(1);
        (whole > mtu).then(|| TooLong {
            bytes: whole,
            mtu,
            to,
            // A fragment's payload is a multiple of eight bytes (RFC 791 §3.2).
            fragments: (whole - 20).div_ceil((mtu - 20) / 8 * 8),
            shorter: format.rate.span_of(Frames::from_len(fits)),
        })
    })
}
