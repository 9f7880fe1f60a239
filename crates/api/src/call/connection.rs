//! The caller's end of a control connection.

use core::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::ClientConnection;
use rustls::pki_types::ServerName;
use tautline_proto::call::message::CallMessage;
use thiserror::Error;

use super::{
    CallAddress, DialError, InvalidCallMessage, call_secret, protocols, read, version_of, written,
};
use crate::client::wire::{TimedStream, shake_hands};
use crate::seal::SECRET_BYTES;
use crate::trust::tls::{calling, peer_key};
use crate::trust::{HostKey, TrustStore};

const CONNECT_LIMIT: Duration = Duration::from_secs(2);

/// An open control connection.
pub struct CallConnection {
    tls: ClientConnection,
    stream: TcpStream,
    peer: SocketAddr,
    version: u32,
    key: HostKey,
    secret: [u8; SECRET_BYTES],
    arrived: LineBuffer,
    /// Nothing can be sent any more.
    broken: Option<io::Error>,
    whom: CallAddress,
    trust: Arc<TrustStore>,
}

/// Why a connection ended.
#[derive(Debug, Error)]
pub enum ConnectionEnd {
    /// The peer closed it.
    #[error("the other end closed the control connection")]
    Closed,
    /// A network or system error.
    #[error("the control connection is lost: {0}")]
    Lost(io::Error),
    /// Rejected after this end's handshake was complete.
    #[error(transparent)]
    Refused(DialError),
    /// A received line is too long.
    #[error(transparent)]
    TooLong(#[from] LineTooLong),
    /// A received line is not a valid message.
    #[error(transparent)]
    InvalidMessage(#[from] InvalidCallMessage),
}

impl fmt::Debug for CallConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CallConnection({})", self.peer)
    }
}

impl CallConnection {
    /// Connects and completes the handshake within `limit`.
    pub fn dial(
        whom: &CallAddress,
        trust: &Arc<TrustStore>,
        limit: Duration,
    ) -> Result<Self, DialError> {
        let until = Instant::now() + limit;
        let config = calling(trust, whom.0.name.as_deref())?;
        let mut config = Arc::unwrap_or_clone(config);
        config.alpn_protocols = protocols();
        let stream = connect(whom, trust, limit)?;
        let reported = |error: io::Error| DialError::of_io(whom, limit, &error, trust);
        stream.set_nodelay(true).map_err(reported)?;
        let peer = stream.peer_addr().map_err(reported)?;
        let tls = ClientConnection::new(Arc::new(config), ServerName::IpAddress(peer.ip().into()));
        let mut tls = tls.map_err(|error| DialError::of_tls(whom.clone(), &error, trust))?;
        let mut timed = TimedStream { stream, until };
        shake_hands(&mut tls, &mut timed).map_err(reported)?;
        let TimedStream { stream, .. } = timed;
        let version = version_of(tls.alpn_protocol());
        let version = version.ok_or_else(|| DialError::NoCalls(whom.clone()))?;
        let (key, secret) = peer_key(&tls).zip(call_secret(&tls)).ok_or_else(|| {
            DialError::Tls { whom: whom.clone(), why: "the handshake gave no secret".to_owned() }
        })?;
        stream.set_nonblocking(true).map_err(reported)?;
        let (arrived, whom, trust) = (LineBuffer::default(), whom.clone(), Arc::clone(trust));
        let broken = None;
        Ok(Self { tls, stream, peer, version, key, secret, arrived, broken, whom, trust })
    }

    /// The peer's address.
    pub const fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Newest message version that both ends support.
    pub const fn version(&self) -> u32 {
        self.version
    }

    /// The peer's authenticated key.
    pub const fn key(&self) -> HostKey {
        self.key
    }

    /// Secret shared by both ends, for [`super::CallKeys`].
    pub const fn secret(&self) -> &[u8; SECRET_BYTES] {
        &self.secret
    }

