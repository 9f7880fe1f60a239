//! Handshakes in memory.

use rustls::client::ResolvesClientCert;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ClientConnection, ServerConnection};

use super::*;
use crate::trust::HostIdentity;
use crate::trust::tests::{OpenedStore as Home, opened as home};

fn friends() -> (Home, Home) {
    let (one, other) = (home(), home());
    one.store.trusted().trust("other", other.store.identity().key()).unwrap();
    other.store.trusted().trust("one", one.store.identity().key()).unwrap();
    (one, other)
}

type Ended = (Result<[u8; SECRET_BYTES], Error>, Result<[u8; SECRET_BYTES], Error>);

fn shaken(client: Arc<ClientConfig>, server: Arc<ServerConfig>) -> Ended {
    let name = ServerName::IpAddress(std::net::IpAddr::from([127, 0, 0, 1]).into());
    let mut client = ClientConnection::new(client, name).unwrap();
    let mut server = ServerConnection::new(server).unwrap();
    let (mut there, mut back) = (Ok(()), Ok(()));
    while client.wants_write() || server.wants_write() {
        let mut wire = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut wire).unwrap();
        }
        there = there.and(read(&mut server, &wire));
        wire.clear();
        while server.wants_write() {
            server.write_tls(&mut wire).unwrap();
        }
        back = back.and(read(&mut client, &wire));
    }
    let secret = |secret: Option<_>| secret.ok_or(Error::HandshakeNotComplete);
    (
        back.and_then(|()| secret(connection_secret(&client))),
        there.and_then(|()| secret(connection_secret(&server))),
    )
}

fn read<Side: rustls::SideData>(
    end: &mut rustls::ConnectionCommon<Side>,
    mut wire: &[u8],
) -> Result<(), Error> {
    while !wire.is_empty() {
        end.read_tls(&mut wire).unwrap();
        end.process_new_packets()?;
    }
    Ok(())
}

#[derive(Debug)]
struct Thief(Arc<CertifiedKey>);

impl Thief {
    fn of(shown: &HostIdentity) -> Self {
        let own: PrivatePkcs8KeyDer<'static> = HostIdentity::made().unwrap().for_tls().1;
        let key = ring::default_provider().key_provider.load_private_key(own.into()).unwrap();
        Self(Arc::new(CertifiedKey::new(vec![shown.for_tls().0], key)))
    }
}

impl ResolvesClientCert for Thief {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

impl ResolvesServerCert for Thief {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
}

#[test]
fn trusted_hosts_share_a_new_secret_per_connection() {
    let (one, other) = friends();
    let shake = || shaken(calling(&one.store, None).unwrap(), answering(&other.store).unwrap());
    let ((here, there), (again, _)) = (shake(), shake());
    assert!(here.is_ok() && here == there, "{here:?} {there:?}");
    assert_ne!(here, again);
}

#[test]
fn certificate_without_its_private_key_is_rejected() {
    let (one, other) = friends();
    let mut client = (*calling(&one.store, None).unwrap()).clone();
    client.client_auth_cert_resolver = Arc::new(Thief::of(one.store.identity()));
    let (_, server) = shaken(Arc::new(client), answering(&other.store).unwrap());
    assert_eq!(server, Err(Error::InvalidCertificate(CertificateError::BadSignature)));

    let mut server = (*answering(&other.store).unwrap()).clone();
    server.cert_resolver = Arc::new(Thief::of(other.store.identity()));
    let (client, _) = shaken(calling(&one.store, None).unwrap(), Arc::new(server));
    assert_eq!(client, Err(Error::InvalidCertificate(CertificateError::BadSignature)));
}

#[test]
fn a_key_of_another_kind_is_no_hosts() {
    let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
    let other = rcgen::CertificateParams::default().self_signed(&pair).unwrap();
    assert_eq!(HostKey::of_certificate(other.der()), None);
    assert_eq!(HostKey::of_certificate(&b"none"[..].into()), None);
    let own = HostIdentity::made().unwrap();
    assert_eq!(HostKey::of_certificate(&own.for_tls().0), Some(own.key()));
}

#[test]
fn the_process_gets_no_provider_of_ours() {
    let (one, other) = friends();
    shaken(calling(&one.store, None).unwrap(), answering(&other.store).unwrap()).0.unwrap();
    assert!(CryptoProvider::get_default().is_none());
}
