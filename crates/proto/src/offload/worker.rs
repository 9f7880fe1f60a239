//! Worker: runs blocks in order, each once, and returns results.

use super::OffloadError;
use super::block::{BlockLeg, BlockSet, ByteOrder};
use super::counters::{InboundCounters, OutboundCounters};
use super::datagram::{DatagramKind, Flags, Head};
use super::inbound::{BlockTurn, Handled, InboundConfig, OrderedInbound, PluginState};
use super::outbound::{BlockMeta, OutboundBlocks, OutboundConfig};
use crate::time::LocalTime;

/// Configuration of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerConfig {
    /// Contents of an iteration.
    pub set: BlockSet,
    /// Stream number.
    pub stream: u32,
    /// The master's byte order; the worker swaps.
    pub order: ByteOrder,
    /// Maximum datagram size.
    pub datagram_bytes: usize,
    /// Answers kept for requests.
    pub history: usize,
    /// Earlier answers repeated with each new answer.
    pub copies: u8,
    /// Capacity in blocks.
    pub hold: usize,
    /// Frames that the plugin remembers.
    pub memory: Option<u64>,
}

/// Counters of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WorkerCounters {
    /// Received blocks.
    pub there: InboundCounters,
    /// Answers.
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
    /// Only this function allocates.
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

    /// Sends results to another worker, as its stream.
    pub fn feed(&mut self, stream: u32) {
        self.back.retarget(stream);
    }

    /// Takes a datagram that arrived at `now`.
    pub fn handle(&mut self, datagram: &[u8], now: LocalTime) -> Handled {
        match Head::read(datagram) {
            Ok((head, _)) if head.kind == DatagramKind::Request => self.handle_ask(datagram),
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
        if let Handled::Request { from, until } = handled {
            self.back.handle_ask(from, until);
        }
        handled
    }

    /// Begins the next turn, if possible.
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

    /// Input and output of the current block. The output already holds blocks of both directions.
    pub fn buffers(&mut self) -> (&[u8], &mut [u8]) {
        let Some(turn) = self.there.turn() else { return (&[], &mut []) };
        let frames = turn.frames;
        match self.back.room(frames) {
            Ok(output) => (self.there.bytes(), output),
            Err(_) => (&[], &mut []),
        }
    }

    /// Ends the turn, and sends its output next. `latency`: the plugin's, in frames.
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

    /// Writes the next datagram: answers, then requests.
    pub fn poll(&mut self, now: LocalTime, room: &mut [u8]) -> Option<usize> {
        self.poll_answer(room).or_else(|| self.poll_ask(now, room))
    }

    /// Writes the next answer datagram.
    pub fn poll_answer(&mut self, room: &mut [u8]) -> Option<usize> {
        self.back.poll(room)
    }

    /// Writes the next request datagram.
    pub fn poll_ask(&mut self, now: LocalTime, room: &mut [u8]) -> Option<usize> {
        self.there.poll_ask(now, room)
    }

    /// Time of the next [`Self::poll`] if nothing arrives.
    pub fn deadline(&self) -> LocalTime {
        self.there.deadline()
    }

    /// Whether the plugin is clean.
    pub const fn state(&self) -> PluginState {
        self.there.state()
    }

    /// Known blocks that have not run.
    pub const fn behind(&self) -> u64 {
        self.there.behind()
    }

    /// Counters since the start.
    pub const fn counters(&self) -> WorkerCounters {
        WorkerCounters { there: self.there.counters(), back: self.back.counters() }
    }
}
