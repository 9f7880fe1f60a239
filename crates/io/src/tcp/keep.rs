//! Keeps a stream's connection: connects, or lets one sender in, on an ordinary thread that hands the connection down,
//! and another once it is lost.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tautline_proto::endpoint::Endpoint;
use tautline_proto::time::{LocalTime, Span};

use super::counting_on::StreamSeals;
use super::{TcpOptions, TcpWatch};
use crate::clock::now;
use crate::control::Control;
use crate::link::destinations::Outbound;
use crate::link::event::EventDescriptor;
use crate::link::muxed::{LineSwitch, Muxed, MuxedControl, MuxedLine, MuxedReceiver, muxed};
use crate::link::ringed::{Ringed, WireOptions};
use crate::link::{Arrival, Link, OpenError};
use crate::socket::address::unbound_mend;
use crate::socket::poll::{poll, readable};
use crate::thread::{Scheduler, spawn};
use crate::udp::pair::{MakeSeal, OpenedStream};

/// How long a far end may take to answer: at first, when somebody waits to be told, and after that, when nobody does.
const FIRST_ANSWER: Duration = Duration::from_secs(5);
const ANSWER: Duration = Duration::from_secs(1);
/// Between two tries to connect again.
const AGAIN: Span = Span::from_millis(250);
/// Whoever brought nothing for so long gives way to another: its connection may be dead and nobody know it.
const SILENT: Span = Span::from_secs(1);
/// Stack of the keeping thread.
const STACK_BYTES: usize = 256 << 10;

/// Connects to `to` and sends a stream there, from the thread that will call the link or from a wire thread below one
/// that runs as `device` says. Connects again, by itself, whenever the connection is lost: until then what is sent is
/// let go. Packets and reports are sealed by what `seal` makes, if there is one, which counts on from one connection to
/// the next.
pub fn connect_stream(
    to: SocketAddr,
    options: &TcpOptions,
    device: Option<Scheduler>,
    seal: Option<MakeSeal<'_>>,
) -> Result<OpenedStream, OpenError> {
    let seals = StreamSeals::of_sender(seal);
    let first = connect(to, FIRST_ANSWER).map_err(|error| not_connected(to, &error))?;
    let (line, watch) = MuxedLine::tcp(first, options, seals.lend())?;
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
    let link: Box<dyn Link> = match device {
        Some(device) => Box::new(Ringed::start(sending, wire(device, &options))?),
        None => Box::new(sending),
    };
    // Nobody else reads what comes: reports alone.
    let control = KeptControl { control, receiving: Some(receiving), _keeper: keeper };
    Ok(OpenedStream { link, control: Some(Box::new(control)), outbound, local: None })
}

/// Lets one sender at a time in at `at`, and hears it on the thread that will call the link or on a wire thread below one
/// that runs as `device` says. Another is turned away, unless nothing came from the first for a second that `seal` opened, if
/// there is one.
pub fn listen_stream(
    at: SocketAddr,
    options: &TcpOptions,
    device: Option<Scheduler>,
    seal: Option<MakeSeal<'_>>,
) -> Result<OpenedStream, OpenError> {
    let seals = StreamSeals::of_receiver(seal);
    let listener = listen(at).map_err(|error| not_listening(at, &error))?;
    let port = listener.local_addr().map_or(at.port(), |local| local.port());
    // Whoever sends is the one that is let in, also when it comes again from another port.
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
    let link: Box<dyn Link> = match device {
        Some(device) => Box::new(Ringed::start(receiving, wire(device, &options))?),
        None => Box::new(receiving),
    };
    let control = KeptControl { control, receiving: None, _keeper: keeper };
    Ok(OpenedStream { link, control: Some(Box::new(control)), outbound, local: None })
}

fn wire(device: Scheduler, options: &TcpOptions) -> WireOptions {
    // A quarter of a second, as a socket of UDP has room for.
    WireOptions::below(device, (options.packets_per_second as usize / 4).max(4 * options.batch))
}

/// Connects, for `patience` at most.
pub fn connect(to: SocketAddr, patience: Duration) -> io::Result<TcpStream> {
    TcpStream::connect_timeout(&to, patience)
}

