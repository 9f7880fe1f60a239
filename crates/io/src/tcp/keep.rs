//! Maintains a stream's connection on an ordinary thread.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tautline_proto::endpoint::Endpoint;
use tautline_proto::time::{LocalTime, Span};

use crate::clock::now;
use crate::control::Control;
use crate::link::destinations::Outbound;
use crate::link::muxed::{
    Muxed, MuxedControl, MuxedReceiver, MuxedTransport, Seals, TransportSwitch, muxed,
};
use crate::link::threaded::{ThreadedLink, WireOptions};
use crate::link::{Datagram, Link, OpenError};
use crate::socket::address::unbound_hint;
use crate::socket::descriptor::{poll, readable};
use crate::socket::seal::Seal;
use crate::tcp::{TcpOptions, TcpWatch};
use crate::thread::halt::Halt;
use crate::thread::{Scheduler, spawn};
use crate::udp::pair::{MakeSeal, OpenedStream};
use try_lock::TryLock;

/// Timeout of the first attempt, while a user waits. Later attempts have [`ANSWER`].
const FIRST_ANSWER: Duration = Duration::from_secs(5);
const ANSWER: Duration = Duration::from_secs(1);
const AGAIN: Span = Span::from_millis(250);
/// Silence after which another sender replaces this one.
const SILENT: Span = Span::from_secs(1);
const STACK_BYTES: usize = 256 << 10;

/// Sends a stream to `to`, from this thread or a wire thread below `device`. Reconnects; drops
/// packets meanwhile. `seal`'s counters continue across connections.
pub fn connect_stream(
    to: SocketAddr,
    options: &TcpOptions,
    device: Option<Scheduler>,
    seal: Option<MakeSeal<'_>>,
) -> Result<OpenedStream, OpenError> {
    let seals = StreamSeals::of_sender(seal);
    let first = connect(to, FIRST_ANSWER).map_err(|error| not_connected(to, &error))?;
    let (line, watch) = MuxedTransport::tcp(first, options, seals.lend())?;
    let Muxed { sending, receiving, controls: [control, _], mut switch } =
        muxed(options.datagram_bytes, to.into())?;
    switch.exchange(line);
    let outbound = Outbound {
        destinations: vec![to.into()],
        networks: None,
        datagram_bytes: options.datagram_bytes,
        ringed: device.is_some(),
    };
    let options = *options;
    let keeper = ConnectionKeeper::start(move |stop| {
        keep_connected((to, options, seals), (switch, watch), stop);
    })?;
    let link = ThreadedLink::boxed(sending, device.map(|device| wire(device, &options)))?;
    let control = KeptControl { control, receiving: Some(receiving), _keeper: keeper };
    Ok(OpenedStream { link, control: Some(Box::new(control)), outbound, local: None })
}

/// Receives from one sender at a time at `at`, on this thread or a wire thread below `device`.
/// Rejects other senders until 1 s without authentic data.
pub fn listen_stream(
    at: SocketAddr,
    options: &TcpOptions,
    device: Option<Scheduler>,
    seal: Option<MakeSeal<'_>>,
) -> Result<OpenedStream, OpenError> {
    let seals = StreamSeals::of_receiver(seal);
    let listener = listen(at).map_err(|error| not_listening(at, &error))?;
    let port = listener.local_addr().map_or(at.port(), |local| local.port());
    // One name even from another port.
    let named = Endpoint::Connection(port.into());
    let Muxed { receiving, controls: [_, control], switch, .. } =
        muxed(options.datagram_bytes, named)?;
    let outbound = Outbound {
        destinations: Vec::new(),
        networks: None,
        datagram_bytes: options.datagram_bytes,
        ringed: device.is_some(),
    };
    let options = *options;
    let keeper = ConnectionKeeper::start(move |stop| {
        keep_listening(&listener, (options, seals), switch, stop);
    })?;
    let link = ThreadedLink::boxed(receiving, device.map(|device| wire(device, &options)))?;
    let control = KeptControl { control, receiving: None, _keeper: keeper };
    Ok(OpenedStream { link, control: Some(Box::new(control)), outbound, local: None })
}

fn wire(device: Scheduler, options: &TcpOptions) -> WireOptions {
    // 250 ms, as for UDP.
    WireOptions::below(device, (options.packets_per_second as usize / 4).max(4 * options.batch))
}

/// Connects; waits up to `timeout`.
pub fn connect(to: SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
    TcpStream::connect_timeout(&to, timeout)
}

