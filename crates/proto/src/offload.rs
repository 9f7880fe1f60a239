//! Offloading: processing blocks of data on other hosts.
//!
//! A master sends a *set of typed blocks* ([`block`]) per host run, in datagrams below the MTU
//! ([`datagram`]), and keeps it for a while ([`outbound`]). A worker runs the blocks strictly in
//! order ([`inbound`]); results return the same way ([`master`], [`worker`]).
//!
//! For sound, [`returns`] plays answers after a constant delay.

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

/// Maximum bytes that one machine keeps in one direction.
pub const MAX_KEPT_BYTES: usize = 256 << 20;

/// Error of creating a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum OffloadError {
    /// Datagram size too small.
    #[error(
        "datagram size of {0} bytes is too small: must be at least {minimum}",
        minimum = datagram::MIN_DATAGRAM_BYTES
    )]
    Datagram(usize),
    /// Too much data to keep.
    #[error(
        "{blocks} iterations of {bytes} bytes exceed the maximum of {MAX_KEPT_BYTES} bytes: \
         keep fewer of them, or make them shorter"
    )]
    Kept {
        /// Iterations to keep.
        blocks: usize,
        /// Bytes of the longest iteration.
        bytes: usize,
    },
}

#[cfg(test)]
mod tests;
