//! Blocks in order, each once.

use core::ops::Range;

use super::asking::BlockAsking;
use super::assembly::Assembly;
use super::{Handled, InboundConfig, SortedDatagram, sort};
use crate::offload::OffloadError;
use crate::offload::counters::InboundCounters;
use crate::offload::datagram::{DatagramKind, Flags, Head, InvalidBlock};
use crate::time::LocalTime;

/// Whether the plugin processed every block of the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PluginState {
    /// The plugin processed all blocks, or no longer remembers the gap.
    Clean,
    /// The plugin missed a block at this position.
    Dirty(u64),
}

/// Block to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockTurn {
    /// Activation number.
    pub epoch: u32,
    /// Block number in the epoch.
    pub block: u64,
    /// Frames before the block in the epoch.
    pub position: u64,
    /// Frame count.
    pub frames: u32,
    /// Flags.
    pub flags: Flags,
    /// Latency of its sound, in frames.
    pub latency: u32,
    /// First block of the epoch: reset the plugin.
    pub restart: bool,
    /// Whether all plugins so far processed all earlier blocks.
    pub clean: bool,
}

/// Skips only blocks that the sender no longer keeps. Follows the newest epoch.
#[derive(Debug, Clone)]
pub(crate) struct OrderedInbound {
    assembly: Assembly,
    asking: BlockAsking,
    stream: u32,
    memory: Option<u64>,
    epoch: Option<u32>,
    next: u64,
    position: u64,
    complete: u64,
    /// End of the known blocks.
    received: u64,
    received_at: LocalTime,
    /// Last number out of range.
    far: Option<u64>,
    gone: u64,
    turn: Option<BlockTurn>,
    restart: bool,
    state: PluginState,
    /// Frames since the plugin became dirty.
    since: u64,
    counters: InboundCounters,
}

impl OrderedInbound {
    /// `memory`: frames that the plugin remembers. Only this function allocates.
    pub(crate) fn new(config: &InboundConfig, memory: Option<u64>) -> Result<Self, OffloadError> {
        let assembly = Assembly::new(config)?;
        Ok(Self {
            asking: BlockAsking::new(assembly.hold()),
            assembly,
            stream: config.stream,
            memory,
            epoch: None,
            next: 0,
            position: 0,
            complete: 0,
            received: 0,
            received_at: LocalTime::ZERO,
            far: None,
            gone: 0,
            turn: None,
            restart: true,
            state: PluginState::Clean,
            since: 0,
            counters: InboundCounters::default(),
        })
    }

    pub(crate) const fn state(&self) -> PluginState {
        self.state
    }

    pub(crate) const fn counters(&self) -> InboundCounters {
        self.counters
    }

    pub(crate) const fn behind(&self) -> u64 {
        self.received.saturating_sub(self.next)
    }

    pub(crate) fn handle(&mut self, datagram: &[u8], now: LocalTime) -> Handled {
        self.counters.datagrams += 1;
        self.counters.bytes += datagram.len() as u64;
        let handled = match sort(datagram, self.stream) {
            Err(handled) => handled,
            Ok(SortedDatagram::Block(head, body)) => self.handle_block(&head, body, now),
            Ok(SortedDatagram::Gone { epoch, first }) if self.epoch == Some(epoch) => {
                // Later notices cover unknown blocks.
                self.gone = self.gone.max(first.min(self.received));
                Handled::Gone(first)
            }
            Ok(SortedDatagram::Gone { .. }) => Handled::Old,
            Ok(SortedDatagram::Request { .. }) => Handled::Invalid(InvalidBlock::Kind(1)),
        };
        self.counters.count(handled);
        handled
    }

    /// Answers are sent as `stream`.
    pub(in crate::offload) fn handle_ask(
        &mut self,
        datagram: &[u8],
        stream: u32,
        epoch: u32,
    ) -> Handled {
        self.counters.datagrams += 1;
        self.counters.bytes += datagram.len() as u64;
        let handled = match sort(datagram, stream) {
            Err(handled) => handled,
            Ok(SortedDatagram::Request { epoch: of, from, until }) if of == epoch => {
                Handled::Request { from, until }
            }
            Ok(_) => Handled::Old,
        };
        self.counters.count(handled);
        handled
    }

    fn handle_block(&mut self, head: &Head, body: &[u8], now: LocalTime) -> Handled {
        let newer = self.epoch.is_none_or(|epoch| head.epoch.wrapping_sub(epoch).cast_signed() > 0);
        if newer {
            self.begin(head.epoch);
        } else if self.epoch != Some(head.epoch) {
            return Handled::Old;
        }
        self.asking.received();
        if head.block < self.next {
            let again = head.flags.has(Flags::REPLAY) && head.part + 1 == head.parts;
            return if again { Handled::Again(head.block) } else { Handled::Duplicate };
        }
        if head.block - self.next >= self.assembly.hold() {
            // A distant number needs a second near it, or a worker that starts mid-epoch.
            let far = self.far.replace(head.block);
            if self.received == 0
                || far.is_some_and(|far| far.abs_diff(head.block) < self.assembly.hold())
            {
                self.advance(head.block, now);
            }
            return Handled::Early;
        }
        let handled = self.assembly.take(head, body, now);
        match handled {
            Handled::Complete(block) => {
                self.complete += 1;
                self.counters.reordered += u64::from(block + 1 < self.received);
                self.asking.progress();
                self.advance(block, now);
            }
            Handled::Part => self.advance(head.block, now),
            _ => {}
        }
        handled
    }

