//! What a host is known by.

use core::fmt;
use core::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::CertificateDer;
use rustls::server::ParsedCertificate;
use thiserror::Error;

/// What stands before the 32 bytes of an Ed25519 key in a SubjectPublicKeyInfo (RFC 8410 §4).
const SPKI_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0];

/// The public key of a host (Ed25519). In text: its 32 bytes in base64.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostKey([u8; 32]);

impl HostKey {
    /// With these bytes.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub const fn bytes(&self) -> [u8; 32] {
        self.0
    }

    /// That of the host whose certificate it is, if that is one of an Ed25519 key.
    pub fn of_certificate(certificate: &CertificateDer<'_>) -> Option<Self> {
        let parsed = ParsedCertificate::try_from(certificate).ok()?;
        let info = parsed.subject_public_key_info();
        let key = info.as_ref().strip_prefix(&SPKI_PREFIX)?;
        key.try_into().ok().map(Self)
    }

    /// As X.509 has it; `curl --pinnedpubkey` wants its SHA-256.
    pub fn public_key_info(&self) -> [u8; 44] {
        let mut info = [0; 44];
        info[..12].copy_from_slice(&SPKI_PREFIX);
        info[12..].copy_from_slice(&self.0);
        info
    }

    /// The SHA-256 of [`HostKey::public_key_info`] in base64, as `curl --pinnedpubkey sha256//…` has it.
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

/// A text that is no key.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "{0:?} is no key: a key is the 44 characters, the last of them =, that taut id prints on the other host"
)]
pub struct NoHostKey(pub String);

impl FromStr for HostKey {
    type Err = NoHostKey;

    fn from_str(text: &str) -> Result<Self, NoHostKey> {
        let bytes = STANDARD.decode(text.trim()).ok();
        let key = bytes.and_then(|bytes| bytes.try_into().ok()).map(Self);
        // What is told back is cut short: somebody may have given a whole file.
        key.ok_or_else(|| NoHostKey(text.chars().take(64).collect()))
    }
}
