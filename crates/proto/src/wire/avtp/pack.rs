//! Writes AAF packets, each with a time.

use super::{
    AAF, Encapsulation, HEADER_BYTES, MEDIA_RESTART, STREAM_VALID, TIME_UNCERTAIN, TIME_VALID,
    code_of,
};
use crate::packet::{Pack, Packed, PackedSound, PacketHead, PresentationTime};

/// Writer for Ethernet.
pub const ETHERNET_PACK: &dyn Pack = &AafPack(Encapsulation::Ethernet);
/// Writer for UDP.
pub const UDP_PACK: &dyn Pack = &AafPack(Encapsulation::Udp);

#[derive(Debug)]
struct AafPack(Encapsulation);

impl Pack for AafPack {
    fn name(&self) -> &'static str {
        match self.0 {
            Encapsulation::Ethernet => "avtp",
            Encapsulation::Udp => "avtp-udp",
        }
    }

    fn number_bits(&self) -> u32 {
        self.0.number_bits()
    }

    fn head_bytes(&self, _: bool, _: usize) -> usize {
        self.0.bytes() + HEADER_BYTES
    }

    fn carried_within(&self, _: bool, _: usize) -> usize {
        0
    }

    fn pack(
        &self,
        head: &PacketHead,
        sound: &PackedSound<'_>,
        _: &[u8],
        room: &mut [u8],
    ) -> Packed {
        let (before, rest) = room.split_at_mut(self.0.bytes());
        // Shorter numbers exist only in the AVTPDU.
        let number = head.number.value.to_be_bytes();
        before.copy_from_slice(&number[4 - before.len()..]);
        let channels = (sound.format.channels.count() as u16).to_be_bytes();
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        let restarted = flag(sound.restarts % 2 == 1, MEDIA_RESTART);
        let header = &mut rest[..HEADER_BYTES];
        header[..4].copy_from_slice(&[
            AAF,
            STREAM_VALID | restarted | TIME_VALID,
            number[3],
            flag(sound.uncertain, TIME_UNCERTAIN),
        ]);
        header[4..12].copy_from_slice(&head.stream.0.to_be_bytes());
        header[12..16].copy_from_slice(&PresentationTime::of(sound.presentation).0.to_be_bytes());
        header[16] = head.coding;
        header[17] = code_of(sound.format.rate) << 4 | channels[0] & 0b11;
        header[18] = channels[1];
        header[19] = 8 * sound.format.sample.bytes() as u8;
        header[20..22].copy_from_slice(&(sound.bytes as u16).to_be_bytes());
        header[22..].fill(0);
        Packed { bytes: self.0.bytes() + HEADER_BYTES, handed_at: None }
    }
}
