//! TLS 1.3 between hosts that know each other's keys.
//!
//! Without resumption, each connection is judged by the current list. The crypto provider is never
//! installed for the process, which may be a foreign host.

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

/// RFC 7301; ends with the version.
pub(super) const PAIRING_PROTOCOL: &[u8] = b"tautline-pairing/1";

/// Accepts any trusted host, or only this name.
pub fn calling(
    store: &Arc<TrustStore>,
    name: Option<&str>,
) -> Result<Arc<ClientConfig>, TrustError> {
    client(store, Accepted::Trusted(name.map(str::to_owned))).map(Arc::new)
}

/// Server configuration: accepts trusted hosts.
pub fn answering(store: &Arc<TrustStore>) -> Result<Arc<ServerConfig>, TrustError> {
    server(store, Accepted::Trusted(None)).map(Arc::new)
}

pub(super) fn pairing_client(store: &Arc<TrustStore>) -> Result<Arc<ClientConfig>, TrustError> {
    let mut config = client(store, Accepted::AnyKey)?;
    config.alpn_protocols = vec![PAIRING_PROTOCOL.to_vec()];
    Ok(Arc::new(config))
}

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
    // The host name stays private.
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

/// `None` before the handshake is complete.
pub fn connection_secret<Side>(
    connection: &rustls::ConnectionCommon<Side>,
) -> Option<[u8; SECRET_BYTES]> {
    connection.export_keying_material([0; SECRET_BYTES], EXPORTER_LABEL, None).ok()
}

/// The peer's authenticated key.
pub fn peer_key(connection: &rustls::CommonState) -> Option<HostKey> {
    HostKey::of_certificate(connection.peer_certificates()?.first()?)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HandshakeFault {
    Untrusted,
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

pub(crate) fn of_tls(error: &std::io::Error) -> Option<&Error> {
    error.get_ref()?.downcast_ref()
}

#[derive(Debug)]
enum Accepted {
    /// Keys in the list: under this name, or any.
    Trusted(Option<String>),
    /// Users compare a code afterwards.
    AnyKey,
}

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

    /// Trusted, or with `own`, this host's own.
    fn judge(&self, certificate: &CertificateDer<'_>, own: bool) -> Result<(), Error> {
        let unknown = Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure);
        let key = HostKey::of_certificate(certificate)
            .ok_or(Error::InvalidCertificate(CertificateError::BadEncoding))?;
        let Accepted::Trusted(name) = &self.accepted else { return Ok(()) };
        if own && name.is_none() && key == self.store.identity().key() {
            return Ok(());
        }
        // An unreadable list trusts no host.
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

fn schemes() -> Vec<SignatureScheme> {
    vec![SignatureScheme::ED25519]
}

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
        // At other addresses, an own key could be this host's handshake, reflected by an attacker.
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
