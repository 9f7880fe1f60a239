//! Encrypts and authenticates a stream's datagrams.
//!
//! A datagram becomes ciphertext, 16 bytes of tag, and a 12-byte nonce: the sender's *incarnation*
//! (32 bits) and a count (64 bits), both big-endian. Each direction has its own key. A process that
//! restarts the count has a higher incarnation, so no nonce repeats.
//!
//! The cipher is fixed to AES-256-GCM: 0.2 µs for 1 kB; ChaCha20-Poly1305 takes 0.7 (`cargo bench
//! -p tautline-api`, an Intel Xeon with AES-NI).

mod replay;

use core::fmt;
use core::hint::black_box;

use ring::aead::{AES_256_GCM, Aad, Algorithm, LessSafeKey, Nonce, Tag, UnboundKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use tautline_io::socket::seal::Seal;

use self::replay::ReplayWindow;

/// Length of every key and secret.
pub const SECRET_BYTES: usize = 32;
const CIPHER: &Algorithm = &AES_256_GCM;
const TAG_BYTES: usize = 16;
const NONCE_BYTES: usize = 12;
/// Overhead of an encrypted datagram in bytes.
pub const ROOM: usize = TAG_BYTES + NONCE_BYTES;

/// RFC 8446 §7.5.
pub const EXPORTER_LABEL: &[u8] = b"EXPORTER-tautline-offload";
const SALT: &[u8] = b"tautline offload 1";

/// Derives a secret from the TLS connection's, and the salt in the response.
pub fn stream_secret(
    connection: &[u8; SECRET_BYTES],
    salt: &[u8; SECRET_BYTES],
) -> [u8; SECRET_BYTES] {
    expanded(&Salt::new(HKDF_SHA256, salt).extract(connection), &[b"stream"])
}

/// Keys of both directions of a stream.
pub struct StreamKeys {
    to_worker: [u8; SECRET_BYTES],
    from_worker: [u8; SECRET_BYTES],
}

impl StreamKeys {
    /// Derives the keys of this stream (HKDF, RFC 5869).
    pub fn of(secret: &[u8; SECRET_BYTES], stream: u32) -> Self {
        let root = Salt::new(HKDF_SHA256, SALT).extract(secret);
        let number = stream.to_be_bytes();
        Self {
            to_worker: expanded(&root, &[b"to worker", &number]),
            from_worker: expanded(&root, &[b"from worker", &number]),
        }
    }
}

impl fmt::Debug for StreamKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StreamKeys")
    }
}

struct SecretLength;

impl KeyType for SecretLength {
    fn len(&self) -> usize {
        SECRET_BYTES
    }
}

pub(crate) fn expanded(root: &Prk, info: &[&[u8]]) -> [u8; SECRET_BYTES] {
    let mut secret = [0; SECRET_BYTES];
    root.expand(info, SecretLength)
        .and_then(|made| made.fill(&mut secret))
        .expect("32 bytes are fewer than HKDF can make");
    secret
}

/// Whether both are equal. Takes constant time, against timing attacks.
pub(crate) fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len()
        && one.iter().zip(other).fold(0, |all, (a, b)| black_box(all | (a ^ b))) == 0
}

/// Encrypts datagrams from one end of a stream and decrypts those to it.
///
/// A datagram is accepted once, and only within the last 1024. So a sender must encrypt a repeated
/// block again.
pub struct Sealed {
    sealing: LessSafeKey,
    opening: LessSafeKey,
    incarnation: u32,
    count: u64,
    received: ReplayWindow,
}

impl Sealed {
    /// Reopening with the same keys needs a higher incarnation.
    pub fn master(keys: &StreamKeys, incarnation: u32) -> Self {
        Self::between(&keys.to_worker, &keys.from_worker, incarnation)
    }

    /// A process that replaces a dead one needs a higher incarnation.
    pub fn worker(keys: &StreamKeys, incarnation: u32) -> Self {
        Self::between(&keys.from_worker, &keys.to_worker, incarnation)
    }

    fn between(
        sealing: &[u8; SECRET_BYTES],
        opening: &[u8; SECRET_BYTES],
        incarnation: u32,
    ) -> Self {
        let key = |bytes| {
            let key = UnboundKey::new(CIPHER, bytes).expect("the cipher's keys have 32 bytes");
            LessSafeKey::new(key)
        };
        Self {
            sealing: key(sealing),
            opening: key(opening),
            incarnation,
            count: 0,
            received: ReplayWindow::default(),
        }
    }

    /// Incarnation and count of the newest accepted datagram.
    pub const fn newest(&self) -> Option<(u32, u64)> {
        self.received.newest()
    }

    /// Rejects everything up to the other seal's [newest](Self::newest).
    #[must_use]
    pub fn after(self, newest: Option<(u32, u64)>) -> Self {
        let received = newest.map_or_else(ReplayWindow::default, ReplayWindow::after);
        Self { received, ..self }
    }
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { incarnation, count, .. } = self;
        write!(f, "Sealed {{ incarnation: {incarnation}, count: {count} }}")
    }
}

impl Seal for Sealed {
    fn room(&self) -> usize {
        ROOM
    }

    /// 0 without room or after the last nonce.
    fn seal(&mut self, bytes: &mut [u8], len: usize) -> usize {
        let Some((plain, rest)) = bytes.split_at_mut_checked(len) else { return 0 };
        let (Some(behind), Some(next)) = (rest.get_mut(..ROOM), self.count.checked_add(1)) else {
            return 0;
        };
        let nonce = written(self.incarnation, self.count);
        self.count = next;
        let unique = Nonce::assume_unique_for_key(nonce);
        let Ok(tag) = self.sealing.seal_in_place_separate_tag(unique, Aad::empty(), plain) else {
            return 0;
        };
        behind[..TAG_BYTES].copy_from_slice(tag.as_ref());
        behind[TAG_BYTES..].copy_from_slice(&nonce);
        len + ROOM
    }

    fn open<'a>(&mut self, bytes: &'a mut [u8]) -> Option<&'a [u8]> {
        let (sealed, nonce) = bytes.split_last_chunk_mut::<NONCE_BYTES>()?;
        let (sealed, tag) = sealed.split_last_chunk_mut::<TAG_BYTES>()?;
        let (incarnation, count) = read(*nonce);
        // Recorded only once authenticated.
        if !self.received.is_new(incarnation, count) {
            return None;
        }
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let opened = self.opening.open_in_place_separate_tag(
            nonce,
            Aad::empty(),
            Tag::from(*tag),
            sealed,
            0..,
        );
        let opened = opened.ok()?;
        self.received.note(incarnation, count);
        Some(opened)
    }
}

fn written(incarnation: u32, count: u64) -> [u8; NONCE_BYTES] {
    let mut nonce = [0; NONCE_BYTES];
    nonce[..4].copy_from_slice(&incarnation.to_be_bytes());
    nonce[4..].copy_from_slice(&count.to_be_bytes());
    nonce
}

fn read(nonce: [u8; NONCE_BYTES]) -> (u32, u64) {
    let [i, n, c, a, count @ ..] = nonce;
    (u32::from_be_bytes([i, n, c, a]), u64::from_be_bytes(count))
}

#[cfg(test)]
mod tests;
