//! Derives session keys from a master key (RFC 3711 §4.3, at rate 0). Also AES counter mode
//! (§4.1.1).

use aes::cipher::{Array, BlockCipherEncrypt, KeyInit};
use aes::{Aes128, Aes256};

use super::key::{MasterKey, Profile};

const BLOCK: usize = 16;
/// Blocks in parallel: as many as AES-NI pipelines.
const AT_ONCE: usize = 8;

/// XORs the key stream from `iv` on into `bytes`.
pub(super) fn add_key_stream(
    cipher: &impl BlockCipherEncrypt<BlockSize = aes::cipher::consts::U16>,
    iv: [u8; BLOCK],
    bytes: &mut [u8],
) {
    let mut counter = u128::from_be_bytes(iv);
    for part in bytes.chunks_mut(BLOCK * AT_ONCE) {
        let mut stream = [Array::from([0; BLOCK]); AT_ONCE];
        let blocks = &mut stream[..part.len().div_ceil(BLOCK)];
        for block in blocks.iter_mut() {
            *block = Array::from(counter.to_be_bytes());
            counter = counter.wrapping_add(1);
        }
        cipher.encrypt_blocks(blocks);
        for (part, block) in part.chunks_mut(BLOCK).zip(blocks) {
            part.iter_mut().zip(block.iter()).for_each(|(byte, key)| *byte ^= key);
        }
    }
}

/// Label (RFC 3711 §4.3.1, §4.3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    Encryption = 0,
    Authentication = 1,
    Salt = 2,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    Rtp = 0,
    Rtcp = 3,
}

/// The last two bytes of 96-bit salts are zero (RFC 7714 §11).
pub(super) fn derive(master: &MasterKey, of: Of, what: Use, room: &mut [u8]) {
    let mut iv = [0; BLOCK];
    iv[..master.salt().len()].copy_from_slice(master.salt());
    // The label is above a 48-bit index and the 16-bit counter, both 0.
    iv[7] ^= of as u8 + what as u8;
    room.fill(0);
    const LENGTH: &str = "a master key is as long as its profile says";
    match master.profile() {
        Profile::AeadAes256Gcm => {
            let cipher = Aes256::new_from_slice(master.key()).expect(LENGTH);
            add_key_stream(&cipher, iv, room);
        }
        Profile::AeadAes128Gcm | Profile::AesCm128HmacSha1 => {
            let cipher = Aes128::new_from_slice(master.key()).expect(LENGTH);
            add_key_stream(&cipher, iv, room);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::hex;
    use super::*;

    fn derived(master: &MasterKey, what: Use, bytes: usize) -> Vec<u8> {
        let mut room = vec![9; bytes];
        derive(master, Of::Rtp, what, &mut room);
        room
    }

    #[test]
    fn the_key_stream_is_that_of_rfc_3711_b_2() {
        let cipher = Aes128::new_from_slice(&hex("2B7E151628AED2A6ABF7158809CF4F3C")).unwrap();
        let iv = hex("F0F1F2F3F4F5F6F7F8F9FAFBFCFD0000").try_into().unwrap();
        let mut stream = vec![0; 0xff03 * BLOCK];
        add_key_stream(&cipher, iv, &mut stream);
        let block = |number: usize| &stream[number * BLOCK..][..BLOCK];
        for (number, expected) in [
            (0, "E03EAD0935C95E80E166B16DD92B4EB4"),
            (1, "D23513162B02D0F72A43A2FE4A5F97AB"),
            (2, "41E95B3BB0A2E8DD477901E4FCA894C0"),
            (0xfeff, "EC8CDF7398607CB0F2D21675EA9EA1E4"),
            (0xff00, "362B7C3C6773516318A077D7FC5073AE"),
            (0xff01, "6A2CC3787889374FBEB4C81B17BA6C44"),
        ] {
            assert_eq!(block(number), hex(expected), "block {number:x}");
        }
    }

    #[test]
    fn the_session_keys_are_those_of_rfc_3711_b_3() {
        let master = hex("E1F97A0D3E018BE0D64FA32C06DE4139 0EC675AD498AFEEBB6960B3AABE6");
        let master = MasterKey::new(Profile::AesCm128HmacSha1, &master).unwrap();
        let encryption = derived(&master, Use::Encryption, 16);
        assert_eq!(encryption, hex("C61E7A93744F39EE10734AFE3FF7A087"));
        assert_eq!(derived(&master, Use::Salt, 14), hex("30CBBC08863D8C85D49DB34A9AE1"));
        let authentication = derived(&master, Use::Authentication, 94);
        assert_eq!(authentication[..20], hex("CEBE321F6FF7716B6FD4AB49AF256A156D38BAA4"));
    }

    #[test]
    fn keys_of_256_bits_are_derived_as_in_rfc_6188_7_2() {
        let key = "f0f04914b513f2763a1b1fa130f10e2998f6f6e43e4309d1e622a0e332b9f1b6";
        let salt = hex("3b04803de51ee7c96423ab5b78d2");
        let cipher = Aes256::new_from_slice(&hex(key)).unwrap();
        for (label, expected) in [
            (0, "5ba1064e30ec51613cad926c5a28ef731ec7fb397f70a960653caf06554cd8c4"),
            (1, "fd9c32d39ed5fbb5a9dc96b30818454d1313dc05"),
            (2, "fa31791685ca444a9e07c6c64e93"),
        ] {
            let mut iv = [0; BLOCK];
            iv[..14].copy_from_slice(&salt);
            iv[7] ^= label;
            let expected = hex(expected);
            let mut made = vec![0; expected.len()];
            add_key_stream(&cipher, iv, &mut made);
            assert_eq!(made, expected, "label {label}");
        }
    }
}
