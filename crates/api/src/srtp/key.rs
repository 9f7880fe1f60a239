//! Master keys, and their text form (RFC 4568 §6).

use core::fmt;
use core::str::FromStr;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::rand::{SecureRandom, SystemRandom};
use thiserror::Error;

use crate::trust::files::{FileRules, NewFile};
use crate::trust::{TrustError, files};

/// RFC 7714 §13.2.
pub(super) const GCM_TAG: usize = 16;
/// RFC 3711 §5.2.
pub(super) const HMAC_TAG: usize = 10;
/// E flag and index (RFC 3711 §3.4).
pub(super) const RTCP_WORD: usize = 4;

tautline_proto::named_enum! {
    /// Named as in session descriptions (RFC 4568 §6.2, RFC 7714 §14.2).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum Profile {
        /// AES-GCM with 256-bit keys (RFC 7714).
        #[default]
        AeadAes256Gcm = "AEAD_AES_256_GCM",
        /// AES-GCM with 128-bit keys (RFC 7714).
        AeadAes128Gcm = "AEAD_AES_128_GCM",
        /// AES counter mode with HMAC-SHA1 truncated to 80 bits (RFC 3711).
        AesCm128HmacSha1 = "AES_CM_128_HMAC_SHA1_80",
    }
}

impl Profile {
    /// Whether decryption with a wrong index always fails.
    pub const fn is_aead(self) -> bool {
        matches!(self, Self::AeadAes128Gcm | Self::AeadAes256Gcm)
    }

    /// Maximum overhead in bytes: the overhead of an RTCP packet.
    pub const fn room(self) -> usize {
        RTCP_WORD + if self.is_aead() { GCM_TAG } else { HMAC_TAG }
    }

    /// Length of a master key in bytes.
    pub const fn key_bytes(self) -> usize {
        match self {
            Self::AeadAes256Gcm => 32,
            Self::AeadAes128Gcm | Self::AesCm128HmacSha1 => 16,
        }
    }

    /// Length in bytes (RFC 7714 §12, RFC 3711 §8.2).
    pub const fn salt_bytes(self) -> usize {
        match self {
            Self::AeadAes128Gcm | Self::AeadAes256Gcm => 12,
            Self::AesCm128HmacSha1 => 14,
        }
    }
}

impl FromStr for Profile {
    type Err = NoMasterKey;

    fn from_str(text: &str) -> Result<Self, NoMasterKey> {
        let named = |profile: &Self| profile.name().eq_ignore_ascii_case(text);
        Self::ALL.into_iter().find(named).ok_or_else(|| NoMasterKey::Profile(shown(text)))
    }
}

const MAX_KEY: usize = 32;
const MAX_SALT: usize = 14;

/// A master key with its salt (RFC 3711 §3.2.1).
#[derive(Clone, PartialEq, Eq)]
pub struct MasterKey {
    profile: Profile,
    bytes: [u8; MAX_KEY + MAX_SALT],
}

impl MasterKey {
    /// An error if the length does not match the profile.
    pub fn new(profile: Profile, key_and_salt: &[u8]) -> Result<Self, NoMasterKey> {
        let wanted = profile.key_bytes() + profile.salt_bytes();
        if key_and_salt.len() != wanted {
            return Err(NoMasterKey::Length { profile, wanted, is: key_and_salt.len() });
        }
        let mut bytes = [0; MAX_KEY + MAX_SALT];
        bytes[..wanted].copy_from_slice(key_and_salt);
        Ok(Self { profile, bytes })
    }

    /// Creates a random key.
    pub fn random(profile: Profile) -> Result<Self, NoMasterKey> {
        let mut bytes = [0; MAX_KEY + MAX_SALT];
        let room = &mut bytes[..profile.key_bytes() + profile.salt_bytes()];
        SystemRandom::new().fill(room).map_err(|_| NoMasterKey::Random)?;
        Ok(Self { profile, bytes })
    }

    /// Profile of this key.
    pub const fn profile(&self) -> Profile {
        self.profile
    }

    pub(super) fn key(&self) -> &[u8] {
        &self.bytes[..self.profile.key_bytes()]
    }

    pub(super) fn salt(&self) -> &[u8] {
        &self.bytes[self.profile.key_bytes()..][..self.profile.salt_bytes()]
    }

