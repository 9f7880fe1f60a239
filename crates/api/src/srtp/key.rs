//! Master keys, and how they are written: the form of RFC 4568 §6, in which other programs give them too.

use core::fmt;
use core::str::FromStr;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::rand::{SecureRandom, SystemRandom};
use thiserror::Error;

use crate::trust::files::{FileRules, NewFile};
use crate::trust::{TrustError, files};

/// The tag of AES-GCM (RFC 7714 §13.2).
pub(super) const GCM_TAG: usize = 16;
/// HMAC-SHA1 cut to 80 bits (RFC 3711 §5.2).
pub(super) const HMAC_TAG: usize = 10;
/// The E flag and the index behind a packet of SRTCP (RFC 3711 §3.4).
pub(super) const RTCP_WORD: usize = 4;

tautline_proto::named_enum! {
    /// By what packets are sealed; names as registered for session descriptions (RFC 4568 §6.2, RFC 7714 §14.2).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum Profile {
        /// AES-GCM with keys of 256 bits (RFC 7714).
        #[default]
        AeadAes256Gcm = "AEAD_AES_256_GCM",
        /// AES-GCM with keys of 128 bits (RFC 7714).
        AeadAes128Gcm = "AEAD_AES_128_GCM",
        /// AES in counter mode and HMAC-SHA1 cut to 80 bits (RFC 3711): what every program of SRTP has.
        AesCm128HmacSha1 = "AES_CM_128_HMAC_SHA1_80",
    }
}

impl Profile {
    /// Whether encryption and authentication are one, so that what is taken for another packet never opens.
    pub const fn is_aead(self) -> bool {
        matches!(self, Self::AeadAes128Gcm | Self::AeadAes256Gcm)
    }

    /// The most bytes by which it lengthens a packet, which is what it does to one of RTCP.
    pub const fn room(self) -> usize {
        RTCP_WORD + if self.is_aead() { GCM_TAG } else { HMAC_TAG }
    }

    /// Bytes of a master key.
    pub const fn key_bytes(self) -> usize {
        match self {
            Self::AeadAes256Gcm => 32,
            Self::AeadAes128Gcm | Self::AesCm128HmacSha1 => 16,
        }
    }

    /// Bytes of a master salt (RFC 7714 §12, RFC 3711 §8.2).
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

const MOST_KEY: usize = 32;
const MOST_SALT: usize = 14;

/// A master key and its salt (RFC 3711 §3.2.1), from which the keys of one direction are derived; the same for
/// both directions where a group shares it.
#[derive(Clone, PartialEq, Eq)]
pub struct MasterKey {
    profile: Profile,
    bytes: [u8; MOST_KEY + MOST_SALT],
}

impl MasterKey {
    /// With these bytes, the key and behind it the salt, if they are as many as the profile has.
    pub fn new(profile: Profile, key_and_salt: &[u8]) -> Result<Self, NoMasterKey> {
        let wanted = profile.key_bytes() + profile.salt_bytes();
        if key_and_salt.len() != wanted {
            return Err(NoMasterKey::Length { profile, wanted, is: key_and_salt.len() });
        }
        let mut bytes = [0; MOST_KEY + MOST_SALT];
        bytes[..wanted].copy_from_slice(key_and_salt);
        Ok(Self { profile, bytes })
    }

    /// One that nobody knows, of the system's random numbers.
    pub fn random(profile: Profile) -> Result<Self, NoMasterKey> {
        let mut bytes = [0; MOST_KEY + MOST_SALT];
        let room = &mut bytes[..profile.key_bytes() + profile.salt_bytes()];
        SystemRandom::new().fill(room).map_err(|_| NoMasterKey::Random)?;
        Ok(Self { profile, bytes })
    }

    /// By what it seals.
    pub const fn profile(&self) -> Profile {
        self.profile
    }

    pub(super) fn key(&self) -> &[u8] {
        &self.bytes[..self.profile.key_bytes()]
    }

    pub(super) fn salt(&self) -> &[u8] {
        &self.bytes[self.profile.key_bytes()..][..self.profile.salt_bytes()]
    }

