//! Sockets and keys of a call's transports, one in use at a time; `proto::call::transport` decides.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::thread::JoinHandle;
use std::time::Duration;

use tautline_api::call::{CallKeys, MediaTicket, PROBE_BYTES, PathProbes, ProbeWay, SrtpSecret};
use tautline_api::seal::SECRET_BYTES;
use tautline_api::srtp::{MasterKey, NoMasterKey, Profile, SrtpSeal};
use tautline_io::link::muxed::{FarAddress, MuxedTransport, Seals};
use tautline_io::socket::seal::Seal;
use tautline_io::tcp::{TcpOptions, TcpWatch};
use tautline_io::udp::{UdpOptions, any};
use tautline_proto::call::CallId;
use tautline_proto::call::caller::AgreedCall;
use tautline_proto::call::transport::{CalledTransport, CallerTransport, TransportStep};
use tautline_proto::time::LocalTime;

use crate::endpoint::CallLink;
use crate::{Error, Side, running};

const CONNECT_LIMIT: Duration = Duration::from_secs(2);
/// Maximum probes answered per beat; peers send two per second.
const MAX_PROBES: usize = 16;

fn master_key(secret: &SrtpSecret) -> Result<MasterKey, NoMasterKey> {
    let bytes = [&secret.key[..], &secret.salt[..]].concat();
    MasterKey::new(Profile::AeadAes256Gcm, &bytes)
}

/// Streams and reports get separate seals with separate counters, so no nonce is used twice.
fn seals(keys: &CallKeys, side: Side) -> Result<Seals, Error> {
    let (sent, received) = match side {
        Side::Caller => (&keys.there, &keys.back),
        Side::Called => (&keys.back, &keys.there),
    };
    let failed = |error: NoMasterKey| running(error.to_string());
    let (sent, received) =
        (master_key(sent).map_err(failed)?, master_key(received).map_err(failed)?);
    let seal = |new: fn(&MasterKey, &MasterKey) -> SrtpSeal| {
        Some(Box::new(new(&sent, &received)) as Box<dyn Seal>)
    };
    let lean = || seal(SrtpSeal::for_reports);
    Ok(Seals { sending: lean(), receiving: seal(SrtpSeal::new), reports: [lean(), lean()] })
}

pub(crate) fn use_udp(
    link: &mut CallLink,
    socket: UdpSocket,
    far: FarAddress,
    (keys, side): (&CallKeys, Side),
) -> Result<(), Error> {
    link.switch.exchange(MuxedTransport::udp(socket, &link.udp, far, seals(keys, side)?)?);
    Ok(())
}

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

pub(crate) fn bind(at: SocketAddr) -> Result<UdpSocket, Error> {
    UdpSocket::bind(at).map_err(|error| {
        Error::Open(format!(
            "binding UDP {at}: {error}\nhint: another taut serve may use it (--max-callers ports, 8 by default); choose \
             other ports with --listen HOST:PORT"
        ))
    })
}

