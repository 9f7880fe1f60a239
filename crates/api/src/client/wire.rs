//! TCP, with TLS for other hosts. HTTP clients do not expose the TLS session's secret.

use core::fmt;
use std::io;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use ureq::Error as HttpError;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};

use super::address::WorkerAddress;
use super::error::AskError;
use crate::seal::SECRET_BYTES;
use crate::trust::tls::{HandshakeFault, calling, connection_secret};
use crate::trust::{HostKey, TrustStore, host_name, tls};

#[derive(Clone)]
pub(super) struct Meeting {
    pub(super) peer: SocketAddr,
    pub(super) secret: Option<[u8; SECRET_BYTES]>,
}

impl fmt::Debug for Meeting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Meeting({}, by TLS: {})", self.peer, self.secret.is_some())
    }
}

#[derive(Debug, Default)]
enum MeetingOutcome {
    #[default]
    Nobody,
    Somebody(Meeting),
    /// The reason, if HTTP's errors cannot express it.
    Failed(Option<AskError>),
}

#[derive(Debug, Clone)]
pub(super) struct WorkerConnector {
    address: WorkerAddress,
    trust: Option<Arc<TrustStore>>,
    by_tls: bool,
    limit: Duration,
    met: Arc<Mutex<MeetingOutcome>>,
}

impl WorkerConnector {
    pub(super) fn new(
        address: WorkerAddress,
        trust: Option<Arc<TrustStore>>,
        by_tls: bool,
        limit: Duration,
    ) -> Self {
        Self { address, trust, by_tls, limit, met: Arc::default() }
    }

    pub(super) fn met(&self) -> Option<Meeting> {
        match &*self.met.lock().unwrap_or_else(PoisonError::into_inner) {
            MeetingOutcome::Somebody(meeting) => Some(meeting.clone()),
            MeetingOutcome::Nobody | MeetingOutcome::Failed(_) => None,
        }
    }

    pub(super) fn failure(&self) -> Option<AskError> {
        match &mut *self.met.lock().unwrap_or_else(PoisonError::into_inner) {
            MeetingOutcome::Failed(why) => why.take(),
            MeetingOutcome::Nobody | MeetingOutcome::Somebody(_) => None,
        }
    }

    pub(super) fn was_asked(&self) -> bool {
        !matches!(&*self.met.lock().unwrap_or_else(PoisonError::into_inner), MeetingOutcome::Nobody)
    }

    pub(super) fn own_key(&self) -> Option<HostKey> {
        self.trust.as_ref().map(|trust| trust.identity().key())
    }

    fn remember(&self, met: MeetingOutcome) {
        *self.met.lock().unwrap_or_else(PoisonError::into_inner) = met;
    }

    /// Each address gets an equal share of the timeout.
    fn dial(&self, addresses: &[SocketAddr]) -> io::Result<TcpStream> {
        let mut failed = io::Error::from(io::ErrorKind::NotFound);
        let each = self.limit / u32::try_from(addresses.len().max(1)).unwrap_or(u32::MAX);
        for address in addresses {
            match TcpStream::connect_timeout(address, each.max(Duration::from_millis(1))) {
                Ok(stream) => return Ok(stream),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    fn line(&self, stream: TcpStream) -> Result<(WorkerLine, Meeting), HttpError> {
        stream.set_nodelay(true)?;
        let peer = stream.peer_addr()?;
        let mut timed = TimedStream { stream, until: Instant::now() + self.limit };
        // DNS may resolve HOST to any address. So with NAME=, only "localhost" and literal loopback
        // addresses skip TLS.
        let is_here = peer.ip().to_canonical().is_loopback()
            && (self.address.name.is_none() || self.address.is_surely_here());
        if is_here && !self.by_tls {
            return Ok((WorkerLine::Plain(timed), Meeting { peer, secret: None }));
        }
        let refuse = |why| {
            self.remember(MeetingOutcome::Failed(Some(why)));
            HttpError::ConnectionFailed
        };
        let worker = || self.address.clone();
        let Some(trust) = &self.trust else {
            return Err(refuse(AskError::NoTrust(worker())));
        };
        let config = calling(trust, self.address.name.as_deref());
        let config = config.map_err(|error| refuse(error.into()))?;
        let name = ServerName::IpAddress(peer.ip().into());
        let connection = ClientConnection::new(config, name);
        let mut connection = connection.map_err(io::Error::other)?;
        shake_hands(&mut connection, &mut timed)?;
        let secret = connection_secret(&connection);
        let line = WorkerLine::Tls(Box::new(StreamOwned::new(connection, timed)));
        Ok((line, Meeting { peer, secret }))
    }
}

impl Connector for WorkerConnector {
    type Out = WorkerTransport;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        _chained: Option<()>,
    ) -> Result<Option<WorkerTransport>, HttpError> {
        self.remember(MeetingOutcome::Failed(None));
        let (line, meeting) = self.line(self.dial(&details.addrs)?)?;
        self.remember(MeetingOutcome::Somebody(meeting));
        let config = details.config;
        let buffers = LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size());
        Ok(Some(WorkerTransport { line, buffers }))
    }
}

/// Completes the handshake. On failure, it also sends the rest of the alert, of which rustls may
/// send only a part.
pub(crate) fn shake_hands(
    connection: &mut ClientConnection,
    stream: &mut TimedStream,
) -> io::Result<()> {
    let shaken = connection.complete_io(stream);
    if shaken.is_err() {
        while connection.wants_write() && connection.write_tls(stream).is_ok_and(|sent| sent > 0) {}
    }
    shaken.map(drop)
}

pub(crate) struct TimedStream {
    pub(crate) stream: TcpStream,
    pub(crate) until: Instant,
}

impl TimedStream {
    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }
}

