//! Encrypts and authenticates single packets with the session keys of one direction.

use aes::Aes128;
use aes::cipher::KeyInit;
use ring::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce, Tag, UnboundKey};
use ring::hmac;

use super::derive::{Of, Use, add_key_stream, derive};
use super::key::{GCM_TAG, HMAC_TAG, MasterKey, Profile, RTCP_WORD};
use super::packet::{RTCP_CLEAR, Sealable};
use crate::seal::is_same;

/// E flag of an SRTCP word (RFC 3711 §3.4).
const ENCRYPTED: u32 = 1 << 31;

/// 48-bit index for RTP (roll-over counter and sequence number), 31-bit for RTCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PacketId {
    pub(super) ssrc: u32,
    pub(super) index: u64,
}

impl PacketId {
    /// RFC 3711 §4.1.1; RFC 7714 §8.1, §9.1.
    fn counter<const BYTES: usize>(self, salt: &[u8; BYTES], before: usize) -> [u8; BYTES] {
        let mut iv = *salt;
        let (ssrc, index) = (self.ssrc.to_be_bytes(), self.index.to_be_bytes());
        let packet = ssrc.iter().chain(&index[2..]);
        iv[before..].iter_mut().zip(packet).for_each(|(at, byte)| *at ^= byte);
        iv
    }

    const fn roll_over(self) -> [u8; 4] {
        ((self.index >> 16) as u32).to_be_bytes()
    }
}

pub(super) enum Cipher {
    Gcm { key: Box<LessSafeKey>, salt: [u8; 12] },
    Counter { cipher: Box<Aes128>, salt: [u8; 14], tag: Box<hmac::Key> },
}

impl Cipher {
    pub(super) fn derived(master: &MasterKey, of: Of) -> Self {
        let (mut key, mut salt) = ([0; 32], [0; 14]);
        let profile = master.profile();
        let key = &mut key[..profile.key_bytes()];
        derive(master, of, Use::Encryption, key);
        derive(master, of, Use::Salt, &mut salt[..profile.salt_bytes()]);
        let mut tag = [0; 20];
        derive(master, of, Use::Authentication, &mut tag);
        Self::of_session(profile, key, &salt, &tag)
    }

