//! Memory for kept blocks.

use super::{MAX_KEPT_BYTES, OffloadError};

/// Slots as dense as the longest block so far allows, for the cache.
#[derive(Debug, Clone)]
pub(super) struct SlotBytes {
    bytes: Box<[u8]>,
    maximum: usize,
    stride: usize,
}

impl SlotBytes {
    /// Only this function allocates.
    pub(super) fn new(slots: usize, maximum: usize) -> Result<Self, OffloadError> {
        let all = slots.checked_mul(maximum).filter(|all| *all <= MAX_KEPT_BYTES);
        let all = all.ok_or(OffloadError::Kept { blocks: slots, bytes: maximum })?;
        // Zero pages would come at first access, on a real-time thread.
        Ok(Self { bytes: vec![0xFF; all].into(), maximum, stride: 0 })
    }

    pub(super) const fn clear(&mut self) {
        self.stride = 0;
    }

    /// `kept`: number and length, last first.
    pub(super) fn fit(&mut self, bytes: usize, kept: impl Iterator<Item = (usize, usize)>) {
        if bytes <= self.stride {
            return;
        }
        let was = self.stride;
        self.stride = bytes.next_power_of_two().min(self.maximum);
        for (slot, bytes) in kept {
            let from = slot * was;
            self.bytes.copy_within(from..from + bytes, slot * self.stride);
        }
    }

    pub(super) fn get(&self, slot: usize, bytes: usize) -> &[u8] {
        &self.bytes[slot * self.stride..][..bytes]
    }

    pub(super) fn get_mut(&mut self, slot: usize, bytes: usize) -> &mut [u8] {
        &mut self.bytes[slot * self.stride..][..bytes]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_slots_survive_longer_blocks() {
        let mut slots = SlotBytes::new(5, 100).unwrap();
        let mut lengths = [0; 5];
        let value = |slot: usize, at: usize| (slot * 31 + at) as u8;
        for (slot, bytes) in [(0, 3), (1, 8), (3, 5), (2, 20), (4, 100), (0, 64), (1, 100)] {
            lengths[slot] = 0;
            slots.fit(bytes, lengths.into_iter().enumerate().rev());
            lengths[slot] = bytes;
            for (at, byte) in slots.get_mut(slot, bytes).iter_mut().enumerate() {
                *byte = value(slot, at);
            }
            for (slot, bytes) in lengths.into_iter().enumerate() {
                let found = slots.get(slot, bytes).iter().copied();
                assert!(found.eq((0..bytes).map(|at| value(slot, at))), "slot {slot}");
            }
        }
    }

    #[test]
    fn short_blocks_lie_close_together() {
        let mut slots = SlotBytes::new(4, 1000).unwrap();
        slots.fit(60, core::iter::empty());
        let begin = |slots: &SlotBytes, slot| slots.get(slot, 1).as_ptr() as usize;
        assert_eq!(begin(&slots, 3) - begin(&slots, 0), 3 * 64);
        slots.clear();
        slots.fit(900, core::iter::empty());
        assert_eq!(begin(&slots, 1) - begin(&slots, 0), 1000);
    }
}
