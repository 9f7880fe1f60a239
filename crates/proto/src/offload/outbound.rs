//! Sends blocks: written in place into the history, split into datagrams, repeated on request.
//!
//! New blocks go first, then copies, then at most `OutboundBlocks::REPLAYS` requested blocks.

mod queue;

use thiserror::Error;

use self::queue::OutboundQueue;
use super::OffloadError;
use super::block::{BlockLeg, BlockSet};
use super::counters::OutboundCounters;
use super::datagram::{DatagramKind, Flags, HEAD_BYTES, Head, MIN_DATAGRAM_BYTES, PartCut};
use super::slots::SlotBytes;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OutboundConfig {
    pub set: BlockSet,
    pub leg: BlockLeg,
    pub stream: u32,
    pub datagram_bytes: usize,
    /// Without the current one.
    pub history: usize,
    pub copies: u8,
}

/// Iteration longer than agreed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("an iteration of {frames} frames is longer than agreed: must be at most {maximum}")]
pub struct RoomRefused {
    /// Requested.
    pub frames: u32,
    /// Maximum.
    pub maximum: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct BlockMeta {
    pub flags: Flags,
    pub latency: u32,
}

#[derive(Debug, Clone, Copy)]
struct OutboundSlot {
    /// Or [`NOTHING`].
    block: u64,
    position: u64,
    frames: u32,
    meta: BlockMeta,
    requested: bool,
}

const NOTHING: u64 = u64::MAX;

#[derive(Debug, Clone)]
pub(crate) struct OutboundBlocks {
    set: BlockSet,
    leg: BlockLeg,
    stream: u32,
    part_bytes: usize,
    history: u64,
    slots: Box<[OutboundSlot]>,
    bytes: SlotBytes,
    epoch: u32,
    next: u64,
    position: u64,
    frames: u32,
    queue: OutboundQueue,
    counters: OutboundCounters,
}

impl OutboundBlocks {
    /// Maximum repeats per new iteration and request; 64 take about 100 us.
    pub(crate) const REPLAYS: u32 = 64;
    /// Maximum repeated bytes: 2 ms at 1 Gbit/s, but at least two iterations.
    pub(crate) const REPLAYED_BYTES: usize = 256 << 10;
    /// Iterations kept for a worker that cannot get all iterations.
    pub(crate) const CAUGHT_UP: u64 = 32;

    /// Only this function allocates.
    pub(crate) fn new(config: OutboundConfig) -> Result<Self, OffloadError> {
        let OutboundConfig { set, leg, stream, datagram_bytes, history, copies } = config;
        if datagram_bytes < MIN_DATAGRAM_BYTES {
            return Err(OffloadError::Datagram(datagram_bytes));
        }
        let each = set.bytes(leg, set.max_frames());
        let count = history.max(copies.into()).max(1).saturating_add(1);
        let bytes = SlotBytes::new(count, each)?;
        let nothing = OutboundSlot {
            block: NOTHING,
            position: 0,
            frames: 0,
            meta: BlockMeta::default(),
            requested: false,
        };
        Ok(Self {
            set,
            leg,
            stream,
            part_bytes: datagram_bytes - HEAD_BYTES,
            history: count as u64 - 1,
            slots: vec![nothing; count].into(),
            bytes,
            epoch: 0,
            next: 0,
            position: 0,
            frames: 0,
            queue: OutboundQueue::new(copies),
            counters: OutboundCounters::default(),
        })
    }

    fn replays(bytes: usize) -> u32 {
        (Self::REPLAYED_BYTES / bytes.max(1)).clamp(2, Self::REPLAYS as usize) as u32
    }

    pub(crate) fn begin(&mut self, epoch: u32) {
        self.slots.iter_mut().for_each(|slot| (slot.block, slot.requested) = (NOTHING, false));
        self.bytes.clear();
        self.queue.begin();
        (self.epoch, self.next, self.position) = (epoch, 0, 0);
    }

    pub(crate) const fn epoch(&self) -> u32 {
        self.epoch
    }

    pub(crate) const fn next(&self) -> u64 {
        self.next
    }

    pub(crate) const fn position(&self) -> u64 {
        self.position
    }

    pub(crate) const fn stream(&self) -> u32 {
        self.stream
    }

    /// Keeps only the last [`Self::CAUGHT_UP`] if some are gone, so that the worker soon answers in
    /// time.
    pub(crate) fn retarget(&mut self, stream: u32) {
        self.stream = stream;
        if self.next > self.history {
            self.keep_end();
        }
        self.slots.iter_mut().for_each(|slot| slot.requested = false);
        self.queue.forget_asked();
    }

    fn keep_end(&mut self) {
        let from = self.next.saturating_sub(Self::CAUGHT_UP);
        let old = self.slots.iter_mut().filter(|slot| slot.block < from);
        old.for_each(|slot| slot.block = NOTHING);
    }

    pub(crate) const fn counters(&self) -> OutboundCounters {
        self.counters
    }

    pub(super) fn skip_to(&mut self, block: u64, position: u64) {
        (self.next, self.position) = (block, position);
        self.queue.skip_to(block);
    }

