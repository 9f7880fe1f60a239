use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustls::AlertDescription::{
    AccessDenied, BadCertificate, CertificateExpired, CertificateRevoked, CertificateUnknown,
    UnknownCA, UnsupportedCertificate,
};
use rustls::{Error, ServerConfig};
use tautline_api::call::{MediaTicket, call_secret, version_of};
use tautline_api::trust::TrustStore;
use tautline_api::trust::tls::{connection_secret, peer_key};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::call_connections::{CallConnections, ConnectedCaller};
use crate::guests::{Closed, Guest, SHOWING};
use crate::news::{ServingEvents, ServingNews, TurnedAway};
use crate::routes::{Caller, ProvenKey};

const HEAD_LIMIT: Duration = Duration::from_secs(5);
const MAX_HEAD: usize = 16 << 10;
/// Maximum time of a connection without a call. Clients may reconnect.
const WHOLE_LIMIT: Duration = Duration::from_secs(60);
/// Time to read a rejection.
const FAREWELL: Duration = Duration::from_millis(500);
/// RFC 8446 §5.1.
const HANDSHAKE: u8 = 22;

#[derive(Clone)]
pub(crate) struct Reception {
    pub(crate) router: Router,
    pub(crate) tls: Option<Arc<ServerConfig>>,
    pub(crate) trust: Option<Arc<TrustStore>>,
    pub(crate) office: Option<CallConnections>,
    pub(crate) ending: watch::Receiver<bool>,
    pub(crate) notify: ServingEvents,
}

impl Reception {
    pub(crate) async fn attend(
        self,
        stream: TcpStream,
        from: SocketAddr,
        (guest, closed): (Guest, Closed),
    ) {
        let _ = stream.set_nodelay(true);
        let mut ending = self.ending.clone();
        let (office, reception) = (self.office.clone(), self.clone());
        let attended = async {
            let call = timeout(WHOLE_LIMIT, self.show(stream, from, guest)).await;
            // No timeout for a call: the event's receiver ends it.
            if let (Ok(Some((stream, caller, guest))), Some(office)) = (call, office) {
                office.attend(stream, caller).await;
                drop(guest);
            }
        };
        tokio::select! {
            // A guest that left is closed as well.
            biased;
            () = attended => {}
            _ = closed => reception.turn_away(from, TurnedAway::TooMany),
            _ = ending.wait_for(|ending| *ending) => {}
        }
    }

    pub(crate) fn turn_away(&self, from: SocketAddr, why: TurnedAway) {
        (self.notify)(&ServingNews::TurnedAway { address: from.ip(), why });
    }

    async fn show(
        self,
        stream: TcpStream,
        from: SocketAddr,
        guest: Guest,
    ) -> Option<(TlsStream<TcpStream>, ConnectedCaller, Guest)> {
        let mut first = [0];
        let Ok(Ok(1)) = timeout(SHOWING, stream.peek(&mut first)).await else { return None };
        if first == [HANDSHAKE] {
            return self.by_tls(stream, from, guest).await;
        }
        if let (true, Some(office)) = (first == MediaTicket::MAGIC[..1], &self.office) {
            office.media(stream, from, guest).await;
            return None;
        }
        if !from.ip().to_canonical().is_loopback() {
            self.turn_away(from, TurnedAway::Plain);
            refuse_plain(stream).await;
            return None;
        }
        self.answer(stream, (from.ip(), None), guest).await;
        None
    }

    async fn by_tls(
        self,
        stream: TcpStream,
        from: SocketAddr,
        guest: Guest,
    ) -> Option<(TlsStream<TcpStream>, ConnectedCaller, Guest)> {
        let config = self.tls.clone()?;
        let accept = TlsAcceptor::from(config).accept(stream).into_fallible();
        let mut stream = match timeout(SHOWING, accept).await {
            Ok(Ok(stream)) => stream,
            Ok(Err((error, stream))) => {
                self.turn_away(from, lacks(&error));
                farewell(stream).await;
                return None;
            }
            Err(_) => {
                self.turn_away(from, TurnedAway::Slow);
                return None;
            }
        };
        let (tcp, connection) = stream.get_ref();
        if !guest.recognize() {
            self.turn_away(from, TurnedAway::TooMany);
            return None;
        }
        if version_of(connection.alpn_protocol()).is_some() {
            let (peer, secret) = peer_key(connection).zip(call_secret(connection))?;
            let local = tcp.local_addr().ok()?;
            let hosts = self.trust.as_ref().and_then(|trust| trust.trusted().hosts().ok());
            let name = hosts.and_then(|hosts| hosts.name(peer).map(str::to_owned));
            let caller = ConnectedCaller { from, local, peer, name, secret };
            return guest.begin().then_some((stream, caller, guest));
        }
        let proven = peer_key(connection).zip(connection_secret(connection));
        if proven.is_none() {
            // Unreachable: clients must show a certificate.
            let _ = stream.shutdown().await;
            return None;
        }
        self.answer(stream, (from.ip(), proven), guest).await;
        None
    }

    async fn answer<S>(
        self,
        stream: S,
        (address, proven): (IpAddr, Option<ProvenKey>),
        guest: Guest,
    ) where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let guest = Arc::new(guest);
        let caller = Caller { address, proven, guest: Arc::clone(&guest) };
        let router = self.router.layer(axum::Extension(caller));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_LIMIT)
            .max_header_size(MAX_HEAD)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
        let _ = pin!(connection).await;
        drop(guest);
    }
}

fn lacks(error: &std::io::Error) -> TurnedAway {
    let error = error.get_ref().and_then(|error| error.downcast_ref::<Error>());
    match error {
        Some(Error::InvalidCertificate(_) | Error::NoCertificatesPresented) => {
            TurnedAway::NotTrusted
        }
        Some(Error::AlertReceived(
            AccessDenied
            | BadCertificate
            | CertificateExpired
            | CertificateRevoked
            | CertificateUnknown
            | UnknownCA
            | UnsupportedCertificate,
        )) => TurnedAway::TrustsNot,
        Some(_) => TurnedAway::NoHandshake,
        // A frozen peer later hangs up without an alert.
        None => TurnedAway::HungUp,
    }
}

async fn refuse_plain(mut stream: TcpStream) {
    let body =
        r#"{"error":"connections from other hosts need TLS with a trusted key; see taut pair"}"#;
    let answer = format!(
        "HTTP/1.1 403 Forbidden\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: \
         close\r\n\r\n{body}",
        body.len()
    );
    if stream.write_all(answer.as_bytes()).await.is_ok() {
        farewell(stream).await;
    }
}

/// Reads the rest: otherwise TCP resets the connection, and the peer loses the last answer.
async fn farewell(mut stream: TcpStream) {
    let _ = stream.shutdown().await;
    let mut unread = [0; 1024];
    let rest = async { while matches!(stream.read(&mut unread).await, Ok(1..)) {} };
    let _ = timeout(FAREWELL, rest).await;
}
