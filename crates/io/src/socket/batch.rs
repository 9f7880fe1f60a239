//! Packets sent together. Each is finalised once, however often it is sent.

use tautline_proto::ledger::Departure;
use tautline_proto::packet::handed_bytes;
use tautline_proto::redundancy::Repeats;
use tautline_proto::stream::Outgoing;
use tautline_proto::time::{LocalTime, MediaTime};

use crate::socket::seal::Seal;
use crate::thread::memory::prefault;

pub(crate) struct Batch {
    bytes: Box<[u8]>,
    packets: Box<[Queued]>,
    queued: usize,
    wanted: usize,
    repeats: Repeats,
    datagram_bytes: usize,
    slot: usize,
}

#[derive(Clone, Copy)]
struct Queued {
    instants: Departure,
    handed_at: Option<usize>,
    len: usize,
    again: Option<usize>,
}

const NOTHING: Queued = Queued {
    instants: Departure {
        media: MediaTime::ZERO,
        capture: LocalTime::ZERO,
        taken: LocalTime::ZERO,
        packed: LocalTime::ZERO,
        due: LocalTime::ZERO,
        handed: LocalTime::ZERO,
        launched: LocalTime::ZERO,
    },
    handed_at: None,
    len: 0,
    again: None,
};

impl Batch {
    pub(crate) fn new(capacity: usize, datagram_bytes: usize, seal_room: usize) -> Self {
        let (capacity, slot) = (capacity.max(1), datagram_bytes.max(1) + seal_room);
        let mut bytes = vec![0; capacity * slot].into_boxed_slice();
        prefault(&mut bytes);
        let packets = vec![NOTHING; capacity].into_boxed_slice();
        let kept = if capacity < 2 { 0 } else { Repeats::room_for(slot) };
        let mut kept = vec![0; kept].into_boxed_slice();
        prefault(&mut kept);
        let repeats = Repeats::within(kept);
        Self { bytes, packets, queued: 0, wanted: 0, repeats, datagram_bytes, slot }
    }

    pub(crate) const fn datagram_bytes(&self) -> usize {
        self.datagram_bytes
    }

    pub(crate) const fn queued(&self) -> usize {
        self.queued
    }

    pub(crate) const fn is_full(&self) -> bool {
        self.queued + self.wanted + 2 > self.packets.len()
    }

    pub(crate) fn queue(&mut self, packet: &Outgoing<'_>) -> bool {
        let len = packet.datagram.len();
        let wanted = self.wanted + usize::from(packet.again.is_some());
        let room = self.queued + wanted < self.packets.len();
        if !room || len == 0 || len > self.datagram_bytes {
            return false;
        }
        self.wanted = wanted;
        let at = self.queued * self.slot;
        self.bytes[at..at + len].copy_from_slice(packet.datagram);
        let &Outgoing { instants, handed_at, again, .. } = packet;
        self.packets[self.queued] = Queued { instants, handed_at, len, again };
        self.queued += 1;
        true
    }

    pub(crate) fn place(&mut self, maximum: usize) -> Option<&mut [u8]> {
        let room = self.queued + self.wanted < self.packets.len() && maximum <= self.datagram_bytes;
        let at = self.queued * self.slot;
        if room { self.bytes.get_mut(at..at + maximum) } else { None }
    }

    pub(crate) fn written(&mut self, instants: Departure, len: usize) {
        self.packets[self.queued] = Queued { instants, handed_at: None, len, again: None };
        self.queued += 1;
    }

    /// Writes hand-over and launch times, and encrypts. Retransmissions come last: their originals
    /// left first.
    pub(crate) fn finish(
        &mut self,
        handed: LocalTime,
        launch: impl Fn(LocalTime) -> LocalTime,
        mut seal: Option<&mut (dyn Seal + '_)>,
    ) {
        for index in 0..self.queued {
            let packet = &mut self.packets[index];
            let bytes = &mut self.bytes[index * self.slot..][..self.slot];
            let instants = &mut packet.instants;
            (instants.handed, instants.launched) = (handed, launch(instants.due));
            let field = handed_bytes(handed - instants.capture, instants.launched - handed);
            if let Some(at) = packet.handed_at.filter(|&at| at + field.len() <= packet.len) {
                bytes[at..at + field.len()].copy_from_slice(&field);
            }
            if let Some(seal) = &mut seal {
                packet.len = seal.seal(bytes, packet.len).min(bytes.len());
            }
            let Queued { instants, len, again, .. } = *packet;
            match again {
                None => self.repeats.pass(),
                Some(before) => {
                    self.repeats.keep(&bytes[..len], instants);
                    self.send_again(before, instants);
                }
            }
        }
    }

    fn send_again(&mut self, before: usize, now: Departure) {
        let Departure { due, handed, launched, .. } = now;
        let Some((datagram, instants)) = self.repeats.again(before, due) else { return };
        let len = datagram.len();
        self.bytes[self.queued * self.slot..][..len].copy_from_slice(datagram);
        let instants = Departure { handed, launched, ..instants };
        self.packets[self.queued] = Queued { instants, handed_at: None, len, again: None };
        self.queued += 1;
    }

    pub(crate) fn datagram(&self, index: usize) -> &[u8] {
        let at = index * self.slot;
        &self.bytes[at..at + self.packets[index].len]
    }

    pub(crate) fn departure(&self, index: usize) -> Departure {
        self.packets[index].instants
    }

    pub(crate) fn departures(&self) -> impl Iterator<Item = Departure> + '_ {
        self.packets[..self.queued].iter().map(|packet| packet.instants)
    }

    pub(crate) const fn clear(&mut self) {
        (self.queued, self.wanted) = (0, 0);
    }
}
