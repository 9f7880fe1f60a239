use std::sync::Arc;

use tautline_proto::packet::Unpack;
use tautline_proto::wire::rtp::RtpUnpack;

pub(crate) use tautline_proto::wire::rtp::PACK;

/// Far, slightly ahead, slightly behind.
pub(crate) const ANEW: [u16; 3] = [30_000, 500, 65_036];

pub(crate) fn unpack() -> Arc<dyn Unpack> {
    RtpUnpack::usual()
}
