mod attacks;
mod keys;
mod vectors;

use super::*;

pub(super) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        text.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks(2).map(|two| two[0] << 4 | two[1]).collect()
}

pub(super) fn key(profile: Profile, fill: u8) -> MasterKey {
    let bytes = vec![fill; profile.key_bytes() + profile.salt_bytes()];
    MasterKey::new(profile, &bytes).unwrap()
}

pub(super) fn packet(ssrc: u32, sequence: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x80, 97];
    bytes.extend(sequence.to_be_bytes());
    bytes.extend(7_u32.to_be_bytes());
    bytes.extend(ssrc.to_be_bytes());
    bytes.extend(payload);
    bytes
}

pub(super) fn sealed(seal: &mut SrtpSeal, packet: &[u8]) -> Vec<u8> {
    let mut bytes = packet.to_vec();
    bytes.resize(packet.len() + seal.room(), 0);
    let len = seal.seal(&mut bytes, packet.len());
    bytes.truncate(len);
    bytes
}

pub(super) fn opened(seal: &mut SrtpSeal, bytes: &[u8]) -> Option<Vec<u8>> {
    seal.open(&mut bytes.to_vec()).map(<[u8]>::to_vec)
}
