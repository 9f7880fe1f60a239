//! Who runs blocks: in order, each once, and what it makes of each goes back.

use super::OffloadError;
use super::block::{BlockLeg, BlockSet, ByteOrder};
use super::counters::{InboundCounters, OutboundCounters};
use super::datagram::{DatagramKind, Flags, Head};
use super::inbound::{BlockTurn, Handled, InboundConfig, OrderedInbound, PluginState};
use super::outbound::{BlockMeta, OutboundBlocks, OutboundConfig};
use crate::time::LocalTime;

/// What a worker is laid out by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerConfig {
    /// What an iteration consists of.
    pub set: BlockSet,
    /// The stream's number.
    pub stream: u32,
    /// The master's order of bytes: it gets back what it sends, so whatever has to be rearranged is so here.
    pub order: ByteOrder,
    /// The largest datagram that the path carries whole.
    pub datagram_bytes: usize,
    /// Answers that are kept for a master that insists, or a worker behind this one that asks.
    pub history: usize,
    /// Earlier answers that leave once more with each.
    pub copies: u8,
    /// Blocks that there is room for, from the one that is waited for on.
    pub hold: usize,
    /// Frames that what runs remembers, if anybody knows.
    pub memory: Option<u64>,
}

/// What was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WorkerCounters {
    /// Of what came.
    pub there: InboundCounters,
    /// Of what left.
    pub back: OutboundCounters,
}

/// Runs blocks in order.
#[derive(Debug, Clone)]
pub struct Worker {
    there: OrderedInbound,
    back: OutboundBlocks,
    set: BlockSet,
    order: ByteOrder,
}

impl Worker {
    /// Nothing has come yet. Allocates; nothing later does.
    pub fn new(config: WorkerConfig) -> Result<Self, OffloadError> {
        let WorkerConfig { set, stream, order, datagram_bytes, history, copies, hold, memory } =
            config;
        let there = InboundConfig { set: set.clone(), leg: BlockLeg::There, stream, hold };
        let leg = BlockLeg::Back;
        let back =
            OutboundConfig { set: set.clone(), leg, stream, datagram_bytes, history, copies };
        Ok(Self {
            there: OrderedInbound::new(&there, memory)?,
            back: OutboundBlocks::new(back)?,
            set,
            order,
        })
    }

    /// What it makes goes to another worker and not back: it leaves as that one's stream.
    pub fn feed(&mut self, stream: u32) {
        self.back.retarget(stream);
    }

    /// Takes a datagram in that came at `now`: from whom blocks come, or from whom they go to.
    pub fn handle(&mut self, datagram: &[u8], now: LocalTime) -> Handled {
        match Head::read(datagram) {
            Ok((head, _)) if head.kind == DatagramKind::Ask => self.handle_ask(datagram),
            _ => self.handle_there(datagram, now),
        }
    }

    fn handle_there(&mut self, datagram: &[u8], now: LocalTime) -> Handled {
        let handled = self.there.handle(datagram, now);
        if let Handled::Again(block) = handled {
            self.back.send_again(block);
        }
        handled
    }

    fn handle_ask(&mut self, datagram: &[u8]) -> Handled {
        let handled = self.there.handle_ask(datagram, self.back.stream(), self.back.epoch());
        if let Handled::Ask { from, until } = handled {
            self.back.handle_ask(from, until);
        }
        handled
    }

    /// The block whose turn it is, if there is one and the one before is finished.
    pub fn next_turn(&mut self) -> Option<BlockTurn> {
        let turn = self.there.next_turn()?;
        if turn.restart || self.back.epoch() != turn.epoch {
            self.back.begin(turn.epoch);
        }
        if self.order.is_foreign() {
            self.set.rearrange(BlockLeg::There, turn.frames, self.there.bytes_mut());
        }
        self.back.skip_to(turn.block, turn.position);
        if let Ok(output) = self.back.room(turn.frames) {
            self.set.carry_over(self.there.bytes(), output, turn.frames);
        }
        Some(turn)
    }

    /// The bytes of the block whose turn it is, and room for what is made of them, where the blocks that go both ways
    /// already lie. Both are empty between turns.
    pub fn buffers(&mut self) -> (&[u8], &mut [u8]) {
        let Some(turn) = self.there.turn() else { return (&[], &mut []) };
        let frames = turn.frames;
        match self.back.room(frames) {
            Ok(output) => (self.there.bytes(), output),
            Err(_) => (&[], &mut []),
        }
    }

    /// The block whose turn it was has run, and what ran makes sound lag by `latency` frames: what it made leaves next.
    pub fn finish(&mut self, latency: u32) {
        let Some(turn) = self.there.finish() else { return };
        if self.order.is_foreign()
            && let Ok(output) = self.back.room(turn.frames)
        {
            self.set.rearrange(BlockLeg::Back, turn.frames, output);
        }
        let flags = if turn.clean {
            turn.flags.without(Flags::DIRTY)
        } else {
            turn.flags.with(Flags::DIRTY)
        };
        let latency = turn.latency.saturating_add(latency);
        self.back.commit(BlockMeta { flags, latency });
    }

    /// Writes the next datagram that is to leave, if there is one: answers, then questions.
    pub fn poll(&mut self, now: LocalTime, room: &mut [u8]) -> Option<usize> {
        self.poll_answer(room).or_else(|| self.poll_ask(now, room))
    }

    /// Writes the next datagram for whom answers go to.
    pub fn poll_answer(&mut self, room: &mut [u8]) -> Option<usize> {
        self.back.poll(room)
    }

    /// Writes the next datagram for whom blocks come from.
    pub fn poll_ask(&mut self, now: LocalTime, room: &mut [u8]) -> Option<usize> {
        self.there.poll_ask(now, room)
    }

    /// When [`Self::poll`] is to be called again, if nothing comes before.
    pub fn deadline(&self) -> LocalTime {
        self.there.deadline()
    }

    /// Whether what runs is clean.
    pub const fn state(&self) -> PluginState {
        self.there.state()
    }

    /// Blocks that were heard of and have not run.
    pub const fn behind(&self) -> u64 {
        self.there.behind()
    }

    /// What was counted.
    pub const fn counters(&self) -> WorkerCounters {
        WorkerCounters { there: self.there.counters(), back: self.back.counters() }
    }
}
