//! Reassembly of blocks.

use super::{Handled, InboundConfig};
use crate::offload::OffloadError;
use crate::offload::block::{BlockLeg, BlockSet};
use crate::offload::datagram::{Flags, Head, InvalidBlock, PartCut, max_parts};
use crate::offload::slots::SlotBytes;
use crate::time::LocalTime;

const NOTHING: u64 = u64::MAX;

#[derive(Debug, Clone, Copy)]
struct AssemblySlot {
    /// Or [`NOTHING`].
    block: u64,
    whole: Whole,
    parts: u16,
    missing: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Whole {
    pub(super) position: u64,
    pub(super) frames: u32,
    pub(super) flags: Flags,
    pub(super) latency: u32,
    pub(super) arrived: LocalTime,
}

#[derive(Debug, Clone)]
pub(super) struct Assembly {
    set: BlockSet,
    leg: BlockLeg,
    slots: Box<[AssemblySlot]>,
    bytes: SlotBytes,
    marks: Box<[u64]>,
    marks_each: usize,
}

impl Assembly {
    pub(super) fn new(config: &InboundConfig) -> Result<Self, OffloadError> {
        let InboundConfig { set, leg, hold, .. } = config;
        let each = set.bytes(*leg, set.max_frames());
        let hold = (*hold).max(1);
        let bytes = SlotBytes::new(hold, each)?;
        let marks_each = max_parts(each).div_ceil(64);
        let nothing =
            AssemblySlot { block: NOTHING, whole: Whole::default(), parts: 0, missing: 0 };
        Ok(Self {
            set: set.clone(),
            leg: *leg,
            slots: vec![nothing; hold].into(),
            bytes,
            marks: vec![0; marks_each * hold].into(),
            marks_each,
        })
    }

    pub(super) fn hold(&self) -> u64 {
        self.slots.len() as u64
    }

    pub(super) fn clear(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.block = NOTHING);
        self.bytes.clear();
    }

    fn index(&self, block: u64) -> usize {
        (block % self.hold()) as usize
    }

    /// The block must be within the ring.
    pub(super) fn take(&mut self, head: &Head, body: &[u8], now: LocalTime) -> Handled {
        if head.frames > self.set.max_frames() {
            return Handled::Invalid(InvalidBlock::Frames(head.frames));
        }
        let bytes = self.set.bytes(self.leg, head.frames);
        let Head { part, parts, .. } = *head;
        let cut = PartCut::claimed(bytes, parts).filter(|_| part < parts);
        let Some(cut) = cut else {
            return Handled::Invalid(InvalidBlock::Part { part, parts });
        };
        let place = cut.place(part);
        if body.len() != place.len() {
            return Handled::Invalid(InvalidBlock::Length(body.len()));
        }
        let at = self.index(head.block);
        let marks = &mut self.marks[at * self.marks_each..][..self.marks_each];
        let slot = &mut self.slots[at];
        if slot.block != head.block {
            marks.fill(0);
            slot.block = NOTHING;
            let kept =
                self.slots.iter().enumerate().rev().filter(|(_, slot)| slot.block != NOTHING);
            let kept = kept.map(|(at, slot)| (at, self.set.bytes(self.leg, slot.whole.frames)));
            self.bytes.fit(bytes, kept);
            let &Head { block, position, frames, latency, .. } = head;
            let flags = head.flags.without(Flags::REPLAY);
            let whole = Whole { position, frames, flags, latency, arrived: now };
            self.slots[at] = AssemblySlot { block, whole, parts, missing: parts };
        } else if (slot.whole.position, slot.whole.frames, slot.parts)
            != (head.position, head.frames, parts)
        {
            return Handled::Invalid(InvalidBlock::Contradicts);
        }
        let (word, bit) = (usize::from(part) / 64, 1 << (part % 64));
        if marks[word] & bit != 0 {
            return Handled::Duplicate;
        }
        marks[word] |= bit;
        self.bytes.get_mut(at, bytes)[place].copy_from_slice(body);
        let slot = &mut self.slots[at];
        slot.missing -= 1;
        if slot.missing > 0 {
            return Handled::Part;
        }
        slot.whole.arrived = now;
        Handled::Complete(head.block)
    }

    pub(super) fn whole(&self, block: u64) -> Option<Whole> {
        let slot = &self.slots[self.index(block)];
        (slot.block == block && slot.missing == 0).then_some(slot.whole)
    }

    pub(super) fn bytes(&self, block: u64, frames: u32) -> &[u8] {
        self.bytes.get(self.index(block), self.set.bytes(self.leg, frames))
    }

    pub(super) fn bytes_mut(&mut self, block: u64, frames: u32) -> &mut [u8] {
        self.bytes.get_mut(self.index(block), self.set.bytes(self.leg, frames))
    }
}
