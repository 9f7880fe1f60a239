//! Packets that are sent again whole, later (RFC 7198 §3): for payloads too long to travel in
//! another packet. Every receiver drops the second as a duplicate if the first came.

use crate::ledger::Departure;
use crate::stream::Outgoing;
use crate::time::LocalTime;

/// What was sent, until it is sent again.
#[derive(Debug)]
pub struct Repeats {
    bytes: Box<[u8]>,
    slots: Box<[Option<Kept>]>,
    /// Bytes of a slot.
    slot: usize,
    next: usize,
}

#[derive(Debug, Clone, Copy)]
struct Kept {
    len: usize,
    instants: Departure,
    handed_at: Option<usize>,
}

impl Repeats {
    /// Bytes kept at most, whatever the packets: a quarter of a second of a stereo stream.
    const MOST_BYTES: usize = 128 << 10;

    /// Room for packets of so many bytes, up to [`super::MOST_WINDOW`] of them. Allocates; nothing
    /// later does.
    pub fn new(datagram_bytes: usize) -> Self {
        let slot = datagram_bytes.max(1);
        let slots = (Self::MOST_BYTES / slot).clamp(2, super::MOST_WINDOW + 1);
        Self { bytes: vec![0; slot * slots].into(), slots: vec![None; slots].into(), slot, next: 0 }
    }

    /// Forgets what was kept.
    pub fn clear(&mut self) {
        self.slots.fill(None);
    }

    /// Keeps a packet as it leaves. One too long for its slot is not sent again.
    pub fn keep(&mut self, packet: &Outgoing<'_>) {
        let len = packet.datagram.len();
        let at = self.next * self.slot;
        let fits = len <= self.slot;
        if fits {
            self.bytes[at..at + len].copy_from_slice(packet.datagram);
        }
        let kept = Kept { len, instants: packet.instants, handed_at: packet.handed_at };
        self.slots[self.next] = fits.then_some(kept);
        self.next = (self.next + 1) % self.slots.len();
    }

    /// The packet that was kept so many packets before the last, once more, now due at `due`; or
    /// the oldest that there was room for.
    pub fn again(&mut self, before: usize, due: LocalTime) -> Option<Outgoing<'_>> {
        let slots = self.slots.len();
        let index = (self.next + slots - 1 - before.min(slots - 1)) % slots;
        let Kept { len, mut instants, handed_at } = self.slots[index].take()?;
        instants.due = due;
        let at = index * self.slot;
        Some(Outgoing { datagram: &mut self.bytes[at..at + len], instants, handed_at })
    }
}
