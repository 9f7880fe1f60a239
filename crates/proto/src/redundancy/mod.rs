//! Redundancy under a budget of latency: what packets carry of earlier ones, so that a lost one can
//! be had again before its turn. Without I/O.
//!
//! [`Encoder`] makes the repair data that a packet carries ([`repair_data`]) of the payloads before it, as a
//! [`Layout`] says; [`Repairer`] keeps what came and gives back what did not. How much is carried
//! is [`Redundancy`]'s to say, and where that is left to the program, `Sizing`'s.
//!
//! The budget is the time after its own departure in which a packet may still be repaired: at one
//! packet per packet time, the next budget ÷ ptime packets, its window. If these and the packet
//! itself are all lost, nothing can bring it back: that is the bound that bursts set.

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

/// The most packets after a packet that may bring it back. Half the numbers that a packet can have
/// in the code, as the windows of two symbols may touch.
pub const MAX_WINDOW: usize = 64;

/// The most symbols in one packet: more than an Ethernet frame holds of a mono stream.
pub(crate) const MAX_SYMBOLS: usize = 24;

/// The longest payload that can be repaired, in bytes: two longer ones do not fit one Ethernet
/// frame. Those are sent again whole ([`Layout::repeated`]).
pub const MAX_PAYLOAD: usize = 768;

/// What one symbol covers is alike in both: only such payloads can be summed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct PayloadKind {
    payload_type: u8,
    bytes: usize,
}

/// Words of one kept payload.
const ROW: usize = MAX_PAYLOAD / 8;