    fn advance(&mut self, block: u64, now: LocalTime) {
        self.received = self.received.max(block + 1);
        self.received_at = now;
    }

    fn begin(&mut self, epoch: u32) {
        self.epoch = Some(epoch);
        self.assembly.clear();
        self.asking.nothing_is_missing();
        (self.next, self.position, self.complete) = (0, 0, 0);
        (self.received, self.far, self.gone) = (0, None, 0);
        (self.turn, self.restart) = (None, true);
        (self.state, self.since) = (PluginState::Clean, 0);
        self.counters.epochs += 1;
    }

    pub(crate) fn next_turn(&mut self) -> Option<BlockTurn> {
        let epoch = self.epoch.filter(|_| self.turn.is_none())?;
        if self.assembly.whole(self.next).is_none() {
            self.skip_gone();
        }
        let whole = self.assembly.whole(self.next)?;
        self.position = whole.position;
        if matches!(self.memory, Some(memory) if self.since >= memory) {
            self.state = PluginState::Clean;
        }
        if whole.flags.has(Flags::DIRTY) {
            self.soil();
        }
        let turn = BlockTurn {
            epoch,
            block: self.next,
            position: whole.position,
            frames: whole.frames,
            flags: whole.flags,
            latency: whole.latency,
            restart: self.restart,
            clean: self.state == PluginState::Clean,
        };
        self.restart = false;
        self.turn = Some(turn);
        Some(turn)
    }

    fn skip_gone(&mut self) {
        if self.next >= self.gone {
            return;
        }
        let reach = self.gone.min(self.next + self.assembly.hold());
        let next = (self.next..reach).find(|block| self.assembly.whole(*block).is_some());
        let next = next.unwrap_or(self.gone);
        // A dead predecessor may have run the first blocks.
        self.counters.gone += if self.restart { 0 } else { next - self.next };
        self.next = next;
        self.soil();
    }

    fn soil(&mut self) {
        if self.state == PluginState::Clean {
            self.state = PluginState::Dirty(self.position);
        }
        self.since = 0;
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.turn.map_or(&[], |turn| self.assembly.bytes(turn.block, turn.frames))
    }

    pub(in crate::offload) fn bytes_mut(&mut self) -> &mut [u8] {
        match self.turn {
            Some(turn) => self.assembly.bytes_mut(turn.block, turn.frames),
            None => &mut [],
        }
    }

    pub(crate) const fn turn(&self) -> Option<&BlockTurn> {
        self.turn.as_ref()
    }

    pub(crate) fn finish(&mut self) -> Option<BlockTurn> {
        let turn = self.turn.take()?;
        self.next = turn.block + 1;
        self.position = turn.position + u64::from(turn.frames);
        self.complete -= 1;
        if !turn.flags.has(Flags::DIRTY) {
            self.since = self.since.saturating_add(turn.frames.into());
        }
        Some(turn)
    }

    pub(crate) fn wanted(&mut self, now: LocalTime) -> Option<(u64, u64)> {
        let (among, open) = self.reach(now);
        if among.end - among.start <= self.complete {
            self.asking.nothing_is_missing();
            return None;
        }
        let (assembly, gone) = (&self.assembly, self.gone);
        let missing = |block| block >= gone && assembly.whole(block).is_none();
        let requested = self.asking.next(among, open, now, missing)?;
        self.counters.requests += 1;
        Some((requested.start, requested.end))
    }

    /// `room` has at least the minimum size.
    pub(crate) fn poll_ask(&mut self, now: LocalTime, room: &mut [u8]) -> Option<usize> {
        let epoch = self.epoch?;
        let (from, until) = self.wanted(now)?;
        let mut body = [0; 16];
        body[..8].copy_from_slice(&from.to_be_bytes());
        body[8..].copy_from_slice(&until.to_be_bytes());
        Head::alongside(DatagramKind::Request, self.stream, epoch, from).with_body(&body, room)
    }

    fn reach(&self, now: LocalTime) -> (Range<u64>, bool) {
        let limit = self.next + self.assembly.hold();
        let mut end = self.received;
        if self.newest_is_under_way() && now < self.received_at + self.asking.wait() {
            end -= 1;
        }
        (self.next..end.min(limit).max(self.next), end > limit)
    }

    fn newest_is_under_way(&self) -> bool {
        (self.next + 1..=self.next + self.assembly.hold()).contains(&self.received)
            && self.assembly.whole(self.received - 1).is_none()
    }

    pub(crate) fn deadline(&self) -> LocalTime {
        if self.asking.again().is_never() && self.newest_is_under_way() {
            self.received_at + self.asking.wait()
        } else {
            self.asking.again()
        }
    }
}
