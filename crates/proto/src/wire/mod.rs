//! Wire formats. All lengths are validated here; the parsed values cannot fail.

pub mod avtp;
mod form;
pub mod framed;
pub mod ntp;
pub mod ptp;
pub mod rtcp;
pub mod rtp;
pub mod sdp;

pub use form::{NotCarried, PacketHeads, WireForm};
