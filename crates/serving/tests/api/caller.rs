//! A call server and callers on real connections.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustls::ClientConnection;
use rustls::pki_types::ServerName;
use tautline_api::call::{CallConnection, DialError, protocols, read};
use tautline_api::trust::tls::calling;
use tautline_io::clock::now;
use tautline_io::control::wait;
use tautline_proto::call::CallId;
use tautline_proto::call::answering::{Answering, AnsweringStep, ConnectionId};
use tautline_proto::call::message::CallMessage;
use tautline_proto::call::terms::CallOffer;
use tautline_proto::time::Span;
use tautline_serving::{ApiServer, CalledConnection, ConnectionEvent, Listening, serve_calls};

use crate::trusted::{Host, friends};

pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);
const DIAL_LIMIT: Duration = Duration::from_secs(5);
pub(crate) const CALL: &str = r#"{"call":{"version":2,"offer":{"there":{"rates":[48000],"channels":[2],"codings":["l24"],"ptimes_ns":[1000000,20000000]},"back":{"rates":[48000],"channels":[2],"codings":["l24"],"ptimes_ns":[1000000,20000000]},"paths":["udp"]}}}"#;

fn offer() -> CallOffer {
    let CallMessage::Call { offer, .. } = message() else { panic!("{CALL}") };
    offer
}

fn message() -> CallMessage {
    read(CALL.as_bytes()).unwrap()
}

pub(crate) struct CallServer {
    server: Option<ApiServer>,
    pub(crate) address: SocketAddr,
    pub(crate) friend: Host,
    called: Option<JoinHandle<()>>,
    _host: Host,
}

impl CallServer {
    pub(crate) fn at(address: &str, calls: u16) -> Self {
        let (host, friend) = friends();
        let trust = Some(Arc::clone(&host.store));
        let listening = Listening { address: address.parse().unwrap(), trust };
        let (events, happened) = sync_channel(4096);
        let server = serve_calls(&listening, events, |_| ()).unwrap();
        let called = std::thread::spawn(move || answer(&happened, calls));
        let address = server.address();
        Self { server: Some(server), address, friend, called: Some(called), _host: host }
    }

    pub(crate) fn dial(&self, address: SocketAddr) -> Result<CallConnection, DialError> {
        CallConnection::dial(&address.to_string().parse().unwrap(), &self.friend.store, DIAL_LIMIT)
    }

    pub(crate) fn call(&self) -> CallerConnection {
        self.call_at(self.address)
    }

    pub(crate) fn call_at(&self, address: SocketAddr) -> CallerConnection {
        let until = Instant::now() + TIMEOUT;
        loop {
            match self.dial(address) {
                Ok(line) => return CallerConnection::begin(line),
                Err(error) => assert!(Instant::now() < until, "no caller gets in: {error}"),
            }
        }
    }

    pub(crate) fn shakes_hands(&self) -> (ClientConnection, TcpStream) {
        self.shakes_hands_by(protocols())
    }

    pub(crate) fn shakes_hands_by(&self, speaks: Vec<Vec<u8>>) -> (ClientConnection, TcpStream) {
        let mut config = Arc::unwrap_or_clone(calling(&self.friend.store, None).unwrap());
        config.alpn_protocols = speaks;
        let name = ServerName::IpAddress(self.address.ip().into());
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        (ClientConnection::new(Arc::new(config), name).unwrap(), stream)
    }
}

impl Drop for CallServer {
    fn drop(&mut self) {
        drop(self.server.take());
        let _ = self.called.take().map(JoinHandle::join);
    }
}

fn answer(happened: &Receiver<ConnectionEvent>, calls: u16) {
    let mut answering = Answering::new(offer(), (1..=calls).collect());
    let mut lines: BTreeMap<ConnectionId, CalledConnection> = BTreeMap::new();
    let mut numbers = 0_u128..;
    loop {
        match happened.recv_timeout(Duration::from_millis(20)) {
            Ok(ConnectionEvent::Arrived(line)) => {
                answering.arrived(line.id, line.peer.bytes(), now());
                lines.insert(line.id, *line);
            }
            Ok(ConnectionEvent::Said(line, message)) => {
                let fresh = CallId(numbers.next().unwrap().to_ne_bytes());
                answering.handle_message(line, *message, fresh, now());
            }
            Ok(ConnectionEvent::Gone(line, _)) => {
                answering.gone(line, now());
                lines.remove(&line);
            }
            Ok(ConnectionEvent::Media { .. }) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        answering.poll(now());
        while let Some(step) = answering.step() {
            match step {
                AnsweringStep::Say(line, message) => {
                    lines.get(&line).map(|line| line.event_sender.emit(message));
                }
                AnsweringStep::Close(line) => drop(lines.remove(&line)),
                _ => {}
            }
        }
    }
}

pub(crate) struct CallerConnection(CallConnection);

impl CallerConnection {
    fn begin(line: CallConnection) -> Self {
        let mut call = Self(line);
        let answer = call.requests(&message());
        assert!(matches!(answer, CallMessage::Accepted { .. }), "{answer:?}");
        call
    }

    pub(crate) fn is_answered(&mut self) {
        let answer = self.requests(&CallMessage::Ping);
        assert!(matches!(answer, CallMessage::Pong), "{answer:?}");
    }

    fn requests(&mut self, message: &CallMessage) -> CallMessage {
        self.0.emit(message);
        let until = now() + Span::from_nanos(TIMEOUT.as_nanos() as i64);
        let mut answer = None;
        while answer.is_none() {
            assert!(wait(&[&self.0], until), "nothing is answered to {message:?}");
            let received = self.0.handle(&mut |said| answer = Some(said));
            assert!(answer.is_some() || received.is_ok(), "{message:?}: {received:?}");
        }
        answer.unwrap()
    }
}

pub(crate) fn answered(line: CallConnection) -> CallMessage {
    CallerConnection(line).requests(&message())
}

/// Returns the unsent second flight.
pub(crate) fn second_flight(tls: &mut ClientConnection, stream: &mut TcpStream) -> Vec<u8> {
    let first = first_flight(tls);
    stream.write_all(&first).unwrap();
    while tls.is_handshaking() {
        assert!(tls.read_tls(stream).unwrap() > 0, "it was closed after a whole first flight");
        tls.process_new_packets().unwrap();
    }
    first_flight(tls)
}

pub(crate) fn first_flight(tls: &mut ClientConnection) -> Vec<u8> {
    let mut flight = Vec::new();
    while tls.wants_write() {
        tls.write_tls(&mut flight).unwrap();
    }
    flight
}
