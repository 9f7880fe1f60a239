//! Receives blocks and reassembles their parts, in any order.
//!
//! Workers take blocks in order (`OrderedInbound`), players take each block at its turn
//! (`UnorderedInbound`).

mod asking;
mod assembly;
mod ordered;
mod unordered;

pub(crate) use ordered::OrderedInbound;
pub use ordered::{BlockTurn, PluginState};
pub use unordered::ArrivedBlock;
pub(crate) use unordered::UnorderedInbound;

use super::block::{BlockLeg, BlockSet};
use super::counters::InboundCounters;
use super::datagram::{DatagramKind, Head, InvalidBlock, numbers};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InboundConfig {
    pub set: BlockSet,
    pub leg: BlockLeg,
    pub stream: u32,
    /// Capacity in iterations, after the awaited or last released iteration.
    pub hold: usize,
}

/// Result for a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handled {
    /// Part of an incomplete block.
    Part,
    /// Last part of a block.
    Complete(u64),
    /// Duplicate.
    Duplicate,
    /// Repeat of a finished block: the sender lacks the answer.
    Again(u64),
    /// The turn is over.
    Late {
        /// Frames before the block in the epoch.
        position: u64,
        /// Frames as claimed in its header.
        frames: u32,
    },
    /// A block of another epoch.
    Old,
    /// There is no room for the block yet.
    Early,
    /// A block of another stream.
    Foreign,
    /// Invalid.
    Invalid(InvalidBlock),
    /// Request for these blocks.
    Request {
        /// First.
        from: u64,
        /// Exclusive end.
        until: u64,
    },
    /// The peer keeps no earlier block.
    Gone(u64),
}

impl InboundCounters {
    pub(super) fn count(&mut self, handled: Handled) {
        match handled {
            Handled::Complete(..) => self.blocks += 1,
            Handled::Duplicate | Handled::Again(..) => self.duplicates += 1,
            Handled::Late { .. } => self.late += 1,
            Handled::Old => self.old += 1,
            Handled::Early => self.early += 1,
            Handled::Foreign => self.foreign += 1,
            Handled::Invalid(_) => self.invalid += 1,
            Handled::Part | Handled::Request { .. } | Handled::Gone(..) => {}
        }
    }
}

enum SortedDatagram<'a> {
    Block(Head, &'a [u8]),
    Request { epoch: u32, from: u64, until: u64 },
    Gone { epoch: u32, first: u64 },
}

fn sort(datagram: &[u8], stream: u32) -> Result<SortedDatagram<'_>, Handled> {
    let (head, body) = Head::read(datagram).map_err(Handled::Invalid)?;
    if head.stream != stream {
        return Err(Handled::Foreign);
    }
    let epoch = head.epoch;
    match head.kind {
        DatagramKind::Block => Ok(SortedDatagram::Block(head, body)),
        DatagramKind::Request => {
            let [from, until] = numbers(body).map_err(Handled::Invalid)?;
            Ok(SortedDatagram::Request { epoch, from, until })
        }
        DatagramKind::Gone => {
            let [first] = numbers(body).map_err(Handled::Invalid)?;
            Ok(SortedDatagram::Gone { epoch, first })
        }
    }
}
