//! TLS 1.3 between hosts that know each other's keys.
//!
//! Both ends show a certificate that they signed themselves. All that is looked at is its key, which must
//! be trusted, and that the other end proved to have it, by rustls's own function. Nothing is resumed, so
//! each connection is judged by the list as it then stands. The provider is handed over and never made
//! that of the process, which may be somebody else's.

use std::net::IpAddr;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::NoServerSessionStorage;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error,
    PeerMisbehaved, ServerConfig, SignatureScheme,
};

use super::{HostKey, TrustError, TrustStore};
use crate::seal::{EXPORTER_LABEL, SECRET_BYTES};

/// The name of pairing in the TLS handshake (RFC 7301). It ends with the version.
pub(super) const PAIRING_PROTOCOL: &[u8] = b"tautline-pairing/1";

/// How this host calls others: any that is trusted, or the one of this name alone.
pub fn calling(
    store: &Arc<TrustStore>,
    name: Option<&str>,
) -> Result<Arc<ClientConfig>, TrustError> {
    client(store, Accepted::Trusted(name.map(str::to_owned))).map(Arc::new)
}

/// How this host answers those that are trusted.
pub fn answering(store: &Arc<TrustStore>) -> Result<Arc<ServerConfig>, TrustError> {
    server(store, Accepted::Trusted(None)).map(Arc::new)
}

/// How this host calls one that it is to be paired with: whatever its key is.
pub(super) fn pairing_client(store: &Arc<TrustStore>) -> Result<Arc<ClientConfig>, TrustError> {
    let mut config = client(store, Accepted::AnyKey)?;
    config.alpn_protocols = vec![PAIRING_PROTOCOL.to_vec()];
    Ok(Arc::new(config))
}

/// How this host answers one that it is to be paired with.
pub(super) fn pairing_server(store: &Arc<TrustStore>) -> Result<Arc<ServerConfig>, TrustError> {
    let mut config = server(store, Accepted::AnyKey)?;
    config.alpn_protocols = vec![PAIRING_PROTOCOL.to_vec()];
    Ok(Arc::new(config))
}

fn client(store: &Arc<TrustStore>, accepted: Accepted) -> Result<ClientConfig, TrustError> {
    let (certificate, key) = store.identity().for_tls();
    let provider = Arc::new(ring::default_provider());
    let verifier = PinnedPeer::new(store, accepted, &provider);
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(unusable)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_client_auth_cert(vec![certificate], key.into())
        .map_err(unusable)?;
    config.resumption = Resumption::disabled();
    // Whom one calls is nobody else's business, and the answer is judged by its key.
    config.enable_sni = false;
    Ok(config)
}

fn server(store: &Arc<TrustStore>, accepted: Accepted) -> Result<ServerConfig, TrustError> {
    let (certificate, key) = store.identity().for_tls();
    let provider = Arc::new(ring::default_provider());
    let verifier = PinnedPeer::new(store, accepted, &provider);
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(unusable)?
        .with_client_cert_verifier(Arc::new(verifier))
        .with_single_cert(vec![certificate], key.into())
        .map_err(unusable)?;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

fn unusable(error: Error) -> TrustError {
    TrustError::Unusable(error.to_string())
}

/// What both ends of a connection know and nobody else does; `None` before the handshake is over.
pub fn connection_secret<Side>(
    connection: &rustls::ConnectionCommon<Side>,
) -> Option<[u8; SECRET_BYTES]> {
    connection.export_keying_material([0; SECRET_BYTES], EXPORTER_LABEL, None).ok()
}

/// The key that the other end proved to have.
pub fn peer_key(connection: &rustls::CommonState) -> Option<HostKey> {
    HostKey::of_certificate(connection.peer_certificates()?.first()?)
}

/// What a handshake failed for, to the end that connects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HandshakeFault {
    /// The other end's key is not trusted here.
    Untrusted,
    /// This host's is not there.
    NotTrustedThere,
    Other,
}

impl HandshakeFault {
    pub(crate) const fn of(error: &Error) -> Self {
        use rustls::AlertDescription::{
            AccessDenied, BadCertificate, CertificateRequired, CertificateUnknown,
        };
        match error {
            Error::InvalidCertificate(_) => Self::Untrusted,
            Error::AlertReceived(
                AccessDenied | BadCertificate | CertificateRequired | CertificateUnknown,
            ) => Self::NotTrustedThere,
            _ => Self::Other,
        }
    }
}

/// The error of TLS that an error of a connection is, if it is one.
pub(crate) fn of_tls(error: &std::io::Error) -> Option<&Error> {
    error.get_ref()?.downcast_ref()
}

/// Keys that a handshake accepts.
#[derive(Debug)]
enum Accepted {
    /// Those in the list: by this name, or else by any.
    Trusted(Option<String>),
    /// All: users compare a code afterwards.
    AnyKey,
}

/// Takes a peer by its key.
#[derive(Debug)]
struct PinnedPeer {
    store: Arc<TrustStore>,
    accepted: Accepted,
    provider: Arc<CryptoProvider>,
}

impl PinnedPeer {
    fn new(store: &Arc<TrustStore>, accepted: Accepted, provider: &Arc<CryptoProvider>) -> Self {
        let (store, provider) = (Arc::clone(store), Arc::clone(provider));
        Self { store, accepted, provider }
    }

    /// Whether its key is trusted; `own`: or this host's own, as who has that is this host.
    fn judge(&self, certificate: &CertificateDer<'_>, own: bool) -> Result<(), Error> {
        let unknown = Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure);
        let key = HostKey::of_certificate(certificate)
            .ok_or(Error::InvalidCertificate(CertificateError::BadEncoding))?;
        let Accepted::Trusted(name) = &self.accepted else { return Ok(()) };
        if own && name.is_none() && key == self.store.identity().key() {
            return Ok(());
        }
        // A list that cannot be read names nobody.
        let Ok(hosts) = self.store.trusted().hosts() else { return Err(unknown) };
        if hosts.trusts(key, name.as_deref()) { Ok(()) } else { Err(unknown) }
    }

    fn proves(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }
}

/// The only keys there are.
fn schemes() -> Vec<SignatureScheme> {
    vec![SignatureScheme::ED25519]
}

/// Older versions are not spoken.
fn never_asked() -> Error {
    Error::PeerMisbehaved(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme)
}

impl ServerCertVerifier for PinnedPeer {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // Elsewhere it would be this host's own handshake, sent back by somebody between.
        let own = matches!(server_name, ServerName::IpAddress(ip) if IpAddr::from(*ip).to_canonical().is_loopback());
        self.judge(end_entity, own).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(never_asked())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.proves(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        schemes()
    }
}

impl ClientCertVerifier for PinnedPeer {
    /// A list of authorities; there are none.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.judge(end_entity, true).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(never_asked())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.proves(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        schemes()
    }
}

#[cfg(test)]
mod tests;
