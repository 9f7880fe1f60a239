//! Damage ledger: all concealed frames, and frames of plugins that missed blocks.

use core::ops::Range;

use super::Replacement;
use super::entries::{Cause, Damage, DamageRing};

const MAX_ENTRIES: usize = 1024;

#[derive(Debug, Clone)]
pub(super) struct DamageLedger {
    entries: DamageRing,
    epoch: u32,
    rate: u32,
    turn: u64,
    noted: u64,
    /// Entries settled unconditionally.
    settled: usize,
    overflow: u64,
}

impl DamageLedger {
    pub(super) fn new(rate: u32) -> Self {
        let entries = DamageRing::new(MAX_ENTRIES);
        Self { entries, epoch: 0, rate, turn: 0, noted: 0, settled: 0, overflow: 0 }
    }

    pub(super) fn begin(&mut self) {
        self.settle();
        self.epoch = self.epoch.wrapping_add(1);
        (self.turn, self.noted) = (0, 0);
    }

    pub(super) fn settle(&mut self) {
        self.settled = self.entries.len();
    }

    pub(super) fn goes_on(&mut self, turn: u64) {
        self.turn = turn;
    }

    pub(super) fn noted_until(&mut self, position: u64) {
        self.noted = self.noted.max(position);
    }

    pub(super) const fn overflow(&self) -> u64 {
        self.overflow
    }

    pub(super) fn note(&mut self, from: u64, frames: u32, cause: Cause, replacement: Replacement) {
        let end = from + u64::from(frames);
        let from = from.max(self.noted.min(end));
        let frames = (end - from) as u32;
        if frames == 0 {
            return;
        }
        let entry = Damage { epoch: self.epoch, from, frames, cause, replacement };
        let count = self.entries.len();
        let open = count > self.settled;
        let last = count.checked_sub(1).and_then(|last| Some((last, self.entries.get(last)?)));
        match last {
            // Reports a long gap while it lasts.
            Some((at, last)) if open && last.goes_on_in(&entry) && last.frames < self.rate => {
                self.entries.set(at, Damage { frames: last.frames + frames, ..last });
            }
            _ => self.insert(count, entry),
        }
    }

    fn insert(&mut self, at: usize, entry: Damage) {
        if !self.entries.insert(at, entry) {
            self.overflow += u64::from(entry.frames);
        }
    }

    pub(super) fn arrived_late(&mut self, range: Range<u64>) {
        let mut at = self.settled;
        while let Some(entry) = self.entries.get(at) {
            let (from, end) = (entry.from.max(range.start), entry.end().min(range.end));
            if entry.cause == Cause::Lost && entry.epoch == self.epoch && from < end {
                at += self.split(at, entry, from..end);
            } else if entry.epoch == self.epoch && entry.from >= range.end {
                return;
            } else {
                at += 1;
            }
        }
    }

    fn split(&mut self, at: usize, entry: Damage, late: Range<u64>) -> usize {
        let part = |range: Range<u64>, cause| Damage {
            from: range.start,
            frames: (range.end - range.start) as u32,
            cause,
            ..entry
        };
        let before = entry.from..late.start;
        let after = late.end..entry.end();
        let mut count = 1;
        self.entries.set(at, part(late, Cause::Late));
        if !before.is_empty() {
            self.insert(at, part(before, Cause::Lost));
            count += 1;
        }
        if !after.is_empty() {
            let full = self.entries.is_full();
            self.insert(at + count, part(after, Cause::Lost));
            count += usize::from(!full);
        }
        count
    }

    pub(super) fn poll(&mut self) -> Option<Damage> {
        let mut first = self.entries.get(0)?;
        if !self.is_settled(0, &first) {
            return None;
        }
        self.take();
        while let Some(next) = self.entries.get(0) {
            if !first.goes_on_in(&next) || !self.is_settled(0, &next) {
                break;
            }
            first.frames += next.frames;
            self.take();
        }
        Some(first)
    }

    fn take(&mut self) {
        self.entries.pop_front();
        self.settled = self.settled.saturating_sub(1);
    }

    fn is_settled(&self, at: usize, entry: &Damage) -> bool {
        at < self.settled
            || entry.epoch != self.epoch
            || self.turn >= entry.end() + u64::from(self.rate / 4)
    }
}
