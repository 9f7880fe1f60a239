//! Who hands blocks out: what leaves, and what came back of it.

use super::OffloadError;
use super::block::{BlockLeg, BlockSet};
use super::counters::{InboundCounters, OutboundCounters};
use super::datagram::{DatagramKind, Flags, Head};
use super::inbound::{Handled, InboundConfig, UnorderedInbound};
use super::outbound::{BlockMeta, OutboundBlocks, OutboundConfig, RoomRefused};
use crate::time::LocalTime;

/// What a master is laid out by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MasterConfig {
    /// What an iteration consists of.
    pub set: BlockSet,
    /// The stream's number.
    pub stream: u32,
    /// The number of the first epoch, less one.
    pub epoch_seed: u32,
    /// The largest datagram that the path carries whole.
    pub datagram_bytes: usize,
    /// Iterations that are kept for a worker that asks for them.
    pub history: usize,
    /// Earlier iterations that leave once more with each.
    pub copies: u8,
    /// Answers that there is room for, from the last that was released on.
    pub hold: usize,
}

/// What was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MasterCounters {
    /// Of what left.
    pub there: OutboundCounters,
    /// Of what came back.
    pub back: InboundCounters,
}

/// What a worker made of a block.
pub type BlockAnswer<'a> = super::inbound::ArrivedBlock<'a>;

/// Hands blocks out and takes in what comes back.
#[derive(Debug, Clone)]
pub struct Master {
    there: OutboundBlocks,
    back: UnorderedInbound,
}

impl Master {
    /// Nothing was handed out yet, and nothing can be before [`Self::begin`]. Allocates; nothing later does.
    pub fn new(config: MasterConfig) -> Result<Self, OffloadError> {
        let MasterConfig { set, stream, epoch_seed, datagram_bytes, history, copies, hold } =
            config;
        let back = InboundConfig { set: set.clone(), leg: BlockLeg::Back, stream, hold };
        let leg = BlockLeg::There;
        let there = OutboundConfig { set, leg, stream, datagram_bytes, history, copies };
        let mut there = OutboundBlocks::new(there)?;
        there.begin(epoch_seed);
        Ok(Self { there, back: UnorderedInbound::new(&back)? })
    }

    /// A new epoch: what runs at the worker is reset, and nothing of the old one counts. Returns its number.
    pub fn begin(&mut self) -> u32 {
        let epoch = self.there.epoch().wrapping_add(1);
        self.there.begin(epoch);
        self.back.begin(epoch);
        epoch
    }

    /// The epoch.
    pub const fn epoch(&self) -> u32 {
        self.there.epoch()
    }

    /// The number of the block that is handed out next.
    pub const fn next(&self) -> u64 {
        self.there.next()
    }

    /// Frames handed out in this epoch.
    pub const fn position(&self) -> u64 {
        self.there.position()
    }

    /// Another worker takes over, or the same one under another number, in the middle of an epoch: it asks for what
    /// is kept.
    pub fn retarget(&mut self, stream: u32) {
        self.retarget_pipeline(stream, stream);
    }

    /// Workers take over of which each feeds the next: blocks leave as the first one's stream, and what becomes of
    /// them comes as the last one's.
    pub fn retarget_pipeline(&mut self, first: u32, last: u32) {
        self.there.retarget(first);
        self.back.retarget(last, first);
    }

    /// Writes a question for no block at all: whoever answers learns by it where answers go, though no block comes to it
    /// from here.
    pub fn write_hello(&self, room: &mut [u8]) -> Option<usize> {
        let (stream, epoch) = (self.back.stream(), self.there.epoch());
        Head::beside(DatagramKind::Ask, stream, epoch, 0).with_body(&[0; 16], room)
    }

    /// Room for the bytes of the next block, to be written in place; what is in it is old.
    pub fn room(&mut self, frames: u32) -> Result<&mut [u8], RoomRefused> {
        self.there.room(frames)
    }

    /// The block that room was made for is written: it leaves next. Returns its number.
    pub fn commit(&mut self, flags: Flags) -> u64 {
        self.there.commit(BlockMeta { flags, latency: 0 })
    }

    /// Writes the next datagram that is to leave, if there is one; `room` has as many bytes as the largest datagram.
    pub fn poll(&mut self, room: &mut [u8]) -> Option<usize> {
        self.there.poll(room)
    }

    /// Takes a datagram in that came at `now`.
    pub fn handle(&mut self, datagram: &[u8], now: LocalTime) -> Handled {
        let there = &self.there;
        let handled = self.back.handle(datagram, now, |block| there.kept(block));
        if let Handled::Ask { from, until } = handled {
            self.there.handle_ask(from, until);
        }
        handled
    }

    /// What was made of a block, if all of it has come back and it is not released.
    pub fn answer(&self, block: u64) -> Option<BlockAnswer<'_>> {
        self.back.get(block)
    }

    /// Nobody needs what was made of blocks before this one: what still comes of them is late.
    pub fn release(&mut self, before: u64) {
        self.back.release(before);
    }

    /// What was made of a block is wanted, and neither it nor a question came: the block leaves once more, and a
    /// worker that has run it sends its answer once more.
    pub fn insist(&mut self, block: u64) {
        self.there.send_again(block);
    }

    /// What was counted.
    pub const fn counters(&self) -> MasterCounters {
        MasterCounters { there: self.there.counters(), back: self.back.counters() }
    }
}

/// An answer that was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChosenAnswer {
    /// Whose it is.
    pub worker: usize,
    /// Whether that worker's plugin has seen all there was before.
    pub clean: bool,
}

/// Chooses among the answers that workers gave to one block, each with its worker: the first clean one, or where there
/// is none the first whose plugin got the block, or the first. Of two that came at once it is that of the lower worker.
pub fn choose_answer<'a>(
    answers: impl IntoIterator<Item = (usize, BlockAnswer<'a>)>,
) -> Option<ChosenAnswer> {
    let ranked = answers.into_iter().map(|(worker, answer)| {
        let [skipped, dirty] = [Flags::SKIPPED, Flags::DIRTY].map(|flag| answer.flags.has(flag));
        (skipped, dirty, answer.came, worker)
    });
    let (_, dirty, _, worker) = ranked.min()?;
    Some(ChosenAnswer { worker, clean: !dirty })
}
