//! Ledger entries, and a ring of them that supports insertion in the middle.

use super::Replacement;

/// Cause of damaged frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Returned late.
    Late,
    /// Never returned.
    Lost,
    /// Played, but the plugin missed earlier blocks.
    Dirty,
    /// The output delay was raised.
    Grown,
    /// There was no worker.
    NoWorker,
    /// Returned, but cross-faded.
    Faded,
}

/// Run of damaged frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damage {
    /// Epoch since [`Returns`](super::Returns) was created, from 1.
    pub epoch: u32,
    /// Input position. It plays later by the delay and the plugin's latency.
    pub from: u64,
    /// Number of frames.
    pub frames: u32,
    /// Cause.
    pub cause: Cause,
    /// Configured replacement.
    pub replacement: Replacement,
}

impl Damage {
    pub(super) fn end(&self) -> u64 {
        self.from + u64::from(self.frames)
    }

    pub(super) fn goes_on_in(&self, next: &Self) -> bool {
        (self.epoch, self.cause, self.end()) == (next.epoch, next.cause, next.from)
            && self.frames.checked_add(next.frames).is_some()
    }
}

/// A growing collection contains allocating code.
#[derive(Debug, Clone)]
pub(super) struct DamageRing {
    slots: Box<[Option<Damage>]>,
    first: usize,
    len: usize,
}

impl DamageRing {
    pub(super) fn new(maximum: usize) -> Self {
        Self { slots: vec![None; maximum].into(), first: 0, len: 0 }
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) const fn is_full(&self) -> bool {
        self.len == self.slots.len()
    }

    fn slot(&self, index: usize) -> usize {
        (self.first + index) % self.slots.len().max(1)
    }

    pub(super) fn get(&self, index: usize) -> Option<Damage> {
        if index < self.len { self.slots[self.slot(index)] } else { None }
    }

    pub(super) fn set(&mut self, index: usize, entry: Damage) {
        if index < self.len {
            let slot = self.slot(index);
            self.slots[slot] = Some(entry);
        }
    }

    /// Returns `false` without room.
    pub(super) fn insert(&mut self, index: usize, entry: Damage) -> bool {
        if self.is_full() || index > self.len {
            return false;
        }
        for behind in (index..self.len).rev() {
            let (from, to) = (self.slot(behind), self.slot(behind + 1));
            self.slots[to] = self.slots[from];
        }
        let slot = self.slot(index);
        self.slots[slot] = Some(entry);
        self.len += 1;
        true
    }

    pub(super) fn pop_front(&mut self) -> Option<Damage> {
        let entry = self.get(0)?;
        self.first = self.slot(1);
        self.len -= 1;
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offload::returns::{Cause, Replacement};

    #[test]
    fn ring_keeps_order_when_wrapping_and_rejects_overflow() {
        let entry = |from| {
            let (cause, replacement) = (Cause::Lost, Replacement::Dry);
            Damage { epoch: 1, from, frames: 1, cause, replacement }
        };
        let order = |ring: &DamageRing| -> Vec<u64> {
            (0..ring.len()).filter_map(|index| ring.get(index)).map(|entry| entry.from).collect()
        };
        let mut ring = DamageRing::new(4);
        for from in [0, 1, 4] {
            assert!(ring.insert(ring.len(), entry(from)));
        }
        assert_eq!(ring.pop_front().map(|entry| entry.from), Some(0));
        assert_eq!(ring.pop_front().map(|entry| entry.from), Some(1));
        for from in [2, 3] {
            assert!(ring.insert(ring.len() - 1, entry(from)), "before the last");
        }
        assert!(ring.insert(0, entry(1)));
        assert_eq!(order(&ring), [1, 2, 3, 4]);
        assert!(!ring.insert(0, entry(0)) && ring.is_full());
        ring.set(3, entry(5));
        assert_eq!(order(&ring), [1, 2, 3, 5]);
    }
}