    /// Text as in a key file and `a=crypto` (RFC 4568 §4). A secret.
    pub fn to_sdes(&self) -> String {
        let secret = &self.bytes[..self.profile.key_bytes() + self.profile.salt_bytes()];
        format!("{} inline:{}", self.profile, STANDARD.encode(secret))
    }
}

impl fmt::Debug for MasterKey {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MasterKey({})", self.profile)
    }
}

/// Never quotes a possible key.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NoMasterKey {
    /// Unknown profile.
    #[error(
        "unknown SRTP profile {0}: must be AEAD_AES_256_GCM, AEAD_AES_128_GCM or AES_CM_128_HMAC_SHA1_80"
    )]
    Profile(String),
    /// Wrong format.
    #[error("not a key: must be one line, PROFILE inline:BASE64")]
    Form,
    /// The length belongs to another profile.
    #[error("the key has {is} bytes: {profile} needs {wanted}, key and salt, in base64")]
    Length {
        /// The given profile.
        profile: Profile,
        /// Required length in bytes.
        wanted: usize,
        /// Actual length in bytes.
        is: usize,
    },
    /// Unsupported (RFC 3711 §3.1).
    #[error("keys with an MKI are not supported")]
    KeyIdentifier,
    /// Cannot read random bytes.
    #[error("cannot read random bytes\nhint: check that /dev/urandom exists")]
    Random,
}

/// Quotable part of a text that may contain a key.
fn shown(text: &str) -> String {
    let name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    match text.chars().all(name) && text.len() <= 40 && text.contains('_') {
        true => format!("`{text}`"),
        false => "in this place".to_owned(),
    }
}

impl FromStr for MasterKey {
    type Err = NoMasterKey;

    /// Ignores a lifetime (RFC 4568 §6.1); rejects session parameters.
    fn from_str(text: &str) -> Result<Self, NoMasterKey> {
        let mut words = text.split_ascii_whitespace();
        let profile = words.next().ok_or(NoMasterKey::Form)?.parse()?;
        let inline = words.next().and_then(|word| word.strip_prefix("inline:"));
        let inline = inline.filter(|_| words.next().is_none()).ok_or(NoMasterKey::Form)?;
        let mut parts = inline.split('|');
        let key = parts.next().ok_or(NoMasterKey::Form)?;
        if parts.any(|part| part.contains(':')) {
            return Err(NoMasterKey::KeyIdentifier);
        }
        let bytes = STANDARD.decode(key).map_err(|_| NoMasterKey::Form)?;
        Self::new(profile, &bytes)
    }
}

/// Maximum bytes of a key file. A key has up to 120 characters.
const MAX_BYTES: u64 = 1024;

const RULES: FileRules = FileRules {
    forbidden: 0o077,
    otherwise: (
        "other users can read or change this key",
        "if another user may have read it, create a new one with taut srtp-key",
        0o600,
    ),
    max_bytes: MAX_BYTES,
    // Another program may share it.
    own: false,
};

const DESCRIPTION_RULES: FileRules = FileRules {
    otherwise: (
        "other users can read or change the key in this description",
        "if another user may have read it, create a new one",
        0o600,
    ),
    ..RULES
};

/// Rejects a description with a key if other users can read or change the file.
pub fn allow_description(path: &Path) -> Result<(), TrustError> {
    // A deleted description was still read.
    std::fs::metadata(path).map_or(Ok(()), |there| DESCRIPTION_RULES.allow(path, &there))
}

/// Reads a key file. Rejects a file that other users can read or change.
pub fn read_key(path: &Path) -> Result<MasterKey, TrustError> {
    let content = |what, hint| TrustError::Content { path: path.to_owned(), what, hint };
    let text = files::read(path, &RULES)?;
    let text = text.ok_or_else(|| {
        let hint = "copy the key of the other machines; for a building, run taut site push there";
        content("no such file".to_owned(), hint)
    })?;
    let hint = "name a file that taut srtp-key created";
    text.parse().map_err(|error: super::NoMasterKey| content(error.to_string(), hint))
}

/// Readable only by its owner. Never overwrites a file.
pub fn write_key(path: &Path, key: &MasterKey) -> Result<(), TrustError> {
    let text = format!("{}\n", key.to_sdes());
    let made = NewFile { path, text: &text, mode: 0o600 }.make()?;
    if made {
        return Ok(());
    }
    Err(TrustError::Content {
        path: path.to_owned(),
        what: "the file exists already".to_owned(),
        hint: "choose another name, or move it away",
    })
}
