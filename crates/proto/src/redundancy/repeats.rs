//! Packets repeated whole (RFC 7198 §3) if too long for repair data. Receivers drop the duplicate.

use crate::ledger::Departure;
use crate::time::LocalTime;

use super::MAX_WINDOW;

/// Sent packets, kept until repeated.
#[derive(Debug)]
pub struct Repeats {
    bytes: Box<[u8]>,
    /// By number modulo the packets that fit.
    slots: Box<[Option<StoredPacket>]>,
    /// Length of the longest recent packet.
    slot: usize,
    sent: u64,
}

#[derive(Debug, Clone, Copy)]
struct StoredPacket {
    number: u64,
    len: usize,
    instants: Departure,
}

impl Repeats {
    /// Default bytes kept: a quarter of a second of stereo.
    const DEFAULT_BYTES: usize = 128 << 10;

    /// Bytes for a window of usual packets, or two of `datagram_bytes`.
    pub fn room_for(datagram_bytes: usize) -> usize {
        Self::DEFAULT_BYTES.max(2 * datagram_bytes)
    }

    /// Keeps up to [`MAX_WINDOW`] packets in this memory ([`Repeats::room_for`]). Only this
    /// allocates.
    pub fn within(bytes: Box<[u8]>) -> Self {
        Self { bytes, slots: vec![None; MAX_WINDOW + 1].into(), slot: 0, sent: 0 }
    }

    /// Counts a packet that is not repeated.
    pub const fn pass(&mut self) {
        self.sent += 1;
    }

    /// Keeps a packet as sent, unless two do not fit.
    pub fn keep(&mut self, datagram: &[u8], instants: Departure) {
        let (number, len) = (self.sent, datagram.len());
        self.sent += 1;
        if len > self.slot {
            self.slot = len;
            self.slots.fill(None);
        }
        if self.room() < 2 {
            return;
        }
        let index = self.index(number);
        let at = index * self.slot;
        self.bytes[at..at + len].copy_from_slice(datagram);
        self.slots[index] = Some(StoredPacket { number, len, instants });
    }

    /// Returns once the packet sent `before` packets before the last, or the oldest, due at `due`.
    pub fn again(&mut self, before: usize, due: LocalTime) -> Option<(&[u8], Departure)> {
        let before = before.min(self.room().checked_sub(1)?);
        let number = self.sent.checked_sub(1 + before as u64)?;
        let index = self.index(number);
        let kept = self.slots[index].take_if(|kept| kept.number == number)?;
        let at = index * self.slot;
        Some((&self.bytes[at..at + kept.len], Departure { due, ..kept.instants }))
    }

    fn room(&self) -> usize {
        (self.bytes.len() / self.slot.max(1)).min(self.slots.len())
    }

    fn index(&self, number: u64) -> usize {
        (number % self.room().max(1) as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::MediaTime;

    const MAX: usize = 60_000;

    fn repeats() -> Repeats {
        Repeats::within(vec![0; Repeats::room_for(MAX)].into())
    }

    fn instants(number: i64) -> Departure {
        let at = |nanos| LocalTime::from_nanos(1000 * number + nanos);
        Departure {
            media: MediaTime::from_frames(number),
            capture: at(1),
            taken: at(2),
            packed: at(3),
            due: at(4),
            handed: at(5),
            launched: at(6),
        }
    }

    fn again(repeats: &mut Repeats, number: i64, len: usize, before: usize) -> Option<i64> {
        repeats.keep(&vec![number as u8; len], instants(number));
        let due = LocalTime::from_nanos(7);
        let (bytes, had) = repeats.again(before, due)?;
        let number = had.media.as_frames();
        assert_eq!(bytes[..], vec![number as u8; bytes.len()]);
        assert_eq!(had, Departure { due, ..instants(number) });
        Some(number)
    }

    #[test]
    fn each_packet_of_any_length_is_repeated_once_after_the_delay() {
        for (len, before, had_before) in
            [(1000, 5, 5), (1, MAX_WINDOW, MAX_WINDOW), (12_000, 20, 9), (MAX, 20, 1)]
        {
            let mut repeats = repeats();
            for number in 0..200 {
                let earlier = Some(number - had_before as i64).filter(|earlier| *earlier >= 0);
                let had = again(&mut repeats, number, len - number as usize % 2, before);
                assert_eq!(had, earlier, "{len}");
            }
            assert_eq!(repeats.again(before, LocalTime::ZERO), None, "it was returned already");
        }
    }

    #[test]
    fn unavailable_packets_are_not_repeated() {
        let mut repeats = repeats();
        assert_eq!(repeats.again(0, LocalTime::ZERO), None);
        repeats.pass();
        assert_eq!(again(&mut repeats, 1, 100, 1), None);
        assert_eq!(again(&mut repeats, 2, 100, 1), Some(1));
        // Longer packets clear the slots.
        assert_eq!(again(&mut repeats, 3, 200, 1), None);
        repeats.pass();
        assert_eq!(again(&mut repeats, 5, 200, 1), None);
        assert_eq!(again(&mut repeats, 6, 2 * Repeats::room_for(MAX), 1), None);
        assert_eq!(Repeats::within(Box::default()).again(0, LocalTime::ZERO), None);
    }
}