impl Read for TimedStream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(bytes)
    }
}

impl Write for TimedStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

enum WorkerLine {
    Plain(TimedStream),
    Tls(Box<StreamOwned<ClientConnection, TimedStream>>),
}

impl WorkerLine {
    fn within(&mut self, limit: Duration) -> &mut Self {
        let until = Instant::now().checked_add(limit);
        let timed = match self {
            Self::Plain(timed) => timed,
            Self::Tls(tls) => &mut tls.sock,
        };
        timed.until = until.unwrap_or(timed.until);
        self
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(line) => line.write_all(bytes),
            Self::Tls(line) => line.write_all(bytes).and_then(|()| line.flush()),
        }
    }

    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(line) => line.read(bytes),
            Self::Tls(line) => line.read(bytes),
        }
    }
}

pub(super) struct WorkerTransport {
    line: WorkerLine,
    buffers: LazyBuffers,
}

impl fmt::Debug for WorkerTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WorkerTransport")
    }
}

fn in_time(error: io::Error, timeout: &NextTimeout) -> HttpError {
    match error.kind() {
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => HttpError::Timeout(timeout.reason),
        _ => error.into(),
    }
}

impl Transport for WorkerTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), HttpError> {
        let output = &self.buffers.output()[..amount];
        self.line.within(*timeout.after).write(output).map_err(|error| in_time(error, &timeout))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, HttpError> {
        let room = self.buffers.input_append_buf();
        let read = self.line.within(*timeout.after).read(room);
        let amount = read.map_err(|error| in_time(error, &timeout))?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        false
    }

    fn is_tls(&self) -> bool {
        matches!(self.line, WorkerLine::Tls(_))
    }
}

pub(super) fn reported(
    worker: &WorkerAddress,
    waited: Duration,
    error: HttpError,
    connector: &WorkerConnector,
) -> AskError {
    let worker = worker.clone();
    if let Some(known) = connector.failure() {
        return known;
    }
    match error {
        HttpError::Timeout(_) => AskError::TimedOut { worker, waited },
        HttpError::HostNotFound => AskError::NoSuchHost(worker),
        HttpError::Io(error) => of_io(worker, waited, &error, connector),
        HttpError::BodyExceedsLimit(maximum) => {
            let what = format!("its answer has more than {maximum} bytes");
            AskError::InvalidAnswer { worker, what, version: crate::v1::VERSION }
        }
        other => {
            AskError::InvalidAnswer { worker, what: other.to_string(), version: crate::v1::VERSION }
        }
    }
}

fn of_io(
    worker: WorkerAddress,
    waited: Duration,
    error: &std::io::Error,
    connector: &WorkerConnector,
) -> AskError {
    match (tls::of_tls(error), error.kind()) {
        (Some(error), _) => of_tls(worker, error, connector),
        // Nothing was dialled: the name has no address.
        (None, _) if !connector.was_asked() => AskError::NoSuchHost(worker),
        (None, ErrorKind::TimedOut | ErrorKind::WouldBlock) => {
            AskError::TimedOut { worker, waited }
        }
        (None, ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof) => {
            AskError::Unreachable { worker, why: "the connection was cut".to_owned() }
        }
        (None, _) => AskError::Unreachable { worker, why: error.to_string() },
    }
}

fn of_tls(worker: WorkerAddress, error: &rustls::Error, connector: &WorkerConnector) -> AskError {
    match (HandshakeFault::of(error), worker.name.clone(), connector.own_key()) {
        (HandshakeFault::Untrusted, Some(name), _) => AskError::OtherHost { worker, name },
        (HandshakeFault::Untrusted, None, _) => AskError::Untrusted(worker),
        (HandshakeFault::NotTrustedThere, _, Some(key)) => {
            AskError::NotTrustedThere { worker, name: host_name(), key }
        }
        _ => AskError::Tls { worker, why: error.to_string() },
    }
}