pub(crate) fn finished<T>(thread: &mut Option<JoinHandle<T>>) -> Option<T> {
    Some(match thread.take_if(|thread| thread.is_finished())?.join() {
        Ok(done) => done,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

#[derive(Clone, Copy)]
pub(crate) struct TransportKeys {
    secret: [u8; SECRET_BYTES],
    call: CallId,
    called: SocketAddr,
    pub(crate) udp: SocketAddr,
}

impl TransportKeys {
    pub(crate) fn new(secret: [u8; SECRET_BYTES], called: SocketAddr, call: &AgreedCall) -> Self {
        let udp = SocketAddr::new(called.ip(), call.udp_port);
        Self { secret, call: call.id, called, udp }
    }

    fn of(&self, number: u32) -> CallKeys {
        CallKeys::of(&self.secret, self.call, number)
    }
}

pub(crate) struct CallerSockets {
    pub(crate) keys: TransportKeys,
    watch: Option<TcpWatch>,
    /// A connection in progress. Its thread writes nothing: the ticket is used only if still
    /// needed.
    connecting: Option<JoinHandle<io::Result<TcpStream>>>,
    probing: Option<UdpSocket>,
    probes: PathProbes,
}

impl CallerSockets {
    pub(crate) fn new(keys: TransportKeys) -> Self {
        let probes = PathProbes::new(&keys.of(0).probe);
        Self { keys, watch: None, connecting: None, probing: None, probes }
    }

    pub(crate) fn receive(
        &mut self,
        link: &mut CallLink,
        decides: &mut CallerTransport,
        now: LocalTime,
    ) {
        link.switch.collect();
        let is_lost = self.watch.as_ref().is_some_and(|watch| watch.lost().is_some());
        decides.observe(link.received(), link.sent(), is_lost, now);
        if link.has_left() {
            decides.peer_is_silent(now);
        }
        self.hear_probes(decides);
        match (decides.is_connecting(), finished(&mut self.connecting)) {
            (true, Some(connected)) => self.go_by_tcp(link, decides, connected.ok(), now),
            // Without a thread, it fails like a refused connection.
            (true, None) if self.connecting.is_none() => decides.not_connected(now),
            (true, None) => {}
            (false, _) => self.connecting = None,
        }
    }

    pub(crate) fn carry_out(
        &mut self,
        step: TransportStep,
        link: &mut CallLink,
        bytes: usize,
    ) -> Result<(), Error> {
        match step {
            TransportStep::Connect => {
                let called = self.keys.called;
                self.connect_by(move || TcpStream::connect_timeout(&called, CONNECT_LIMIT));
            }
            TransportStep::UseUdp(number) => self.use_udp(link, number)?,
            TransportStep::Probe(probe) => self.probe(probe, bytes),
            TransportStep::Report(_) => {}
            TransportStep::UsedUp => return Err(no_keys()),
        }
        Ok(())
    }

    pub(crate) fn wait(
        &mut self,
        link: &mut CallLink,
        decides: &mut CallerTransport,
        now: LocalTime,
    ) {
        if let Some(connecting) = self.connecting.take() {
            match connecting.join() {
                Ok(connected) => self.go_by_tcp(link, decides, connected.ok(), now),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    }

    fn connect_by(&mut self, connect: impl FnOnce() -> io::Result<TcpStream> + Send + 'static) {
        let thread = std::thread::Builder::new().name("taut-by-tcp".into());
        self.connecting = thread.spawn(connect).ok();
    }

    fn use_udp(&mut self, link: &mut CallLink, number: u32) -> Result<(), Error> {
        let socket = self.probing.take().map_or_else(|| bind(any_port(self.keys.called)), Ok)?;
        (self.watch, self.connecting) = (None, None);
        use_udp(link, socket, FarAddress::At(self.keys.udp), (&self.keys.of(number), Side::Caller))
    }

    fn go_by_tcp(
        &mut self,
        link: &mut CallLink,
        decides: &mut CallerTransport,
        connected: Option<TcpStream>,
        now: LocalTime,
    ) {
        let Some(stream) = connected else { return decides.not_connected(now) };
        let number = decides.connected(now);
        self.watch = number.and_then(|number| self.show_ticket(link, stream, number));
        if self.watch.is_some() {
            decides.goes_by_tcp();
        }
    }

    fn show_ticket(
        &self,
        link: &mut CallLink,
        mut stream: TcpStream,
        number: u32,
    ) -> Option<TcpWatch> {
        let keys = self.keys.of(number);
        stream.set_nonblocking(true).ok()?;
        stream.write_all(&keys.ticket.shown()).ok()?;
        stream.set_nonblocking(false).ok()?;
        use_tcp(link, stream, (&keys, Side::Caller)).ok()
    }

    fn probe(&mut self, probe: u64, bytes: usize) {
        if self.probing.is_none() {
            let socket = UdpSocket::bind(any_port(self.keys.called)).ok();
            self.probing = socket.filter(|socket| socket.set_nonblocking(true).is_ok());
        }
        let probe = self.probes.written(ProbeWay::There, probe, bytes);
        self.probing.iter().for_each(|socket| drop(socket.send_to(&probe, self.keys.udp)));
    }

    fn hear_probes(&self, decides: &mut CallerTransport) {
        let mut probe = [0; PROBE_BYTES];
        let Some(socket) = &self.probing else { return };
        while let Ok((count, from)) = socket.recv_from(&mut probe) {
            let back = self.probes.read(ProbeWay::Back, &probe[..count]);
            if let Some(back) = back.filter(|_| from == self.keys.udp) {
                decides.probe_back(back);
            }
        }
    }
}

fn no_keys() -> Error {
    running("no keys are left for this call\nhint: hang up and call again")
}

fn any_port(far: SocketAddr) -> SocketAddr {
    SocketAddr::new(any(far.is_ipv6()), 0)
}

pub(crate) struct CalledKeys {
    secret: [u8; SECRET_BYTES],
    call: CallId,
    pub(crate) probes: PathProbes,
    tickets: Vec<(u32, MediaTicket)>,
}

impl CalledKeys {
    pub(crate) fn of(secret: [u8; SECRET_BYTES], call: CallId) -> Self {
        let probes = PathProbes::new(&CallKeys::of(&secret, call, 0).probe);
        Self { secret, call, probes, tickets: Vec::new() }
    }

    pub(crate) fn keys(&self, number: u32) -> CallKeys {
        CallKeys::of(&self.secret, self.call, number)
    }

    /// Answers UDP probes while TCP is used. `room` fits any datagram.
    pub(crate) fn answer_probes(&self, socket: &UdpSocket, room: &mut [u8]) {
        for _ in 0..MAX_PROBES {
            let Ok((count, from)) = socket.recv_from(room) else { return };
            if let Some(number) = self.probes.read(ProbeWay::There, &room[..count]) {
                let _ = socket.send_to(&self.probes.written(ProbeWay::Back, number, count), from);
            }
        }
    }

    pub(crate) fn takes(&mut self, ticket: &MediaTicket, decides: &CalledTransport) -> Option<u32> {
        if !decides.expected().eq(self.tickets.iter().map(|(number, _)| *number)) {
            let ticket = |number| (number, MediaTicket::of(&self.secret, self.call, number));
            self.tickets = decides.expected().map(ticket).collect();
        }
        let found = self.tickets.iter().find(|(_, expected)| expected.is(ticket));
        found.map(|(number, _)| *number)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;
    use std::sync::mpsc::{Sender, channel};

    use tautline_dsp::format::SampleFormat;
    use tautline_io::clock::now;
    use tautline_proto::call::CallId;
    use tautline_proto::call::terms::{CallLatency, CallPath, CallTerms, StreamTerms};
    use tautline_proto::time::Span;
    use tautline_proto::units::{Channels, Rate};

    use super::*;

    const SECRET: [u8; SECRET_BYTES] = [1; SECRET_BYTES];
    const CALL: CallId = CallId([7; 16]);

    struct Caller {
        decides: CallerTransport,
        sockets: CallerSockets,
    }

    fn by_udp() -> (Caller, CallLink, TcpListener) {
        let there = TcpListener::bind("127.0.0.1:0").unwrap();
        let called = there.local_addr().unwrap();
        let stream = StreamTerms {
            rate: Rate::HZ_48000,
            channels: Channels::STEREO,
            coding: SampleFormat::L24.into(),
            ptime: Span::from_millis(5),
        };
        let paths = vec![CallPath::Udp, CallPath::Tcp];
        let terms = CallTerms {
            there: stream,
            back: stream,
            paths,
            latency: CallLatency::AUTO,
            adapts: None,
            redundancy: None,
        };
        let call = AgreedCall { id: CALL, terms, udp_port: called.port() };
        let mut link = CallLink::unused();
        let (decides, first) = CallerTransport::begin(&call.terms.paths, 0, now());
        let sockets = CallerSockets::new(TransportKeys::new(SECRET, called, &call));
        let mut all = Caller { decides, sockets };
        all.sockets.carry_out(first, &mut link, 0).unwrap();
        assert_eq!(all.decides.used(), (CallPath::Udp, 0));
        (all, link, there)
    }

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

    fn gated(all: &mut Caller) -> Sender<()> {
        let ((open, gate), called) = (channel::<()>(), all.sockets.keys.called);
        all.sockets.connect_by(move || {
            gate.recv().map_err(io::Error::other)?;
            TcpStream::connect(called)
        });
        open
    }

    fn wants_tcp(all: &mut Caller) {
        all.decides.allow(&[CallPath::Tcp], now());
        all.decides.not_connected(now() - Span::from_secs(1));
        assert_eq!(all.decides.poll(now()), Some(TransportStep::Connect));
    }

    fn turn(all: &mut Caller, link: &mut CallLink, now: LocalTime) {
        all.sockets.receive(link, &mut all.decides, now);
        while let Some(step) = all.decides.poll(now) {
            assert!(!matches!(step, TransportStep::Report(_)));
            all.sockets.carry_out(step, link, 0).unwrap();
        }
    }

    fn moves(all: &mut Caller, link: &mut CallLink) -> bool {
        let before = all.decides.used();
        turn(all, link, now());
        all.decides.used() != before
    }

    fn until_moved(all: &mut Caller, link: &mut CallLink) {
        while !moves(all, link) {
            assert!(all.sockets.connecting.is_some(), "it was given up");
            std::thread::yield_now();
        }
    }

    #[test]
    fn sound_keeps_its_transport_while_tcp_connects() {
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
    fn late_tcp_connection_is_closed_after_a_return_to_udp() {
        let (mut all, mut link, there) = by_udp();
        wants_tcp(&mut all);
        let open = gated(&mut all);
        assert!(!moves(&mut all, &mut link));
        all.decides.allow(&[CallPath::Udp], now());
        assert!(!moves(&mut all, &mut link));
        open.send(()).unwrap();
        assert!(said(&there, ticket(1).len()).is_empty(), "nobody wants it");
        assert_eq!(all.decides.used(), (CallPath::Udp, 0));
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
    fn connection_after_the_end_of_sound_is_not_reported() {
        let (mut all, mut link, there) = by_udp();
        wants_tcp(&mut all);
        let open = gated(&mut all);
        assert!(!moves(&mut all, &mut link));
        drop(all);
        open.send(()).unwrap();
        assert!(said(&there, ticket(1).len()).is_empty());
    }

    #[test]
    fn failed_tcp_connection_is_retried_with_the_same_number() {
        let (mut all, mut link, there) = by_udp();
        wants_tcp(&mut all);
        drop(there);
        let open = gated(&mut all);
        drop(open);
        while all.sockets.connecting.is_some() {
            assert!(!moves(&mut all, &mut link));
            std::thread::yield_now();
        }
        assert_eq!(all.decides.used(), (CallPath::Udp, 0));
        turn(&mut all, &mut link, now() + Span::from_secs(1));
        assert!(all.sockets.connecting.is_some());
    }

    #[test]
    fn probe_is_answered_at_equal_length_without_allocation() {
        let [here, there] = [(), ()].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        let (keys, mut room) = (CalledKeys::of(SECRET, CALL), vec![0; 2_000]);
        there.set_nonblocking(true).unwrap();
        let before = tautline_trial::allocator_calls();
        keys.answer_probes(&there, &mut room);
        assert_eq!(tautline_trial::allocator_calls(), before);
        let probe = keys.probes.written(ProbeWay::There, 7, 1_100);
        here.send_to(&probe, there.local_addr().unwrap()).unwrap();
        keys.answer_probes(&there, &mut room);
        here.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let count = here.recv(&mut room).unwrap();
        assert_eq!((count, keys.probes.read(ProbeWay::Back, &room[..count])), (1_100, Some(7)));
    }

    #[test]
    fn restarted_sound_has_other_keys() {
        let (transport, mut decides) = (CalledKeys::of(SECRET, CALL), CalledTransport::new(now()));
        assert!(decides.begin(now()));
        let before = transport.keys(decides.used().1);
        assert!(decides.begin(now()));
        let keys = transport.keys(decides.used().1);
        assert_ne!(keys.there.key, before.there.key);
        assert_eq!(keys.there.key, CallKeys::of(&SECRET, CALL, 1).there.key);
    }
}
