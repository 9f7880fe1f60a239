//! Packets longer than a network carries in one piece.

use std::net::SocketAddr;

use tautline_io::udp::{header_bytes, path_mtu};
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{Frames, Span};

/// Packets that the path to a destination does not carry whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TooLong {
    /// How long they are with all headers, in bytes;
    pub bytes: usize,
    /// what the path carries whole, in bytes;
    pub mtu: usize,
    /// and where to.
    pub to: SocketAddr,
    /// IP fragments of each.
    pub fragments: usize,
    /// The longest packet time that the path carries whole.
    pub shorter: Span,
}

/// The destinations that datagrams of `bytes`, which hold packets of `format`, are too long for.
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
