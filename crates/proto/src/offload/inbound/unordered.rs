//! Blocks in any order.

use super::assembly::Assembly;
use super::{Handled, InboundConfig, SortedDatagram, sort};
use crate::offload::OffloadError;
use crate::offload::counters::InboundCounters;
use crate::offload::datagram::{DatagramKind, Flags, Head, InvalidBlock};
use crate::time::LocalTime;

/// Complete block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArrivedBlock<'a> {
    /// Content.
    pub bytes: &'a [u8],
    /// Frames before the block in the epoch.
    pub position: u64,
    /// Frame count.
    pub frames: u32,
    /// Flags.
    pub flags: Flags,
    /// Latency of the sound, in frames.
    pub latency: u32,
    /// When the last part arrived.
    pub arrived: LocalTime,
}

/// Blocks taken at their turn, complete or not.
#[derive(Debug, Clone)]
pub(crate) struct UnorderedInbound {
    assembly: Assembly,
    stream: u32,
    /// Stream id in requests. In a chain, requests carry the first worker's id, and blocks the last
    /// worker's id.
    requested: u32,
    epoch: u32,
    from: u64,
    newest: u64,
    counters: InboundCounters,
}

impl UnorderedInbound {
    pub(crate) fn new(config: &InboundConfig) -> Result<Self, OffloadError> {
        Ok(Self {
            assembly: Assembly::new(config)?,
            stream: config.stream,
            requested: config.stream,
            epoch: 0,
            from: 0,
            newest: 0,
            counters: InboundCounters::default(),
        })
    }

    pub(crate) fn begin(&mut self, epoch: u32) {
        self.assembly.clear();
        (self.epoch, self.from, self.newest) = (epoch, 0, 0);
        self.counters.epochs += 1;
    }

    pub(crate) fn retarget(&mut self, stream: u32, requested: u32) {
        (self.stream, self.requested) = (stream, requested);
    }

    pub(crate) const fn stream(&self) -> u32 {
        self.stream
    }

    pub(crate) const fn counters(&self) -> InboundCounters {
        self.counters
    }

    /// `expected`: position and frames of a known block.
    pub(crate) fn handle(
        &mut self,
        datagram: &[u8],
        now: LocalTime,
        expected: impl FnOnce(u64) -> Option<(u64, u32)>,
    ) -> Handled {
        self.counters.datagrams += 1;
        self.counters.bytes += datagram.len() as u64;
        let is_ask = Head::read(datagram).is_ok_and(|(head, _)| head.kind == DatagramKind::Request);
        let handled = match sort(datagram, if is_ask { self.requested } else { self.stream }) {
            Err(handled) => handled,
            Ok(SortedDatagram::Block(head, body)) => self.handle_block(&head, body, now, expected),
            Ok(SortedDatagram::Request { epoch, .. } | SortedDatagram::Gone { epoch, .. })
                if epoch != self.epoch =>
            {
                Handled::Old
            }
            Ok(SortedDatagram::Request { from, until, .. }) => Handled::Request { from, until },
            Ok(SortedDatagram::Gone { first, .. }) => Handled::Gone(first),
        };
        self.count(handled);
        handled
    }

    fn handle_block(
        &mut self,
        head: &Head,
        body: &[u8],
        now: LocalTime,
        expected: impl FnOnce(u64) -> Option<(u64, u32)>,
    ) -> Handled {
        let block = head.block;
        if head.epoch != self.epoch {
            return Handled::Old;
        }
        if block < self.from {
            return Handled::Late { position: head.position, frames: head.frames };
        }
        if block - self.from >= self.assembly.hold() {
            return Handled::Early;
        }
        if expected(block) != Some((head.position, head.frames)) {
            return Handled::Invalid(InvalidBlock::Block(block));
        }
        self.assembly.take(head, body, now)
    }

    pub(crate) fn get(&self, block: u64) -> Option<ArrivedBlock<'_>> {
        let whole = self.assembly.whole(block).filter(|_| block >= self.from)?;
        Some(ArrivedBlock {
            bytes: self.assembly.bytes(block, whole.frames),
            position: whole.position,
            frames: whole.frames,
            flags: whole.flags,
            latency: whole.latency,
            arrived: whole.arrived,
        })
    }

    pub(crate) fn release(&mut self, before: u64) {
        self.from = self.from.max(before);
    }

    fn count(&mut self, handled: Handled) {
        self.counters.count(handled);
        if let Handled::Complete(block) = handled {
            self.counters.reordered += u64::from(block < self.newest);
            self.newest = self.newest.max(block + 1);
        }
    }
}
