//! Datagrams that wait until a connection takes them: whole ones, the oldest first, in memory laid out once.

use tautline_proto::time::LocalTime;

use crate::thread::memory::prefault;

/// Those that wait, each with the instant since when it does.
pub(super) struct WaitingFrames {
    bytes: Box<[u8]>,
    slots: Box<[(usize, LocalTime)]>,
    slot_bytes: usize,
    first: usize,
    count: usize,
}

impl WaitingFrames {
    /// Room for so many, of so many bytes each.
    pub(super) fn new(slots: usize, slot_bytes: usize) -> Self {
        let slots = slots.max(1);
        let mut bytes = vec![0; slots * slot_bytes].into_boxed_slice();
        prefault(&mut bytes);
        let slots = vec![(0, LocalTime::ZERO); slots].into_boxed_slice();
        Self { bytes, slots, slot_bytes, first: 0, count: 0 }
    }

    pub(super) const fn len(&self) -> usize {
        self.count
    }

    /// Puts one behind the others; the oldest goes where there is no room. How many went.
    pub(super) fn push(&mut self, datagram: &[u8], since: LocalTime) -> u64 {
        let dropped = self.count == self.slots.len();
        if dropped {
            self.pop();
        }
        let slot = (self.first + self.count) % self.slots.len();
        let len = datagram.len().min(self.slot_bytes);
        self.bytes[slot * self.slot_bytes..][..len].copy_from_slice(&datagram[..len]);
        self.slots[slot] = (len, since);
        self.count += 1;
        u64::from(dropped)
    }

    /// The one that `ahead` others go before.
    pub(super) fn get(&self, ahead: usize) -> Option<&[u8]> {
        if ahead >= self.count {
            return None;
        }
        let slot = (self.first + ahead) % self.slots.len();
        Some(&self.bytes[slot * self.slot_bytes..][..self.slots[slot].0])
    }

    /// Takes the oldest away.
    pub(super) fn pop(&mut self) {
        if self.count > 0 {
            self.first = (self.first + 1) % self.slots.len();
            self.count -= 1;
        }
    }

    /// Takes away those that have waited since before `instant`; how many.
    pub(super) fn drop_before(&mut self, instant: LocalTime) -> u64 {
        let before = self.count;
        while self.count > 0 && self.slots[self.first].1 < instant {
            self.pop();
        }
        (before - self.count) as u64
    }

    /// Takes all away; how many.
    pub(super) fn clear(&mut self) -> u64 {
        core::mem::take(&mut self.count) as u64
    }
}

#[cfg(test)]
mod tests {
    use tautline_proto::time::Span;

    use super::*;

    #[test]
    fn the_oldest_goes_first_and_is_what_goes_where_there_is_no_room_or_no_time() {
        let at = |n: u8| LocalTime::ZERO + Span::from_millis(n.into());
        let mut waiting = WaitingFrames::new(3, 4);
        let dropped: u64 = (0..5).map(|n| waiting.push(&[n; 2], at(n))).sum();
        assert_eq!((dropped, waiting.len()), (2, 3));
        let all: Vec<_> = (0..4).filter_map(|n| waiting.get(n)).collect();
        assert_eq!(all, [[2; 2], [3; 2], [4; 2]]);
        assert_eq!(waiting.drop_before(at(4)), 2);
        assert_eq!((waiting.get(0), waiting.get(1)), (Some(&[4, 4][..]), None));
        waiting.pop();
        assert_eq!((waiting.clear(), waiting.get(0)), (0, None));
    }
}
