//! Redundancy within a latency budget: packets carry repair data for earlier ones, so that a lost
//! packet can be rebuilt before its turn. Without I/O.
//!
//! [`Encoder`] computes the repair data ([`repair_data`]) from the previous payloads, according to
//! a [`Layout`]. [`Repairer`] keeps received payloads and rebuilds lost ones. [`Redundancy`] sets
//! the amount; with [`Redundancy::Auto`], `Sizing` does.
//!
//! The budget is the time after a packet's departure within which it may be repaired: at one packet
//! per packet time, the next budget ÷ ptime packets are its window. If the packet and its whole
//! window are lost, it cannot be repaired. This limits the bursts that redundancy can repair.

mod ask;
mod encoder;
mod equations;
mod field;
mod layout;
pub mod repair_data;
mod repairer;
mod repeats;
pub mod sizing;

pub use ask::{Bounds, Redundancy, RedundancyError};
pub use encoder::Encoder;
pub use layout::{ETHERNET, LONGEST, Layout, Reach};
pub use repairer::{Damaged, Repairer};
pub use repeats::Repeats;

/// Maximum packets after a packet that may repair it: half the range of packet numbers in the code,
/// since the windows of two symbols may touch.
pub const MAX_WINDOW: usize = 64;

/// Maximum symbols per packet: more than an Ethernet frame holds for a mono stream.
pub(crate) const MAX_SYMBOLS: usize = 24;

/// Maximum payload that can be repaired, in bytes: two longer ones do not fit an Ethernet frame.
/// Longer packets are repeated whole ([`Layout::repeated`]).
pub const MAX_PAYLOAD: usize = 768;

/// Payloads that one symbol covers are equal in both: only these can be summed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct PayloadKind {
    payload_type: u8,
    bytes: usize,
}

/// Words of a kept payload.
const ROW: usize = MAX_PAYLOAD / 8;