    /// Holds old content.
    pub(crate) fn room(&mut self, frames: u32) -> Result<&mut [u8], RoomRefused> {
        let maximum = self.set.max_frames();
        if frames > maximum {
            return Err(RoomRefused { frames, maximum });
        }
        self.frames = frames;
        let at = self.index(self.next);
        if self.slots[at].requested {
            self.queue.answered(1);
        }
        (self.slots[at].block, self.slots[at].requested) = (NOTHING, false);
        let Self { slots, set, leg, bytes, .. } = self;
        let needed = set.bytes(*leg, frames);
        let kept = slots.iter().enumerate().rev().filter(|(_, slot)| slot.block != NOTHING);
        bytes.fit(needed, kept.map(|(at, slot)| (at, set.bytes(*leg, slot.frames))));
        Ok(bytes.get_mut(at, needed))
    }

    pub(crate) fn commit(&mut self, meta: BlockMeta) -> u64 {
        let (block, at) = (self.next, self.index(self.next));
        let frames = self.frames;
        self.slots[at] =
            OutboundSlot { block, position: self.position, frames, meta, requested: false };
        self.position += u64::from(frames);
        self.next += 1;
        let bytes = self.set.bytes(self.leg, frames);
        self.queue.committed(self.next, Self::replays(bytes));
        self.counters.blocks += 1;
        block
    }

    /// `room` has the maximum size.
    pub(crate) fn poll(&mut self, room: &mut [u8]) -> Option<usize> {
        loop {
            let Some((block, part, flags)) = self.queue.current() else {
                if self.queue.take_gone() {
                    return self.write_gone(room);
                }
                if !self.choose() {
                    return None;
                }
                continue;
            };
            let slot = self.slots[self.index(block)];
            if slot.block != block {
                // Overwritten while being sent.
                self.queue.done();
                continue;
            }
            let bytes = self.set.bytes(self.leg, slot.frames);
            let cut = PartCut::new(bytes, self.part_bytes);
            let place = cut.place(part);
            let (head_room, rest) = room.split_first_chunk_mut::<HEAD_BYTES>()?;
            let body = rest.get_mut(..place.len())?;
            self.queue.advance(cut.parts);
            let head = Head {
                kind: DatagramKind::Block,
                flags: slot.meta.flags.with(flags),
                part,
                parts: cut.parts,
                stream: self.stream,
                epoch: self.epoch,
                block,
                position: slot.position,
                frames: slot.frames,
                latency: slot.meta.latency,
            };
            head.write(head_room);
            body.copy_from_slice(&self.bytes.get(self.index(block), bytes)[place.start..place.end]);
            return Some(self.counted(HEAD_BYTES + place.len()));
        }
    }

    pub(crate) fn handle_ask(&mut self, from: u64, until: u64) {
        self.counters.requested += 1;
        let kept_from = self.next.saturating_sub(self.history);
        let until = until.min(self.next);
        if from >= until {
            return;
        }
        if self.kept(from).is_none() {
            // Lets a restarted worker answer in time soon.
            self.keep_end();
            self.queue.ask_gone(from);
            self.counters.gone += 1;
        }
        (from.max(kept_from)..until).for_each(|block| self.mark_asked(block));
        self.queue.allow();
    }

    pub(crate) fn send_again(&mut self, block: u64) {
        if self.kept(block).is_some() {
            self.mark_asked(block);
            self.queue.allow();
        }
    }

    fn mark_asked(&mut self, block: u64) {
        let at = self.index(block);
        let slot = &mut self.slots[at];
        if slot.block == block && !slot.requested {
            slot.requested = true;
            self.queue.request(block);
        }
    }

    pub(crate) fn kept(&self, block: u64) -> Option<(u64, u32)> {
        let slot = &self.slots[self.index(block)];
        (slot.block == block).then_some((slot.position, slot.frames))
    }

    fn index(&self, block: u64) -> usize {
        (block % self.slots.len() as u64) as usize
    }

    fn counted(&mut self, bytes: usize) -> usize {
        self.counters.datagrams += 1;
        self.counters.bytes += bytes as u64;
        bytes
    }

    fn choose(&mut self) -> bool {
        if self.queue.choose_new() {
            return true;
        }
        while let Some(block) = self.queue.next_copy() {
            if self.kept(block).is_some() {
                self.counters.copies += 1;
                self.queue.send(block, Flags::NONE);
                return true;
            }
        }
        while let Some(block) = self.queue.next_asked(self.next) {
            let at = self.index(block);
            let slot = &mut self.slots[at];
            if slot.block == block && slot.requested {
                slot.requested = false;
                self.counters.replays += 1;
                self.queue.send_asked(block);
                return true;
            }
        }
        false
    }

    fn write_gone(&mut self, room: &mut [u8]) -> Option<usize> {
        let kept_from = self.next.saturating_sub(self.history).max(self.queue.gone_from());
        let first = (kept_from..self.next).find(|block| self.kept(*block).is_some());
        let first = first.unwrap_or(self.next);
        let body = first.to_be_bytes();
        let head = Head::alongside(DatagramKind::Gone, self.stream, self.epoch, first);
        let len = head.with_body(&body, room)?;
        Some(self.counted(len))
    }
}
