//! The wire form that the scenarios run over here: RTP.

use std::sync::Arc;

use tautline_proto::packet::Unpack;
use tautline_proto::wire::rtp::RtpUnpack;

pub(crate) use tautline_proto::wire::rtp::PACK;

/// By how much numbers differ that begin anew: far off, a little ahead and a little behind.
pub(crate) const ANEW: [u16; 3] = [30_000, 500, 65_036];

/// How its packets are read.
pub(crate) fn unpack() -> Arc<dyn Unpack> {
    RtpUnpack::usual()
}
