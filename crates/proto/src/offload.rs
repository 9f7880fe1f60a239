//! Work handed to other hosts, block by block, and what comes back of it.
//!
//! A master hands out a *set of typed blocks* ([`block`]) once per run of its host, cut into datagrams below the MTU
//! ([`datagram`]) and kept for a while ([`outbound`]). A worker puts them together and runs them in order, none before the
//! one before it ([`inbound`]); what it makes of each goes back the same way. [`master`] and [`worker`] are those two,
//! joined. Nothing of this knows what the bytes are.
//!
//! For sound there are [`returns`]: answers placed by frame position and given out a constant delay later, whatever
//! blocks the host makes; [`master::choose_answer`]: which of two workers is played; [`pace`]: whether the host runs in
//! real time.

pub mod block;
pub mod counters;
pub mod datagram;
pub mod inbound;
pub mod master;
pub mod outbound;
pub mod pace;
pub mod returns;
mod slots;
pub mod worker;

use thiserror::Error;

/// The most bytes that one machine keeps of blocks, one way: what an agreement may ask for is bounded.
pub const MOST_KEPT_BYTES: usize = 256 << 20;

/// Why a machine cannot be laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum OffloadError {
    /// The datagrams are too small.
    #[error(
        "a datagram of {0} bytes holds too little of a block: let it be {least} bytes at least",
        least = datagram::LEAST_DATAGRAM_BYTES
    )]
    Datagram(usize),
    /// What is to be kept is too much.
    #[error(
        "{blocks} iterations of {bytes} bytes are more than the {MOST_KEPT_BYTES} bytes that are kept: \
         keep fewer of them, or make them shorter"
    )]
    Kept {
        /// Iterations that were to be kept.
        blocks: usize,
        /// The longest of them.
        bytes: usize,
    },
}

#[cfg(test)]
mod tests;
