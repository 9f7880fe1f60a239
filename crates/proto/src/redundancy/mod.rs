//! Redundancy: packets carry repair data for earlier packets, so lost packets are rebuilt. Without
//! I/O.
//!
//! [`Encoder`] computes the repair data ([`repair_data`]) of a [`Layout`]. [`Repairer`] rebuilds
//! lost payloads. [`Redundancy`] sets the amount; with [`Redundancy::Auto`], `Sizing` does.
//!
//! The budget is the repair time after a packet's departure. The next budget ÷ ptime packets are
//! its window. If a burst loses packet and window, it cannot be repaired.

mod encoder;
mod equations;
mod field;
mod lasting_loss;
mod layout;
pub mod repair_data;
mod repairer;
mod repeats;
mod request;
pub mod sizing;

pub use encoder::Encoder;
pub use lasting_loss::LastingLoss;
pub use layout::{ETHERNET, LONGEST, Layout, Reach};
pub use repairer::{Damaged, Repairer};
pub use repeats::Repeats;
pub use request::{Bounds, Redundancy, RedundancyError};

/// Maximum packets of a window: half the range of packet numbers, so that the windows of two
/// symbols may touch.
pub const MAX_WINDOW: usize = 64;

/// Maximum symbols per packet.
pub(crate) const MAX_SYMBOLS: usize = 24;

/// Maximum repairable payload in bytes. Two longer payloads exceed an Ethernet frame: these are
/// repeated whole ([`Layout::repeated`]).
pub const MAX_PAYLOAD: usize = 768;

/// Only payloads of equal kind can be summed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct PayloadKind {
    payload_type: u8,
    bytes: usize,
}

const ROW: usize = MAX_PAYLOAD / 8;
