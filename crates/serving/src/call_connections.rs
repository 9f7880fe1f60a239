//! Control connections of calls, as events for an ordinary thread.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::Duration;

use tautline_api::call::{LineBuffer, MediaTicket, read, written};
use tautline_api::seal::SECRET_BYTES;
use tautline_api::trust::HostKey;
use tautline_proto::call::answering::ConnectionId;
use tautline_proto::call::message::CallMessage;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::guests::{Guest, SHOWING};

const WAITING: usize = 32;
const STUCK: Duration = Duration::from_secs(5);

pub enum ConnectionEvent {
    Arrived(Box<CalledConnection>),
    Said(ConnectionId, Box<CallMessage>),
    /// A media connection, after its ticket.
    Media {
        ticket: MediaTicket,
        stream: std::net::TcpStream,
        from: SocketAddr,
        /// Place among unidentified connections.
        place: MediaPlace,
    },
    /// Closed, with the reason if the peer is at fault.
    Gone(ConnectionId, Option<String>),
}

/// A scarce place, released on drop.
pub struct MediaPlace(#[expect(dead_code, reason = "held")] Guest);

pub struct CalledConnection {
    pub id: ConnectionId,
    pub from: SocketAddr,
    pub local: SocketAddr,
    pub peer: HostKey,
    /// `None` for this host's own key.
    pub name: Option<String>,
    pub secret: [u8; SECRET_BYTES],
    pub event_sender: ConnectionEventSender,
}

/// Dropping it closes the connection after the queued messages.
#[derive(Debug)]
pub struct ConnectionEventSender(mpsc::Sender<CallMessage>);

impl ConnectionEventSender {
    /// `false` if the queue is full or the connection is closed.
    pub fn emit(&self, message: CallMessage) -> bool {
        self.0.try_send(message).is_ok()
    }
}

#[derive(Clone)]
pub(crate) struct CallConnections {
    events: SyncSender<ConnectionEvent>,
    numbers: Arc<AtomicU64>,
}

pub(crate) struct ConnectedCaller {
    pub(crate) from: SocketAddr,
    pub(crate) local: SocketAddr,
    pub(crate) peer: HostKey,
    pub(crate) name: Option<String>,
    pub(crate) secret: [u8; SECRET_BYTES],
}

impl CallConnections {
    pub(crate) fn new(events: SyncSender<ConnectionEvent>) -> Self {
        Self { events, numbers: Arc::default() }
    }

    /// `false` if the queue is full or has no reader.
    fn notify(&self, event: ConnectionEvent) -> bool {
        match self.events.try_send(event) {
            Ok(()) => true,
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => false,
        }
    }

    /// Retries: the reader must not wait for a dead connection.
    async fn tell_gone(&self, id: ConnectionId, why: Option<String>) {
        let mut event = ConnectionEvent::Gone(id, why);
        while let Err(TrySendError::Full(unsent)) = self.events.try_send(event) {
            event = unsent;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub(crate) async fn media(&self, mut stream: TcpStream, from: SocketAddr, guest: Guest) {
        let mut shown = [0; MediaTicket::SHOWN_BYTES];
        let read = timeout(SHOWING, stream.read_exact(&mut shown)).await;
        let ticket = matches!(read, Ok(Ok(_))).then(|| MediaTicket::read(&shown)).flatten();
        let (Some(ticket), Ok(stream)) = (ticket, stream.into_std()) else { return };
        guest.hold();
        self.notify(ConnectionEvent::Media { ticket, stream, from, place: MediaPlace(guest) });
    }

    pub(crate) async fn attend<S>(self, stream: S, caller: ConnectedCaller)
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let id = ConnectionId(self.numbers.fetch_add(1, Ordering::Relaxed));
        let (event_sender, reported) = mpsc::channel(WAITING);
        let ConnectedCaller { from, local, peer, name, secret } = caller;
        let event_sender = ConnectionEventSender(event_sender);
        let arrived = CalledConnection { id, from, local, peer, name, secret, event_sender };
        if self.notify(ConnectionEvent::Arrived(Box::new(arrived))) {
            let why = self.carry(stream, id, reported).await;
            self.tell_gone(id, why).await;
        }
    }

    async fn carry<S>(
        &self,
        stream: S,
        id: ConnectionId,
        mut reported: mpsc::Receiver<CallMessage>,
    ) -> Option<String>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let (mut incoming, mut outgoing) = tokio::io::split(stream);
        let handle = async {
            let mut arrived = LineBuffer::default();
            let mut bytes = [0; 1024];
            loop {
                let count = match incoming.read(&mut bytes).await {
                    Ok(0) | Err(_) => return None,
                    Ok(count) => count,
                };
                let mut fault = None;
                let taken = arrived.take(&bytes[..count], |line| {
                    match read(line) {
                        Ok(message) if fault.is_none() => {
                            if !self.notify(ConnectionEvent::Said(id, Box::new(message))) {
                                fault = Some("too many requests to answer".to_owned());
                            }
                        }
                        Ok(_) => {}
                        Err(invalid) => fault = Some(invalid.to_string()),
                    };
                });
                if let Err(too_long) = taken {
                    return Some(too_long.to_string());
                }
                if fault.is_some() {
                    return fault;
                }
            }
        };
        let emit = async {
            while let Some(message) = reported.recv().await {
                let line = written(&message);
                match timeout(STUCK, outgoing.write_all(&line)).await {
                    Ok(Ok(())) => {}
                    // The caller's last message, such as a goodbye, may be unread.
                    Ok(Err(_)) => while reported.recv().await.is_some() {},
                    Err(_) => return,
                }
            }
            let _ = timeout(STUCK, outgoing.shutdown()).await;
        };
        tokio::select! {
            why = handle => why,
            () = emit => None,
        }
    }
}
