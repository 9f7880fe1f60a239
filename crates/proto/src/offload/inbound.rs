//! Blocks on their way in: put together from their parts, in whatever order those come and however often.
//!
//! Whoever runs them takes them in order (`OrderedInbound`); whoever plays them takes each when its turn comes
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

/// How blocks come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InboundConfig {
    pub set: BlockSet,
    pub leg: BlockLeg,
    pub stream: u32,
    /// Iterations that there is room for: in order, after the one that is waited for; otherwise, after the one that was
    /// released last.
    pub hold: usize,
}

/// What a datagram was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handled {
    /// A part of a block that is not complete yet.
    Part,
    /// The last part of a block that was missing.
    Complete(u64),
    /// It had come before.
    Duplicate,
    /// It was sent again, and its block was done long ago: whoever sent it lacks what became of it.
    Again(u64),
    /// Of a block whose turn is over.
    Late {
        /// Frames before the block in the epoch.
        position: u64,
        /// Frames of it, as it says.
        frames: u32,
    },
    /// Of an epoch that is over, or has not begun.
    Old,
    /// Of a block that there is no room for yet.
    Early,
    /// Of another stream.
    Foreign,
    /// It breaks the form, or what was agreed.
    Invalid(InvalidBlock),
    /// The far end wants these blocks again.
    Ask {
        /// The first.
        from: u64,
        /// The one after the last.
        until: u64,
    },
    /// The far end keeps no block before this one.
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
            Handled::Part | Handled::Ask { .. } | Handled::Gone(..) => {}
        }
    }
}

/// A datagram's head and body as far as both can be told apart without knowing any block.
enum SortedDatagram<'a> {
    Block(Head, &'a [u8]),
    Ask { epoch: u32, from: u64, until: u64 },
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
        DatagramKind::Ask => {
            let [from, until] = numbers(body).map_err(Handled::Invalid)?;
            Ok(SortedDatagram::Ask { epoch, from, until })
        }
        DatagramKind::Gone => {
            let [first] = numbers(body).map_err(Handled::Invalid)?;
            Ok(SortedDatagram::Gone { epoch, first })
        }
    }
}
