//! Sockets and keys of a call's transports, of which one is used at a time. `proto::call::transport` decides which.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::thread::JoinHandle;
use std::time::Duration;

use tautline_api::call::{CallKeys, MediaTicket, PROBE_BYTES, PathProbes, ProbeWay, SrtpSecret};
use tautline_api::seal::SECRET_BYTES;
use tautline_api::srtp::{MasterKey, NoMasterKey, Profile, SrtpSeal};
use tautline_io::clock::now;
use tautline_io::link::muxed::{FarAddress, MuxedTransport, Seals};
use tautline_io::socket::seal::Seal;
use tautline_io::tcp::{TcpOptions, TcpWatch};
use tautline_io::udp::{UdpOptions, any};
use tautline_proto::call::CallId;
use tautline_proto::call::caller::AgreedCall;
use tautline_proto::call::path::SilentWay;
use tautline_proto::call::terms::CallPath;
use tautline_proto::call::transport::{
    CalledTransport, CallerTransport, TransportNumbers, TransportStep,
};
use tautline_proto::time::LocalTime;

use crate::endpoint::CallLink;
use crate::{Error, Side, running};

/// For a connection that is to carry sound.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);

fn master_key(secret: &SrtpSecret) -> Result<MasterKey, NoMasterKey> {
    let bytes = [&secret.key[..], &secret.salt[..]].concat();
    MasterKey::new(Profile::AeadAes256Gcm, &bytes)
}

/// Every user of a seal has a value of its own: streams and reports have sources and counts of their own, so no nonce is
/// used twice.
fn seals(keys: &CallKeys, side: Side) -> Result<Seals, Error> {
    let (sent, heard) = match side {
        Side::Caller => (&keys.there, &keys.back),
        Side::Called => (&keys.back, &keys.there),
    };
    let failed = |error: NoMasterKey| running(error.to_string());
    let (sent, heard) = (master_key(sent).map_err(failed)?, master_key(heard).map_err(failed)?);
    let seal = || Some(Box::new(SrtpSeal::new(&sent, &heard)) as Box<dyn Seal>);
    Ok(Seals { sending: seal(), receiving: seal(), reports: [seal(), seal()] })
}

/// Has the link go by UDP.
pub(crate) fn use_udp(
    link: &mut CallLink,
    socket: UdpSocket,
    far: FarAddress,
    (keys, side): (&CallKeys, Side),
) -> Result<(), Error> {
    link.switch.exchange(MuxedTransport::udp(socket, &link.udp, far, seals(keys, side)?)?);
    Ok(())
}

/// Has the link go by a connection; tells when that is lost.
pub(crate) fn use_tcp(
    link: &mut CallLink,
    stream: TcpStream,
    (keys, side): (&CallKeys, Side),
) -> Result<TcpWatch, Error> {
    let UdpOptions { datagram_bytes, packets_per_second, batch, .. } = link.udp;
    let options = TcpOptions {
        datagram_bytes,
        packets_per_second,
        batch,
        grows_window: true,
        ..TcpOptions::default()
    };
    let (line, watch) = MuxedTransport::tcp(stream, &options, seals(keys, side)?)?;
    link.switch.exchange(line);
    Ok(watch)
}

/// A UDP socket at this address.
pub(crate) fn bind(at: SocketAddr) -> Result<UdpSocket, Error> {
    UdpSocket::bind(at).map_err(|error| {
        Error::Open(format!(
            "binding UDP {at} for the sound: {error}; another taut serve may run there, which takes as many ports as --callers \
             says, 8 if it says none: choose another with --listen HOST:PORT"
        ))
    })
}

