//! Bytes on the wire, parsed once into values and views that cannot fail afterwards.
//!
//! Big-endian ends here: what leaves this module is in the program's own types, and a length that
//! lies is found here or never.

pub mod avtp;
mod form;
pub mod framed;
pub mod ntp;
pub mod ptp;
pub mod rtcp;
pub mod rtp;
pub mod sdp;

pub use form::{NotCarried, PacketHeads, WireForm};
