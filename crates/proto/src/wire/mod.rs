//! Wire formats, parsed once into values and views that cannot fail afterwards.
//!
//! Only this module handles big-endian fields. All lengths are validated here.

pub mod avtp;
mod form;
pub mod framed;
pub mod ntp;
pub mod ptp;
pub mod rtcp;
pub mod rtp;
pub mod sdp;

pub use form::{NotCarried, PacketHeads, WireForm};