    /// What a key file holds, and what stands behind the tag of `a=crypto` (RFC 4568 §4): the profile, and key and salt
    /// in base64. A secret.
    pub fn to_sdes(&self) -> String {
        let secret = &self.bytes[..self.profile.key_bytes() + self.profile.salt_bytes()];
        format!("{} inline:{}", self.profile, STANDARD.encode(secret))
    }
}

impl fmt::Debug for MasterKey {
    /// Nothing of the key: what is printed is kept by somebody.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MasterKey({})", self.profile)
    }
}

/// A text that is no master key. Nothing of what may be a key is told back.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NoMasterKey {
    /// It names a profile that there is not.
    #[error(
        "{0} is no profile that is known here; AEAD_AES_256_GCM, AEAD_AES_128_GCM and AES_CM_128_HMAC_SHA1_80 are"
    )]
    Profile(String),
    /// It has another form.
    #[error("a key is one line, PROFILE inline:BASE64; make one with taut srtp-key")]
    Form,
    /// The key is as long as that of another profile.
    #[error(
        "a key of {profile} is {wanted} bytes in base64, key and salt, and this has {is}; make one with taut srtp-key"
    )]
    Length {
        /// That was named.
        profile: Profile,
        /// Bytes that it wants.
        wanted: usize,
        /// Bytes that there are.
        is: usize,
    },
    /// Behind the key stands what asks for another key in between (RFC 3711 §3.1).
    #[error("a key that changes by an MKI is not read; give one key alone")]
    KeyIdentifier,
    /// The system has no random numbers.
    #[error("the system gave no random numbers; is /dev/urandom there?")]
    Random,
}

/// What may be told back of a text: somebody may have given a key in another's place.
fn shown(text: &str) -> String {
    let name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    match text.chars().all(name) && text.len() <= 40 && text.contains('_') {
        true => format!("`{text}`"),
        false => "what stands there".to_owned(),
    }
}

impl FromStr for MasterKey {
    type Err = NoMasterKey;

    /// Reads what [`MasterKey::to_sdes`] writes; of other programs a lifetime behind it is passed over (§6.1: no more
    /// than so many packets, which streams never send). Session parameters are refused, as they would change what is
    /// sealed.
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

/// A key has 120 characters at most.
const MOST_BYTES: u64 = 1024;

const RULES: FileRules = FileRules {
    forbidden: 0o077,
    otherwise: (
        "others may read or change this key",
        "if somebody may have, make another with taut srtp-key; otherwise",
        0o600,
    ),
    most_bytes: MOST_BYTES,
    // Another program may share it.
    own: false,
};

const DESCRIPTION_RULES: FileRules = FileRules {
    otherwise: (
        "others may read or change the key in this description",
        "if somebody may have, make another; otherwise",
        0o600,
    ),
    ..RULES
};

/// Refuses a description with a key in it, which is as secret as a key file, if others may read or change it.
pub fn allow_description(path: &Path) -> Result<(), TrustError> {
    // One that is gone by now was read all the same.
    std::fs::metadata(path).map_or(Ok(()), |there| DESCRIPTION_RULES.allow(path, &there))
}

/// The key in this file; refused if others may read or change it.
pub fn read_key(path: &Path) -> Result<MasterKey, TrustError> {
    let content = |what| TrustError::Content {
        path: path.to_owned(),
        what,
        mend: "give the file that taut srtp-key made",
    };
    let text = files::read(path, &RULES)?;
    let text = text.ok_or_else(|| content("there is no such file".to_owned()))?;
    text.parse().map_err(|error: super::NoMasterKey| content(error.to_string()))
}

/// Makes a key file that its owner alone may read. One that is there is kept: others may have its key.
pub fn write_key(path: &Path, key: &MasterKey) -> Result<(), TrustError> {
    let text = format!("{}\n", key.to_sdes());
    let made = NewFile { path, text: &text, mode: 0o600 }.make()?;
    if made {
        return Ok(());
    }
    Err(TrustError::Content {
        path: path.to_owned(),
        what: "there is a file of this name".to_owned(),
        mend: "give another name, or move it away",
    })
}