    /// Sends a message; any unsent rest leaves with the next call. [`Self::handle`] reports an error,
    /// after the messages that the peer sent before: the last one can be its reason.
    pub fn emit(&mut self, message: &CallMessage) {
        match self.tls.writer().write_all(&written(message)) {
            Ok(()) => self.flush(),
            Err(error) => self.broken = Some(error),
        }
    }

    /// Delivers received messages; also sends unsent data.
    pub fn handle(&mut self, notify: &mut dyn FnMut(CallMessage)) -> Result<(), ConnectionEnd> {
        self.flush();
        loop {
            match self.tls.read_tls(&mut self.stream) {
                Ok(0) => return Err(ConnectionEnd::Closed),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return self.broken.take().map_or(Ok(()), |why| Err(ConnectionEnd::Lost(why)));
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(ConnectionEnd::Lost(error)),
            }
            if let Err(error) = self.tls.process_new_packets() {
                let refused = DialError::of_tls(self.whom.clone(), &error, &self.trust);
                return Err(ConnectionEnd::Refused(refused));
            }
            self.read_lines(notify)?;
            self.flush();
        }
    }

    fn read_lines(&mut self, notify: &mut dyn FnMut(CallMessage)) -> Result<(), ConnectionEnd> {
        let mut bytes = [0; 1024];
        loop {
            let count = match self.tls.reader().read(&mut bytes) {
                Ok(0) => return Err(ConnectionEnd::Closed),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(ConnectionEnd::Lost(error)),
            };
            let mut valid = Ok(());
            self.arrived.take(&bytes[..count], |line| match read(line) {
                Ok(message) if valid.is_ok() => notify(message),
                Ok(_) => {}
                Err(error) => valid = Err(error),
            })?;
            valid?;
        }
    }

    fn flush(&mut self) {
        while self.broken.is_none() && self.tls.wants_write() {
            match self.tls.write_tls(&mut self.stream) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => self.broken = Some(error),
            }
        }
    }

    /// Sends the last messages without blocking.
    pub fn close(mut self) {
        self.tls.send_close_notify();
        self.flush();
    }
}

impl AsFd for CallConnection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

fn connect(
    whom: &CallAddress,
    trust: &TrustStore,
    limit: Duration,
) -> Result<TcpStream, DialError> {
    let found = (whom.0.host.as_str(), whom.0.port).to_socket_addrs();
    let addresses: Vec<_> = found.map_err(|_| DialError::no_such_host(whom, trust))?.collect();
    let each = limit.min(CONNECT_LIMIT);
    let mut failed = None;
    for address in addresses {
        match TcpStream::connect_timeout(&address, each) {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = Some(error),
        }
    }
    Err(match failed {
        Some(error) if error.kind() == ErrorKind::TimedOut => {
            DialError::TimedOut { whom: whom.clone(), limit: each }
        }
        Some(error) => DialError::Unreachable { whom: whom.clone(), why: error.to_string() },
        None => DialError::no_such_host(whom, trust),
    })
}

/// Maximum bytes per line; an offer has about 1 kB.
pub const MAX_LINE: usize = 8 << 10;

/// Buffers received data until a line is complete.
#[derive(Debug, Default)]
pub struct LineBuffer(Vec<u8>);

/// A line longer than any message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "a line of more than {MAX_LINE} bytes is not a call message\nhint: update taut on both machines"
)]
pub struct LineTooLong;

impl LineBuffer {
    /// Passes on each complete line.
    pub fn take(
        &mut self,
        mut bytes: &[u8],
        mut notify: impl FnMut(&[u8]),
    ) -> Result<(), LineTooLong> {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            let (line, after) = (&bytes[..end], &bytes[end + 1..]);
            self.fits(line.len())?;
            match self.0.is_empty() {
                true => notify(line),
                false => {
                    self.0.extend_from_slice(line);
                    notify(&self.0);
                    self.0.clear();
                }
            }
            bytes = after;
        }
        self.fits(bytes.len())?;
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    const fn fits(&self, more: usize) -> Result<(), LineTooLong> {
        if self.0.len() + more > MAX_LINE { Err(LineTooLong) } else { Ok(()) }
    }
}