fn listen(at: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(at)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn not_connected(to: SocketAddr, error: &io::Error) -> OpenError {
    let mend = match error.kind() {
        io::ErrorKind::ConnectionRefused => format!(
            "start the receiver first (`taut recv --from rtp+tcp://:{}`), or check HOST and PORT",
            to.port()
        ),
        io::ErrorKind::TimedOut => {
            "check HOST and PORT, and what lies between: a firewall may drop what it does not know"
                .into()
        }
        _ => format!("`ip route get {}` shows how this host would reach it", to.ip()),
    };
    OpenError::new(format!("connecting to {to} by TCP"), error, mend)
}

fn not_listening(at: SocketAddr, error: &io::Error) -> OpenError {
    let held = || {
        format!(
            "another program holds TCP port {0}: stop it (`ss -tlpn 'sport = :{0}'` names it) or use another port",
            at.port()
        )
    };
    let mend = unbound_mend(error, "port", held);
    OpenError::new(format!("listening at TCP {at}"), error, mend)
}

/// Ends a keeping thread.
struct KeeperStop {
    event: EventDescriptor,
    asked: AtomicBool,
}

impl KeeperStop {
    fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }

    /// Waits until one of these has something, it is to end, or `until` has come.
    fn wait(&self, others: &[libc::pollfd], until: LocalTime) {
        let mut polled = vec![readable(self.event.as_fd().as_raw_fd())];
        polled.extend_from_slice(others);
        poll(&mut polled, until);
    }
}

/// The keeping thread, which ends with this.
struct ConnectionKeeper {
    stop: Arc<KeeperStop>,
    thread: Option<JoinHandle<()>>,
}

impl ConnectionKeeper {
    fn start(keep: impl FnOnce(&KeeperStop) + Send + 'static) -> Result<Self, OpenError> {
        let cannot = |error: io::Error| {
            let mend = "raise the limits of processes and open files (ulimit -u, ulimit -n)";
            OpenError::new("starting the thread that keeps a connection".to_owned(), &error, mend)
        };
        let event = EventDescriptor::new().map_err(cannot)?;
        let stop = Arc::new(KeeperStop { event, asked: AtomicBool::new(false) });
        let its = Arc::clone(&stop);
        let (thread, _) = spawn("taut-connect", Scheduler::Other, STACK_BYTES, move || keep(&its))
            .map_err(cannot)?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for ConnectionKeeper {
    fn drop(&mut self) {
        self.stop.asked.store(true, Ordering::Release);
        self.stop.event.wake();
        if let Some(thread) = self.thread.take() {
            // A panic of it is a bug that its own message has told already.
            let _ = thread.join();
        }
    }
}

fn keep_connected(
    (to, options, seals): (SocketAddr, TcpOptions, StreamSeals),
    (mut switch, mut watch): (LineSwitch, TcpWatch),
    stop: &KeeperStop,
) {
    let mut made = now();
    while !stop.is_asked() {
        if watch.lost().is_none() {
            stop.wait(&[watch.polled()], LocalTime::NEVER);
            continue;
        }
        if now() < made + AGAIN {
            stop.wait(&[], made + AGAIN);
            continue;
        }
        let line = connect(to, ANSWER)
            .ok()
            .and_then(|stream| MuxedLine::tcp(stream, &options, seals.lend()).ok());
        match line {
            Some((line, newer)) => {
                switch.exchange(line);
                watch = newer;
                // One that is turned away comes again, and not at once.
                made = now();
            }
            None => stop.wait(&[], now() + AGAIN),
        }
    }
}

fn keep_listening(
    listener: &TcpListener,
    (options, seals): (TcpOptions, StreamSeals),
    mut switch: LineSwitch,
    stop: &KeeperStop,
) {
    let mut held: Option<TcpWatch> = None;
    while !stop.is_asked() {
        held = held.filter(|watch| watch.lost().is_none());
        let mut polled = vec![readable(listener.as_raw_fd())];
        polled.extend(held.as_ref().map(TcpWatch::polled));
        stop.wait(&polled, LocalTime::NEVER);
        let Ok((stream, _)) = listener.accept() else { continue };
        // The first may have gone meanwhile.
        if held.as_ref().is_some_and(|held| held.lost().is_none() && now() - held.heard() < SILENT)
        {
            continue;
        }
        if let Ok((line, watch)) = MuxedLine::tcp(stream, &options, seals.lend()) {
            switch.exchange(line);
            // Whoever was silent and is there after all comes again.
            held.iter().for_each(TcpWatch::close);
            held = Some(watch);
        }
    }
}

/// A control channel that keeps its connection, and reads it where no link does.
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

    fn receive(&mut self, deliver: &mut dyn FnMut(Arrival<'_>)) {
        if let Some(receiving) = &mut self.receiving {
            // Packets come to whoever sends by mistake.
            receiving.receive(&mut |_| ());
        }
        self.control.receive(deliver);
    }
}