    pub(super) fn of_session(profile: Profile, key: &[u8], salt: &[u8], tag: &[u8]) -> Self {
        const LENGTH: &str = "session keys are as long as the profile has them";
        let salt_of = |bytes: usize| salt.get(..bytes).expect(LENGTH);
        let algorithm = match profile {
            Profile::AeadAes128Gcm => &AES_128_GCM,
            Profile::AeadAes256Gcm => &AES_256_GCM,
            Profile::AesCm128HmacSha1 => {
                return Self::Counter {
                    cipher: Box::new(Aes128::new_from_slice(key).expect(LENGTH)),
                    salt: salt_of(14).try_into().expect(LENGTH),
                    tag: Box::new(hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, tag)),
                };
            }
        };
        let key = LessSafeKey::new(UnboundKey::new(algorithm, key).expect(LENGTH));
        Self::Gcm { key: Box::new(key), salt: salt_of(12).try_into().expect(LENGTH) }
    }

    const fn tag_bytes(&self) -> usize {
        match self {
            Self::Gcm { .. } => GCM_TAG,
            Self::Counter { .. } => HMAC_TAG,
        }
    }

    pub(super) const fn rtp_room(&self) -> usize {
        self.tag_bytes()
    }

    pub(super) const fn rtcp_room(&self) -> usize {
        self.tag_bytes() + RTCP_WORD
    }

    /// Returns the new length, `None` without room.
    pub(super) fn seal_rtp(
        &self,
        bytes: &mut [u8],
        len: usize,
        parts: Sealable,
        id: PacketId,
    ) -> Option<usize> {
        let whole = bytes.get_mut(..len + self.rtp_room())?;
        let (packet, behind) = whole.split_at_mut(len);
        parts.gather(packet);
        let (clear, secret) = packet.split_at_mut_checked(parts.clear)?;
        match self {
            Self::Gcm { key, salt } => {
                let tag = key
                    .seal_in_place_separate_tag(nonce(id, salt), Aad::from(clear), secret)
                    .ok()?;
                behind.copy_from_slice(tag.as_ref());
                parts.scatter(packet);
            }
            Self::Counter { cipher, salt, tag } => {
                add_key_stream(&**cipher, counter(id, salt), secret);
                parts.scatter(packet);
                behind.copy_from_slice(&code(tag, packet, &id.roll_over()));
            }
        }
        Some(len + self.rtp_room())
    }

    /// Returns the new length; on failure the packet is unchanged. `kept` is a scratch buffer.
    pub(super) fn open_rtp(
        &self,
        bytes: &mut [u8],
        kept: &mut [u8],
        parts: Sealable,
        id: PacketId,
    ) -> Option<usize> {
        let len = bytes.len().checked_sub(self.rtp_room())?;
        let (packet, behind) = bytes.split_at_mut(len);
        match self {
            Self::Gcm { key, salt } => {
                let tag = Tag::from(<[u8; GCM_TAG]>::try_from(&*behind).ok()?);
                let kept = kept.get_mut(..len)?;
                kept.copy_from_slice(packet);
                parts.gather(packet);
                let (clear, secret) = packet.split_at_mut_checked(parts.clear)?;
                let (nonce, clear) = (nonce(id, salt), Aad::from(clear));
                if key.open_in_place_separate_tag(nonce, clear, tag, secret, 0..).is_err() {
                    packet.copy_from_slice(kept);
                    return None;
                }
            }
            Self::Counter { cipher, salt, tag } => {
                if !is_same(&code(tag, packet, &id.roll_over()), behind) {
                    return None;
                }
                parts.gather(packet);
                let secret = packet.get_mut(parts.clear..)?;
                add_key_stream(&**cipher, counter(id, salt), secret);
            }
        }
        parts.scatter(packet);
        Some(len)
    }

    pub(super) fn seal_rtcp(&self, bytes: &mut [u8], len: usize, id: PacketId) -> Option<usize> {
        let whole = bytes.get_mut(..len + self.rtcp_room())?;
        let (packet, behind) = whole.split_at_mut(len);
        let (clear, secret) = packet.split_at_mut_checked(RTCP_CLEAR)?;
        let word = (ENCRYPTED | id.index as u32).to_be_bytes();
        match self {
            Self::Gcm { key, salt } => {
                let aad = associated(clear, word)?;
                let tag =
                    key.seal_in_place_separate_tag(nonce(id, salt), Aad::from(aad), secret).ok()?;
                behind[..GCM_TAG].copy_from_slice(tag.as_ref());
                behind[GCM_TAG..].copy_from_slice(&word);
            }
            Self::Counter { cipher, salt, tag } => {
                add_key_stream(&**cipher, counter(id, salt), secret);
                behind[..RTCP_WORD].copy_from_slice(&word);
                behind[RTCP_WORD..].copy_from_slice(&code(tag, packet, &word));
            }
        }
        Some(len + self.rtcp_room())
    }

    /// Index, and whether the packet is encrypted.
    pub(super) fn rtcp_word(&self, bytes: &[u8]) -> Option<(u32, bool)> {
        let behind = match self {
            Self::Gcm { .. } => bytes,
            Self::Counter { .. } => bytes.get(..bytes.len().checked_sub(HMAC_TAG)?)?,
        };
        let word = u32::from_be_bytes(*behind.last_chunk()?);
        Some((word & !ENCRYPTED, word & ENCRYPTED != 0))
    }

    pub(super) fn open_rtcp(&self, bytes: &mut [u8], id: PacketId) -> Option<usize> {
        let len = bytes.len().checked_sub(self.rtcp_room())?;
        let (packet, behind) = bytes.split_at_mut(len);
        let (clear, secret) = packet.split_at_mut_checked(RTCP_CLEAR)?;
        let word = (ENCRYPTED | id.index as u32).to_be_bytes();
        match self {
            Self::Gcm { key, salt } => {
                let tag = Tag::from(*behind.first_chunk::<GCM_TAG>()?);
                let aad = Aad::from(associated(clear, word)?);
                key.open_in_place_separate_tag(nonce(id, salt), aad, tag, secret, 0..).ok()?;
            }
            Self::Counter { cipher, salt, tag } => {
                if !is_same(&code(tag, packet, &word), behind.get(RTCP_WORD..)?) {
                    return None;
                }
                let (_, secret) = packet.split_at_mut_checked(RTCP_CLEAR)?;
                add_key_stream(&**cipher, counter(id, salt), secret);
            }
        }
        Some(len)
    }
}

/// RFC 7714 §8.1, §9.1.
fn nonce(id: PacketId, salt: &[u8; 12]) -> Nonce {
    Nonce::assume_unique_for_key(id.counter(salt, 2))
}

/// RFC 3711 §4.1.1.
fn counter(id: PacketId, salt: &[u8; 14]) -> [u8; 16] {
    let mut iv = [0; 16];
    iv[..14].copy_from_slice(&id.counter(salt, 4));
    iv
}

/// RFC 7714 §9.2.
fn associated(clear: &[u8], word: [u8; 4]) -> Option<[u8; RTCP_CLEAR + 4]> {
    let mut all = [0; RTCP_CLEAR + 4];
    all[..RTCP_CLEAR].copy_from_slice(clear.get(..RTCP_CLEAR)?);
    all[RTCP_CLEAR..].copy_from_slice(&word);
    Some(all)
}

/// RFC 3711 §4.2.
fn code(key: &hmac::Key, packet: &[u8], behind: &[u8; 4]) -> [u8; HMAC_TAG] {
    let mut context = hmac::Context::with_key(key);
    context.update(packet);
    context.update(behind);
    let tag = context.sign();
    tag.as_ref().first_chunk().copied().unwrap_or_default()
}
