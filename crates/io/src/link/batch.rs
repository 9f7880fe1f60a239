//! Packets that wait to leave together. Here each is finished, once, whatever it goes by and to
//! however many.

use tautline_proto::ledger::Departure;
use tautline_proto::stream::Outgoing;
use tautline_proto::time::{LocalTime, MediaTime};

use crate::link::seal::Seal;
use crate::thread::memory::prefault;

/// Finished packets, one beside the other.
pub(crate) struct Batch {
    bytes: Box<[u8]>,
    packets: Box<[Queued]>,
    queued: usize,
    datagram_bytes: usize,
    /// Bytes that there are for each: those of a datagram and the room to seal it.
    slot: usize,
}

#[derive(Clone, Copy)]
struct Queued {
    instants: Departure,
    handed_at: Option<usize>,
    len: usize,
}

const NOTHING: Queued = Queued {
    instants: Departure {
        media: MediaTime::ZERO,
        capture: LocalTime::ZERO,
        taken: LocalTime::ZERO,
        packed: LocalTime::ZERO,
        due: LocalTime::ZERO,
        handed: LocalTime::ZERO,
    },
    handed_at: None,
    len: 0,
};

impl Batch {
    /// Room for `capacity` packets, each `seal_room` bytes longer when it is sealed.
    pub(crate) fn new(capacity: usize, datagram_bytes: usize, seal_room: usize) -> Self {
        let (capacity, slot) = (capacity.max(1), datagram_bytes.max(1) + seal_room);
        let mut bytes = vec![0; capacity * slot].into_boxed_slice();
        prefault(&mut bytes);
        let packets = vec![NOTHING; capacity].into_boxed_slice();
        Self { bytes, packets, queued: 0, datagram_bytes, slot }
    }

    pub(crate) const fn datagram_bytes(&self) -> usize {
        self.datagram_bytes
    }

    pub(crate) const fn queued(&self) -> usize {
        self.queued
    }

    pub(crate) const fn is_full(&self) -> bool {
        self.queued == self.packets.len()
    }

    /// Copies a packet in; false if there is no room.
    pub(crate) fn queue(&mut self, packet: &Outgoing<'_>) -> bool {
        let len = packet.datagram.len();
        if self.is_full() || len == 0 || len > self.datagram_bytes {
            return false;
        }
        let at = self.queued * self.slot;
        self.bytes[at..at + len].copy_from_slice(packet.datagram);
        self.packets[self.queued] =
            Queued { instants: packet.instants, handed_at: packet.handed_at, len };
        self.queued += 1;
        true
    }

    /// Finishes every packet: writes the hand-over into those that want it, and seals them.
    pub(crate) fn finish(&mut self, handed: LocalTime, mut seal: Option<&mut (dyn Seal + '_)>) {
        let queued = self.packets[..self.queued].iter_mut();
        for (packet, bytes) in queued.zip(self.bytes.chunks_exact_mut(self.slot)) {
            packet.instants.handed = handed;
            if let Some(at) = packet.handed_at.filter(|&at| at + 4 <= packet.len) {
                let since = (handed - packet.instants.capture).as_nanos();
                let field = u32::try_from(since.max(0)).unwrap_or(u32::MAX).to_be_bytes();
                bytes[at..at + 4].copy_from_slice(&field);
            }
            if let Some(seal) = &mut seal {
                packet.len = seal.seal(bytes, packet.len).min(bytes.len());
            }
        }
    }

    /// The bytes of the queued packet at `index`.
    pub(crate) fn datagram(&self, index: usize) -> &[u8] {
        let at = index * self.slot;
        &self.bytes[at..at + self.packets[index].len]
    }

    /// The instants of the queued packet at `index`.
    pub(crate) fn departure(&self, index: usize) -> Departure {
        self.packets[index].instants
    }

    /// The instants of the queued packets.
    pub(crate) fn departures(&self) -> impl Iterator<Item = Departure> + '_ {
        self.packets[..self.queued].iter().map(|packet| packet.instants)
    }

    /// Empties the batch.
    pub(crate) const fn clear(&mut self) {
        self.queued = 0;
    }
}
