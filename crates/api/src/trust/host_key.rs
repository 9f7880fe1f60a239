//! Public key that identifies a host.

use core::fmt;
use core::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::CertificateDer;
use rustls::server::ParsedCertificate;
use thiserror::Error;

/// RFC 8410 §4.
const SPKI_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0];

/// Ed25519; the text form is base64.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostKey([u8; 32]);

impl HostKey {
    /// Creates a key from its bytes.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Bytes of the key.
    pub const fn bytes(&self) -> [u8; 32] {
        self.0
    }

    /// `None` unless Ed25519.
    pub fn of_certificate(certificate: &CertificateDer<'_>) -> Option<Self> {
        let parsed = ParsedCertificate::try_from(certificate).ok()?;
        let info = parsed.subject_public_key_info();
        let key = info.as_ref().strip_prefix(&SPKI_PREFIX)?;
        key.try_into().ok().map(Self)
    }

    /// SubjectPublicKeyInfo (X.509).
    pub fn public_key_info(&self) -> [u8; 44] {
        let mut info = [0; 44];
        info[..12].copy_from_slice(&SPKI_PREFIX);
        info[12..].copy_from_slice(&self.0);
        info
    }

    /// Hash for `curl --pinnedpubkey sha256//…`.
    pub fn pin(&self) -> String {
        let hash = ring::digest::digest(&ring::digest::SHA256, &self.public_key_info());
        STANDARD.encode(hash)
    }
}

impl fmt::Display for HostKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode(self.0))
    }
}

impl fmt::Debug for HostKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostKey({self})")
    }
}

/// Error for an invalid key text.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "invalid key {0:?}: must be the 44 characters, ending in =, that taut id prints on the other machine"
)]
pub struct NoHostKey(pub String);

impl FromStr for HostKey {
    type Err = NoHostKey;

    fn from_str(text: &str) -> Result<Self, NoHostKey> {
        let bytes = STANDARD.decode(text.trim()).ok();
        let key = bytes.and_then(|bytes| bytes.try_into().ok()).map(Self);
        // The input may be a whole file.
        key.ok_or_else(|| NoHostKey(text.chars().take(64).collect()))
    }
}