fn listen(at: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(at)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn not_connected(to: SocketAddr, error: &io::Error) -> OpenError {
    let hint = match error.kind() {
        io::ErrorKind::ConnectionRefused => format!(
            "start the receiver first (`taut recv --from rtp+tcp://:{}`), or check HOST and PORT",
            to.port()
        ),
        io::ErrorKind::TimedOut => "check HOST, PORT and the firewalls in between".into(),
        _ => format!("`ip route get {}` shows how this host would reach it", to.ip()),
    };
    OpenError::new(format!("connecting to {to} via TCP"), error, hint)
}

fn not_listening(at: SocketAddr, error: &io::Error) -> OpenError {
    let held = || {
        format!(
            "another program holds TCP port {0}: stop it (`ss -tlpn 'sport = :{0}'` names it) or use another port",
            at.port()
        )
    };
    let hint = unbound_hint(error, "port", held);
    OpenError::new(format!("listening at TCP {at}"), error, hint)
}

struct ConnectionKeeper {
    stop: Halt,
    thread: Option<JoinHandle<()>>,
}

impl ConnectionKeeper {
    fn start(keep: impl FnOnce(&Halt) + Send + 'static) -> Result<Self, OpenError> {
        let cannot = |error: io::Error| {
            let hint = "raise the limits of processes and open files (ulimit -u, ulimit -n)";
            OpenError::new("starting the connection thread".to_owned(), &error, hint)
        };
        let stop = Halt::new().map_err(cannot)?;
        let its = stop.clone();
        let (thread, _) = spawn("taut-connect", Scheduler::Other, STACK_BYTES, move || keep(&its))
            .map_err(cannot)?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

fn wait(stop: &Halt, others: &[libc::pollfd], until: LocalTime) {
    let mut polled = vec![readable(stop.as_fd().as_raw_fd())];
    polled.extend_from_slice(others);
    poll(&mut polled, until);
}

impl Drop for ConnectionKeeper {
    fn drop(&mut self) {
        self.stop.request();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn keep_connected(
    (to, options, seals): (SocketAddr, TcpOptions, StreamSeals),
    (mut switch, mut watch): (TransportSwitch, TcpWatch),
    stop: &Halt,
) {
    let mut made = now();
    while !stop.is_requested() {
        if watch.lost().is_none() {
            wait(stop, &[watch.polled()], LocalTime::NEVER);
            continue;
        }
        if now() < made + AGAIN {
            wait(stop, &[], made + AGAIN);
            continue;
        }
        let line = connect(to, ANSWER)
            .ok()
            .and_then(|stream| MuxedTransport::tcp(stream, &options, seals.lend()).ok());
        match line {
            Some((line, newer)) => {
                switch.exchange(line);
                watch = newer;
                made = now();
            }
            None => wait(stop, &[], now() + AGAIN),
        }
    }
}

fn keep_listening(
    listener: &TcpListener,
    (options, seals): (TcpOptions, StreamSeals),
    mut switch: TransportSwitch,
    stop: &Halt,
) {
    let mut held: Option<TcpWatch> = None;
    while !stop.is_requested() {
        held = held.filter(|watch| watch.lost().is_none());
        let mut polled = vec![readable(listener.as_raw_fd())];
        polled.extend(held.as_ref().map(TcpWatch::polled));
        wait(stop, &polled, LocalTime::NEVER);
        let Ok((stream, _)) = listener.accept() else { continue };
        if held
            .as_ref()
            .is_some_and(|held| held.lost().is_none() && now() - held.received() < SILENT)
        {
            continue;
        }
        if let Ok((line, watch)) = MuxedTransport::tcp(stream, &options, seals.lend()) {
            switch.exchange(line);
            held.iter().for_each(TcpWatch::close);
            held = Some(watch);
        }
    }
}

struct KeptControl {
    control: MuxedControl,
    receiving: Option<MuxedReceiver>,
    _keeper: ConnectionKeeper,
}

impl AsFd for KeptControl {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.receiving.as_ref().map_or_else(|| self.control.as_fd(), AsFd::as_fd)
    }
}

impl Control for KeptControl {
    fn send(&mut self, datagram: &[u8], to: Endpoint) -> io::Result<()> {
        self.control.send(datagram, to)
    }

    fn receive(&mut self, deliver: &mut dyn FnMut(Datagram<'_>)) {
        if let Some(receiving) = &mut self.receiving {
            receiving.receive(&mut |_| ());
        }
        self.control.receive(deliver);
    }
}

/// A seal for one connection after another. They never need it at the same time.
#[derive(Clone)]
struct LentSeal {
    seal: Arc<TryLock<Box<dyn Seal>>>,
    room: usize,
}

impl LentSeal {
    fn of(make: MakeSeal<'_>) -> Self {
        let seal = make();
        Self { room: seal.room(), seal: Arc::new(TryLock::new(seal)) }
    }

    fn lend(&self) -> Box<dyn Seal> {
        Box::new(self.clone())
    }
}

impl Seal for LentSeal {
    fn room(&self) -> usize {
        self.room
    }

    /// While another user has the seal, sends nothing rather than in clear.
    fn seal(&mut self, bytes: &mut [u8], len: usize) -> usize {
        self.seal.try_lock().map(|mut seal| seal.seal(bytes, len)).unwrap_or(0)
    }

    fn open<'a>(&mut self, bytes: &'a mut [u8]) -> Option<&'a [u8]> {
        self.seal.try_lock().and_then(|mut seal| seal.open(bytes))
    }
}

#[derive(Default)]
pub(super) struct StreamSeals {
    sending: Option<LentSeal>,
    receiving: Option<LentSeal>,
    reports: [Option<LentSeal>; 2],
}

impl StreamSeals {
    pub(super) fn of_sender(make: Option<MakeSeal<'_>>) -> Self {
        let seal = || make.map(LentSeal::of);
        Self { sending: seal(), receiving: seal(), reports: [seal(), None] }
    }

    pub(super) fn of_receiver(make: Option<MakeSeal<'_>>) -> Self {
        let seal = || make.map(LentSeal::of);
        Self { sending: None, receiving: seal(), reports: [None, seal()] }
    }

    pub(super) fn lend(&self) -> Seals {
        let lend = |seal: &Option<LentSeal>| seal.as_ref().map(LentSeal::lend);
        let [one, other] = &self.reports;
        Seals {
            sending: lend(&self.sending),
            receiving: lend(&self.receiving),
            reports: [lend(one), lend(other)],
        }
    }
}
