//! Tracks the packet index per source. Only authentic packets count.

/// Maximum sources per link (`?senders=`).
pub(super) const MAX_SOURCES: usize = 1024;
/// Maximum age, in packets, of an index that is tried: half a second of the shortest packets.
pub(super) const OLDEST: u64 = 4096;
/// RFC 3711 §3.3.2: at least 64.
const REPLAY_BITS: u64 = u64::BITS as u64;

#[derive(Debug, Clone, Copy, Default)]
struct KnownSource {
    ssrc: u32,
    newest: u64,
    /// A bit for the newest index, and for each before it.
    seen: u64,
    used: u64,
}

/// Fixed memory; if full, forgets the source silent longest.
#[derive(Debug)]
pub(super) struct SourceTable {
    sources: Box<[KnownSource]>,
    known: usize,
    packets: u64,
}

impl SourceTable {
    pub(super) fn new() -> Self {
        let sources = vec![KnownSource::default(); MAX_SOURCES].into();
        Self { sources, known: 0, packets: 0 }
    }

    fn known(&self) -> &[KnownSource] {
        &self.sources[..self.known]
    }

    fn find(&self, ssrc: u32) -> Result<usize, usize> {
        self.known().binary_search_by_key(&ssrc, |source| source.ssrc)
    }

    pub(super) fn newest(&self, ssrc: u32) -> Option<u64> {
        self.find(ssrc).ok().map(|at| self.sources[at].newest)
    }

    /// Whether the packet was received, or is too old to know.
    pub(super) fn arrived(&self, ssrc: u32, index: u64) -> bool {
        let Ok(at) = self.find(ssrc) else { return false };
        let KnownSource { newest, seen, .. } = self.sources[at];
        match newest.checked_sub(index) {
            None => false,
            Some(before) => before >= REPLAY_BITS || seen >> before & 1 == 1,
        }
    }

    pub(super) fn note(&mut self, ssrc: u32, index: u64) {
        self.packets += 1;
        let used = self.packets;
        match self.find(ssrc) {
            Ok(at) => {
                let source = &mut self.sources[at];
                source.used = used;
                if index > source.newest {
                    let passed = u32::try_from(index - source.newest).unwrap_or(u32::MAX);
                    source.seen = source.seen.checked_shl(passed).unwrap_or(0) | 1;
                    source.newest = index;
                } else if source.newest - index < REPLAY_BITS {
                    source.seen |= 1 << (source.newest - index);
                }
            }
            Err(at) => self.insert(at, KnownSource { ssrc, newest: index, seen: 1, used }),
        }
    }

    fn insert(&mut self, mut at: usize, source: KnownSource) {
        if self.known == MAX_SOURCES {
            let oldest = self.known().iter().enumerate().min_by_key(|(_, source)| source.used);
            let Some((oldest, _)) = oldest else { return };
            self.sources.copy_within(oldest + 1.., oldest);
            self.known -= 1;
            at -= usize::from(oldest < at);
        }
        self.sources.copy_within(at..self.known, at + 1);
        self.sources[at] = source;
        self.known += 1;
    }
}

/// RFC 3711 §3.3.1.
pub(super) const fn estimate(newest: u64, sequence: u16) -> u64 {
    const HALF: u64 = 1 << 15;
    const WHOLE: u64 = 1 << 16;
    let near = newest & !(WHOLE - 1) | sequence as u64;
    if near + HALF < newest {
        near + WHOLE
    } else if near > newest + HALF && near >= WHOLE {
        near - WHOLE
    } else {
        near
    }
}

/// Further roll-over counters to try, for new sources and after outages of more than 32768 packets.
///
/// Two per packet advance, which bounds the cost of forged packets. Sweeps have prime lengths, so
/// that alternating sources do not miss their counter.
#[derive(Debug, Default)]
pub(super) struct RollOverSearch {
    sweep: usize,
    step: u64,
}

const ALWAYS: u64 = 2;
const TRIED: u64 = 2;
/// Steps of each sweep: 4, 55 and 890 hours of 1 ms packets.
const SWEEPS: [u64; 3] = [113, 1531, 24571];

impl RollOverSearch {
    pub(super) fn next(&mut self) -> impl Iterator<Item = u64> + use<> {
        let begins = ALWAYS + 1 + self.step * TRIED;
        self.step += 1;
        if self.step >= SWEEPS[self.sweep] {
            (self.sweep, self.step) = ((self.sweep + 1) % SWEEPS.len(), 0);
        }
        (1..=ALWAYS).chain(begins..begins + TRIED)
    }

    pub(super) fn found(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_the_nearest_with_its_number() {
        for (newest, sequence, index) in [
            (0, 5, 5),
            (5, 3, 3),
            (0xFFF0, 3, 0x1_0003),
            (0x1_0003, 0xFFF0, 0xFFF0),
            (0x1_0003, 0x8003, 0x1_8003),
            (0x1_0003, 0x8004, 0x8004),
            (0x1_FFFF, 0x7FFE, 0x2_7FFE),
            (3, 0xFFF0, 0xFFF0),
        ] {
            assert_eq!(estimate(newest, sequence), index, "{newest:x} {sequence:x}");
        }
    }

    #[test]
    fn the_source_that_was_silent_longest_is_forgotten() {
        let mut received = SourceTable::new();
        received.note(7, 70_000);
        for ssrc in 100..100 + 10 * MAX_SOURCES as u32 {
            received.note(ssrc, 1);
            if ssrc % 500 == 0 {
                received.note(7, 70_000 + u64::from(ssrc));
            }
        }
        assert_eq!(received.known().len(), MAX_SOURCES);
        assert!(received.newest(7).is_some(), "it spoke all the time");
        assert_eq!(received.newest(100), None);
        assert!(received.known().is_sorted_by_key(|source| source.ssrc));
    }

    #[test]
    fn replay_window_covers_64_packets_and_rejects_older() {
        let mut received = SourceTable::new();
        received.note(1, 100);
        received.note(1, 98);
        for (index, arrived) in [(100, true), (99, false), (98, true), (101, false), (36, true)] {
            assert_eq!(received.arrived(1, index), arrived, "{index}");
        }
        received.note(1, 164);
        for (index, arrived) in [(100, true), (101, false), (163, false), (164, true)] {
            assert_eq!(received.arrived(1, index), arrived, "{index}");
        }
        assert!(!received.arrived(2, 100), "another source");
    }

    #[test]
    fn two_sources_in_turn_are_each_tried_with_every_counter() {
        let mut search = RollOverSearch::default();
        let mut tried = [vec![false; 200], vec![false; 200]];
        for packet in 0..2 * 113 + 3 * 1531 {
            for roll_over in search.next() {
                if let Some(at) = tried[packet % 2].get_mut(roll_over as usize) {
                    *at = true;
                }
            }
        }
        assert!(tried.iter().all(|tried| tried[1..].iter().all(|tried| *tried)));
    }
}
