//! This host's own key.

use core::fmt;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, PKCS_ED25519};
use ring::rand::{SecureRandom, SystemRandom};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};

use super::files::{self, FileRules, NewFile};
use super::{HostKey, TrustError, host_name};

pub(super) const IDENTITY_FILE: &str = "identity.pem";
/// PKCS #8 version 1 (RFC 8410 §7): OpenSSL cannot read ring's version 2.
const PKCS8_PREFIX: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];
const PEM_LINE: usize = 64;
const HINT: &str =
    "move it away, create a new one with taut id, and pair with the other machines again";

const EXPECTED: FileRules = FileRules {
    forbidden: 0o077,
    otherwise: (
        "other users can read this host's key",
        "if another user may have read it, move it away instead and create a new one with taut id",
        0o600,
    ),
    max_bytes: 64 * 1024,
    own: true,
};

/// This host's key pair, with a certificate for TLS.
pub struct HostIdentity {
    key: HostKey,
    private: PrivatePkcs8KeyDer<'static>,
    certificate: CertificateDer<'static>,
}

impl HostIdentity {
    /// Concurrent processes get the same identity.
    pub fn load_or_make(folder: &Path) -> Result<Self, TrustError> {
        if let Some(known) = Self::load(folder)? {
            return Ok(known);
        }
        let made = Self::made()?;
        files::make_folder(folder)?;
        let path = folder.join(IDENTITY_FILE);
        let text = made.key_pem() + &made.certificate_pem();
        if (NewFile { path: &path, text: &text, mode: 0o600 }).make()? {
            return Ok(made);
        }
        Self::load(folder)?
            .ok_or_else(|| files::refused("reading", &path, std::io::ErrorKind::NotFound.into()))
    }

    /// Loads the identity in `folder`; `None` if `folder` has no identity.
    pub fn load(folder: &Path) -> Result<Option<Self>, TrustError> {
        let path = folder.join(IDENTITY_FILE);
        let Some(text) = files::read_in_own_folder(&path, &EXPECTED)? else { return Ok(None) };
        let wrong = |what: String| TrustError::Content { path: path.clone(), what, hint: HINT };
        let private = PrivatePkcs8KeyDer::from_pem_slice(text.as_bytes())
            .map_err(|error| wrong(format!("contains no private key ({error})")))?;
        Self::of(private).map(Some).map_err(|error| wrong(error.to_string()))
    }

    /// Creates a new identity, without a file.
    pub fn made() -> Result<Self, TrustError> {
        let mut pkcs8 = [0; 48];
        let (prefix, secret) = pkcs8.split_at_mut(PKCS8_PREFIX.len());
        prefix.copy_from_slice(&PKCS8_PREFIX);
        let random = SystemRandom::new().fill(secret);
        random.map_err(|_| TrustError::Unusable("cannot read random bytes".to_owned()))?;
        Self::of(pkcs8.to_vec().into())
    }

    fn of(private: PrivatePkcs8KeyDer<'static>) -> Result<Self, TrustError> {
        let unusable = |error: rcgen::Error| TrustError::Unusable(error.to_string());
        let pair = KeyPair::from_pkcs8_der_and_sign_algo(&private, &PKCS_ED25519);
        let pair = pair.map_err(unusable)?;
        let mut params = CertificateParams::default();
        // For display only.
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, host_name());
        let certificate = params.self_signed(&pair).map_err(unusable)?.der().clone();
        let key = HostKey::of_certificate(&certificate)
            .ok_or_else(|| TrustError::Unusable("the key is not an Ed25519 key".to_owned()))?;
        Ok(Self { key, private, certificate })
    }

    /// Public key of this host.
    pub const fn key(&self) -> HostKey {
        self.key
    }

    /// The certificate, for other programs.
    pub fn certificate_pem(&self) -> String {
        pem("CERTIFICATE", &self.certificate)
    }

    /// The secret key, for other programs.
    pub fn key_pem(&self) -> String {
        pem("PRIVATE KEY", self.private.secret_pkcs8_der())
    }

    /// Writes `taut-cert.pem` and `taut-key.pem`, the latter readable only by its owner.
    pub fn export(&self, folder: &Path) -> Result<(), TrustError> {
        files::make_folder(folder)?;
        let (certificate, key) = (self.certificate_pem(), self.key_pem());
        let path = &folder.join("taut-cert.pem");
        NewFile { path, text: &certificate, mode: 0o644 }.replace()?;
        let path = &folder.join("taut-key.pem");
        NewFile { path, text: &key, mode: 0o600 }.replace()
    }

    pub(super) fn for_tls(&self) -> (CertificateDer<'static>, PrivatePkcs8KeyDer<'static>) {
        (self.certificate.clone(), self.private.clone_key())
    }
}

impl fmt::Debug for HostIdentity {
    /// Without the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostIdentity({})", self.key)
    }
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let mut pem = format!("-----BEGIN {label}-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(PEM_LINE));
        pem.push_str(line);
        pem.push('\n');
        rest = after;
    }
    pem + &format!("-----END {label}-----\n")
}