/// The result of a thread that has ended, which is taken. Threads that nobody wants any more are dropped.
pub(crate) fn finished<T>(thread: &mut Option<JoinHandle<T>>) -> Option<T> {
    Some(match thread.take_if(|thread| thread.is_finished())?.join() {
        Ok(done) => done,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

/// Of which the keys of one call's transports are made, at the caller.
#[derive(Clone, Copy)]
pub(crate) struct TransportKeys {
    pub(crate) secret: [u8; SECRET_BYTES],
    /// Where the other end was called.
    pub(crate) called: SocketAddr,
    pub(crate) numbers: TransportNumbers,
}

/// The transports at the caller, while there is sound.
pub(crate) struct CallerSockets {
    pub(crate) decides: CallerTransport,
    secret: [u8; SECRET_BYTES],
    call: CallId,
    /// Where the other end is called, and where it receives datagrams.
    called: SocketAddr,
    udp: SocketAddr,
    watch: Option<TcpWatch>,
    /// The connection that is being made, while the sound goes on by the transport that is used. The thread connects and
    /// writes nothing: the ticket, and with it the number of a transport, is used only if the connection still is wanted.
    connecting: Option<JoinHandle<io::Result<TcpStream>>>,
    probing: Option<UdpSocket>,
    probes: PathProbes,
}

impl CallerSockets {
    /// Those of a call that begins, or is made again while the devices run. `waits` for a connection if the first frame of
    /// a file is to go by it.
    pub(crate) fn begin(
        link: &mut CallLink,
        call: &AgreedCall,
        TransportKeys { secret, called, numbers }: TransportKeys,
        waits: bool,
    ) -> Result<Self, Error> {
        let number = numbers.first().ok_or_else(no_keys)?;
        let keys = CallKeys::of(&secret, call.id, 0);
        let packets = [link.heard(), link.sent()];
        let (decides, first) = CallerTransport::begin(&call.terms.paths, number, packets, now());
        let mut all = Self {
            decides,
            secret,
            call: call.id,
            called,
            udp: SocketAddr::new(called.ip(), call.udp_port),
            watch: None,
            connecting: None,
            probing: None,
            probes: PathProbes::new(&keys.probe),
        };
        match first {
            TransportStep::Connect => all.connect(now()),
            _ => all.use_udp(link)?,
        }
        if waits && let Some(connecting) = all.connecting.take() {
            match connecting.join() {
                Ok(connected) => all.go_by_tcp(link, connected.ok(), now()),
                Err(panic) => std::panic::resume_unwind(panic),
            };
        }
        Ok(all)
    }

    /// The UDP port of the other end.
    pub(crate) const fn port(&self) -> u16 {
        self.udp.port()
    }

    /// Does everything that is due: the direction in which nothing passes though nothing else may be used, once.
    pub(crate) fn turn(
        &mut self,
        link: &mut CallLink,
        now: LocalTime,
    ) -> Result<Option<SilentWay>, Error> {
        link.switch.collect();
        let is_lost = self.watch.as_ref().is_some_and(|watch| watch.lost().is_some());
        self.decides.observe(link.heard(), link.sent(), is_lost, now);
        self.hear_probes();
        if !self.decides.is_connecting() {
            self.connecting = None;
        }
        if let Some(connected) = finished(&mut self.connecting)
            && self.go_by_tcp(link, connected.ok(), now)
        {
            return Ok(None);
        }
        while let Some(step) = self.decides.poll(now) {
            match step {
                TransportStep::Connect => self.connect(now),
                TransportStep::UseUdp => {
                    self.connecting = None;
                    self.use_udp(link)?;
                    break;
                }
                TransportStep::Probe(probe) => self.probe(probe),
                TransportStep::Report(way) => return Ok(Some(way)),
                TransportStep::UsedUp => return Err(no_keys()),
            }
        }
        Ok(None)
    }

    fn connect(&mut self, now: LocalTime) {
        let called = self.called;
        self.connect_by(now, move || TcpStream::connect_timeout(&called, CONNECT_LIMIT));
    }

    /// Without a thread it fails, as a connection that is refused.
    fn connect_by(
        &mut self,
        now: LocalTime,
        connect: impl FnOnce() -> io::Result<TcpStream> + Send + 'static,
    ) {
        self.connecting =
            std::thread::Builder::new().name("taut-by-tcp".into()).spawn(connect).ok();
        if self.connecting.is_none() {
            self.decides.not_connected(now);
        }
    }

    /// By the socket by which a probe came back, if any did.
    fn use_udp(&mut self, link: &mut CallLink) -> Result<(), Error> {
        let socket = self.probing.take().map_or_else(|| bind(any_port(self.called)), Ok)?;
        self.watch = None;
        let keys = CallKeys::of(&self.secret, self.call, self.decides.used().1);
        use_udp(link, socket, FarAddress::At(self.udp), (&keys, Side::Caller))
    }

    /// Uses a connection, if it was made; otherwise it is retried. Whether there is one now.
    fn go_by_tcp(
        &mut self,
        link: &mut CallLink,
        connected: Option<TcpStream>,
        now: LocalTime,
    ) -> bool {
        if connected.is_none() {
            self.decides.not_connected(now);
        }
        self.watch = connected.and_then(|stream| self.show_ticket(link, stream, now));
        let is_made = self.watch.is_some();
        if is_made {
            self.decides.goes_by_tcp();
        }
        is_made
    }

    fn show_ticket(
        &mut self,
        link: &mut CallLink,
        mut stream: TcpStream,
        now: LocalTime,
    ) -> Option<TcpWatch> {
        let keys = CallKeys::of(&self.secret, self.call, self.decides.connected(now)?);
        // It is less than any buffer of a connection on which nothing was sent yet.
        stream.set_nonblocking(true).ok()?;
        stream.write_all(&keys.ticket.shown()).ok()?;
        stream.set_nonblocking(false).ok()?;
        use_tcp(link, stream, (&keys, Side::Caller)).ok()
    }

    fn probe(&mut self, probe: u64) {
        if self.probing.is_none() {
            let socket = UdpSocket::bind(any_port(self.called)).ok();
            self.probing = socket.filter(|socket| socket.set_nonblocking(true).is_ok());
        }
        let probe = self.probes.written(ProbeWay::There, probe);
        // A refused one does not come back.
        self.probing.iter().for_each(|socket| drop(socket.send_to(&probe, self.udp)));
    }

    fn hear_probes(&mut self) {
        let mut probe = [0; PROBE_BYTES + 1];
        let Some(socket) = &self.probing else { return };
        while let Ok((count, from)) = socket.recv_from(&mut probe) {
            let back = self.probes.read(ProbeWay::Back, &probe[..count]);
            if let Some(back) = back.filter(|_| from == self.udp) {
                self.decides.probe_back(back);
            }
        }
    }
}

fn no_keys() -> Error {
    running("no keys are left for this call; hang up and call anew")
}

/// Any port of this host from which that address is reached.
fn any_port(far: SocketAddr) -> SocketAddr {
    SocketAddr::new(any(far.is_ipv6()), 0)
}

/// Keys of the transports at the end that is called.
pub(crate) struct CalledKeys {
    pub(crate) decides: CalledTransport,
    secret: [u8; SECRET_BYTES],
    call: CallId,
    pub(crate) probes: PathProbes,
    /// Of the next connections.
    tickets: Vec<(u32, MediaTicket)>,
}

impl CalledKeys {
    pub(crate) fn of(secret: [u8; SECRET_BYTES], call: CallId, now: LocalTime) -> Self {
        let probes = PathProbes::new(&CallKeys::of(&secret, call, 0).probe);
        let decides = CalledTransport::new(now);
        let mut first = Self { decides, secret, call, probes, tickets: Vec::new() };
        first.expect();
        first
    }

    fn expect(&mut self) {
        // An announcement that changes nothing derives no keys.
        if self.decides.expected().eq(self.tickets.iter().map(|(number, _)| *number)) {
            return;
        }
        let ticket = |number| (number, MediaTicket::of(&self.secret, self.call, number));
        self.tickets = self.decides.expected().map(ticket).collect();
    }

    pub(crate) fn keys(&self) -> CallKeys {
        CallKeys::of(&self.secret, self.call, self.decides.used().1)
    }

    /// The caller announces its transport: whether that is UDP, to be used from now on.
    pub(crate) fn announced(&mut self, path: CallPath, number: u32) -> bool {
        let is_udp = self.decides.announced(path, number);
        self.expect();
        is_udp
    }

    /// There is sound again, with keys of its own. Whether a number is left for that.
    #[must_use]
    pub(crate) fn sounds_again(&mut self) -> bool {
        let is_left = self.decides.sounds_again();
        self.expect();
        is_left
    }

    /// Uses the connection with this ticket, if it is one of this call that was not shown yet.
    pub(crate) fn takes(&mut self, ticket: &MediaTicket) -> bool {
        let found = self.tickets.iter().find(|(_, expected)| expected.is(ticket));
        let Some(number) = found.map(|(number, _)| *number) else { return false };
        self.decides.goes_by_tcp(number);
        self.expect();
        true
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;
    use std::sync::mpsc::{Sender, channel};

    use tautline_dsp::format::SampleFormat;
    use tautline_proto::call::CallId;
    use tautline_proto::call::terms::{CallLatency, CallTerms, StreamTerms};
    use tautline_proto::time::Span;
    use tautline_proto::units::{Channels, Rate};

    use super::*;

    const SECRET: [u8; SECRET_BYTES] = [1; SECRET_BYTES];
    const CALL: CallId = CallId([7; 16]);

    /// The transports of a call that goes by UDP, and where the other end listens.
    fn by_udp() -> (CallerSockets, CallLink, TcpListener) {
        let there = TcpListener::bind("127.0.0.1:0").unwrap();
        let called = there.local_addr().unwrap();
        let stream = StreamTerms {
            rate: Rate::HZ_48000,
            channels: Channels::STEREO,
            coding: SampleFormat::L24.into(),
            ptime: Span::from_millis(5),
        };
        let paths = vec![CallPath::Udp, CallPath::Tcp];
        let terms = CallTerms { there: stream, back: stream, paths, latency: CallLatency::AUTO };
        let call = AgreedCall { id: CALL, terms, udp_port: called.port() };
        let mut link = CallLink::unused();
        let keys = TransportKeys { secret: SECRET, called, numbers: TransportNumbers::default() };
        let all = CallerSockets::begin(&mut link, &call, keys, true).unwrap();
        assert_eq!(all.decides.used(), (CallPath::Udp, 0));
        (all, link, there)
    }

    /// What came by the next connection that was made there.
    fn said(there: &TcpListener, bytes: usize) -> Vec<u8> {
        let (stream, _) = there.accept().unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut said = Vec::new();
        stream.take(bytes as u64).read_to_end(&mut said).unwrap();
        said
    }

    fn ticket(number: u32) -> Vec<u8> {
        CallKeys::of(&SECRET, CALL, number).ticket.shown().to_vec()
    }

    /// A connection is being made until that is allowed, or never if it is not.
    fn gated(all: &mut CallerSockets) -> Sender<()> {
        let ((open, gate), called) = (channel::<()>(), all.called);
        all.connect_by(now(), move || {
            gate.recv().map_err(io::Error::other)?;
            TcpStream::connect(called)
        });
        open
    }

    /// UDP carries nothing, nor any connection that there is, and another is to be made.
    fn wants_tcp(all: &mut CallerSockets) {
        all.decides.allow(&[CallPath::Tcp], now());
        all.decides.not_connected(now() - Span::from_secs(1));
        assert_eq!(all.decides.poll(now()), Some(TransportStep::Connect));
    }

    /// Whether it moved to another transport.
    fn moves(all: &mut CallerSockets, link: &mut CallLink) -> bool {
        let before = all.decides.used();
        assert_eq!(all.turn(link, now()).unwrap(), None);
        all.decides.used() != before
    }

    /// Looks until it goes by the connection that is being made.
    fn until_moved(all: &mut CallerSockets, link: &mut CallLink) {
        while !moves(all, link) {
            assert!(all.connecting.is_some(), "it was given up");
            std::thread::yield_now();
        }
    }

    #[test]
    fn while_a_connection_is_made_the_sound_goes_by_what_there_is_and_nothing_waits() {
        let (mut all, mut link, there) = by_udp();
        wants_tcp(&mut all);
        let open = gated(&mut all);
        for _ in 0..3 {
            assert!(!moves(&mut all, &mut link));
            assert_eq!(all.decides.used(), (CallPath::Udp, 0));
        }
        open.send(()).unwrap();
        until_moved(&mut all, &mut link);
        assert_eq!(all.decides.used(), (CallPath::Tcp, 1));
        assert_eq!(said(&there, ticket(1).len()), ticket(1));
    }

    #[test]
    fn a_connection_that_comes_when_the_sound_went_back_to_udp_is_closed_and_uses_no_number() {
        let (mut all, mut link, there) = by_udp();
        wants_tcp(&mut all);
        let open = gated(&mut all);
        assert!(!moves(&mut all, &mut link));
        all.decides.allow(&[CallPath::Udp], now());
        assert!(!moves(&mut all, &mut link));
        open.send(()).unwrap();
        assert!(said(&there, ticket(1).len()).is_empty(), "nobody wants it");
        assert_eq!(all.decides.used(), (CallPath::Udp, 0));
        // The next one has the number that was not used, and the one after it another.
        for number in 1..=2 {
            wants_tcp(&mut all);
            let open = gated(&mut all);
            open.send(()).unwrap();
            until_moved(&mut all, &mut link);
            assert_eq!(all.decides.used(), (CallPath::Tcp, number));
            assert_eq!(said(&there, ticket(number).len()), ticket(number));
        }
    }

    #[test]
    fn a_connection_that_comes_when_the_sound_is_over_says_nothing() {
        let (mut all, mut link, there) = by_udp();
        wants_tcp(&mut all);
        let open = gated(&mut all);
        assert!(!moves(&mut all, &mut link));
        drop(all);
        open.send(()).unwrap();
        assert!(said(&there, ticket(1).len()).is_empty());
    }

    #[test]
    fn a_connection_that_is_not_made_is_tried_again_and_uses_no_number() {
        let (mut all, mut link, there) = by_udp();
        wants_tcp(&mut all);
        drop(there);
        let open = gated(&mut all);
        drop(open);
        while all.connecting.is_some() {
            assert!(!moves(&mut all, &mut link));
            std::thread::yield_now();
        }
        assert_eq!(all.decides.used(), (CallPath::Udp, 0));
        all.turn(&mut link, now() + Span::from_secs(1)).unwrap();
        assert!(all.connecting.is_some());
    }

    #[test]
    fn sound_that_begins_anew_has_other_keys() {
        let mut transport = CalledKeys::of(SECRET, CALL, now());
        let before = transport.keys();
        assert!(transport.sounds_again());
        assert_ne!(transport.keys().there.key, before.there.key);
        assert_eq!(transport.keys().there.key, CallKeys::of(&SECRET, CALL, 1).there.key);
    }
}
