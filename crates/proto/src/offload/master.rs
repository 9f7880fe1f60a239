//! Master: sends blocks and receives answers.

use super::OffloadError;
use super::block::{BlockLeg, BlockSet};
use super::counters::{InboundCounters, OutboundCounters};
use super::datagram::{DatagramKind, Flags, Head};
use super::inbound::{Handled, InboundConfig, UnorderedInbound};
use super::outbound::{BlockMeta, OutboundBlocks, OutboundConfig, RoomRefused};
use crate::time::LocalTime;

/// Configuration of a master.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MasterConfig {
    /// Contents of an iteration.
    pub set: BlockSet,
    /// Stream number.
    pub stream: u32,
    /// Number before the first epoch's.
    pub epoch_seed: u32,
    /// Maximum datagram size.
    pub datagram_bytes: usize,
    /// Iterations kept for requests.
    pub history: usize,
    /// Earlier iterations repeated with each new iteration.
    pub copies: u8,
    /// Capacity in unreleased answers.
    pub hold: usize,
}

/// Counters of a master.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MasterCounters {
    /// Sent blocks.
    pub there: OutboundCounters,
    /// Answers.
    pub back: InboundCounters,
}

/// Answer to a block.
pub type BlockAnswer<'a> = super::inbound::ArrivedBlock<'a>;

/// Sends blocks and receives answers.
#[derive(Debug, Clone)]
pub struct Master {
    there: OutboundBlocks,
    back: UnorderedInbound,
}

impl Master {
    /// Creates a master; call [`Self::begin`] before sending. Only this function allocates.
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

    /// Begins an epoch: the worker resets its plugin. Returns its number.
    pub fn begin(&mut self) -> u32 {
        let epoch = self.there.epoch().wrapping_add(1);
        self.there.begin(epoch);
        self.back.begin(epoch);
        epoch
    }

    /// Current epoch.
    pub const fn epoch(&self) -> u32 {
        self.there.epoch()
    }

    /// Next block.
    pub const fn next(&self) -> u64 {
        self.there.next()
    }

    /// Frames sent in this epoch.
    pub const fn position(&self) -> u64 {
        self.there.position()
    }

    /// Switches to another worker or number within an epoch.
    pub fn retarget(&mut self, stream: u32) {
        self.retarget_pipeline(stream, stream);
    }

    /// Switches to a chain of workers: `first` receives the blocks, `last` sends the answers.
    pub fn retarget_pipeline(&mut self, first: u32, last: u32) {
        self.there.retarget(first);
        self.back.retarget(last, first);
    }

    /// Writes an empty request, which gives a worker the address for answers.
    pub fn write_hello(&self, room: &mut [u8]) -> Option<usize> {
        let (stream, epoch) = (self.back.stream(), self.there.epoch());
        Head::alongside(DatagramKind::Request, stream, epoch, 0).with_body(&[0; 16], room)
    }

    /// Buffer for the next block, with old content.
    pub fn room(&mut self, frames: u32) -> Result<&mut [u8], RoomRefused> {
        self.there.room(frames)
    }

    /// Commits the block in `room`. Returns its number.
    pub fn commit(&mut self, flags: Flags) -> u64 {
        self.there.commit(BlockMeta { flags, latency: 0 })
    }

    /// Writes the next datagram; `room` has the maximum size.
    pub fn poll(&mut self, room: &mut [u8]) -> Option<usize> {
        self.there.poll(room)
    }

    /// Takes a datagram that arrived at `now`.
    pub fn handle(&mut self, datagram: &[u8], now: LocalTime) -> Handled {
        let there = &self.there;
        let handled = self.back.handle(datagram, now, |block| there.kept(block));
        if let Handled::Request { from, until } = handled {
            self.there.handle_ask(from, until);
        }
        handled
    }

    /// Answer, if complete and unreleased.
    pub fn answer(&self, block: u64) -> Option<BlockAnswer<'_>> {
        self.back.get(block)
    }

    /// Releases earlier answers; further answers are late.
    pub fn release(&mut self, before: u64) {
        self.back.release(before);
    }

    /// Repeats an unanswered block, since its answer may be lost.
    pub fn insist(&mut self, block: u64) {
        self.there.send_again(block);
    }

    /// Counters since the start.
    pub const fn counters(&self) -> MasterCounters {
        MasterCounters { there: self.there.counters(), back: self.back.counters() }
    }
}

/// Chosen answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChosenAnswer {
    /// Worker index.
    pub worker: usize,
    /// Whether its plugin processed all earlier blocks.
    pub clean: bool,
}

/// Chooses the first clean answer, else the first that ran. At equal times the lower worker wins.
pub fn choose_answer<'a>(
    answers: impl IntoIterator<Item = (usize, BlockAnswer<'a>)>,
) -> Option<ChosenAnswer> {
    let ranked = answers.into_iter().map(|(worker, answer)| {
        let [skipped, dirty] = [Flags::SKIPPED, Flags::DIRTY].map(|flag| answer.flags.has(flag));
        (skipped, dirty, answer.arrived, worker)
    });
    let (_, dirty, _, worker) = ranked.min()?;
    Some(ChosenAnswer { worker, clean: !dirty })
}
