//! The transports of a call, of which one is used at a time: UDP, or TCP if no datagram passes. Each has keys of its own.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::thread::JoinHandle;
use std::time::Duration;

use tautline_api::call::{CallKeys, MediaTicket, PROBE_BYTES, PathProbes, ProbeWay, SrtpSecret};
use tautline_api::seal::SECRET_BYTES;
use tautline_api::srtp::{MasterKey, NoMasterKey, Profile, SrtpSeal};
use tautline_io::clock::now;
use tautline_io::link::muxed::{FarAddress, MuxedLine, Seals};
use tautline_io::socket::seal::Seal;
use tautline_io::tcp::{TcpOptions, TcpWatch};
use tautline_io::udp::{UdpOptions, any};
use tautline_proto::call::CallId;
use tautline_proto::call::caller::AgreedCall;
use tautline_proto::call::path::{PathChoice, PathStep, SilentWay};
use tautline_proto::call::terms::CallPath;
use tautline_proto::time::{LocalTime, Span};

use crate::endpoint::CallLink;
use crate::{Error, Side, running};

/// From a connection that was not made, or was lost, to the next try.
const AGAIN: Span = Span::from_millis(500);
/// For a connection that is to carry sound.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);
/// Connections that were made and came to nothing since one was used.
const MAX_AHEAD: u32 = 8;
/// A caller moves on by no more at once.
const MAX_MOVED: u32 = 1 << 16;

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
    link.switch.exchange(MuxedLine::udp(socket, &link.udp, far, seals(keys, side)?)?);
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
    let (line, watch) = MuxedLine::tcp(stream, &options, seals(keys, side)?)?;
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

/// Keys and numbers of the transports of one call, at the caller.
#[derive(Clone, Copy)]
pub(crate) struct TransportKeys {
    pub(crate) secret: [u8; SECRET_BYTES],
    /// Where the other end was called.
    pub(crate) called: SocketAddr,
    /// The highest number of a transport that was used: no two have the same keys.
    pub(crate) used: Option<u32>,
    /// Changes to sound that were asked for since it began last. The other end has a number for each that it begins, and
    /// may begin some that are over before they begin here: it follows to a higher number, and goes back to none.
    pub(crate) asked: u32,
}

impl TransportKeys {
    /// Of a call that begins on the control connection with this secret, made to `called`.
    pub(crate) const fn new(secret: [u8; SECRET_BYTES], called: SocketAddr) -> Self {
        Self { secret, called, used: None, asked: 0 }
    }

    /// The number of the first transport of sound that begins now; none if none is left.
    fn number(&self) -> Option<u32> {
        let first = self.used.map_or(Some(0), |used| used.checked_add(1))?;
        first.checked_add(self.asked.saturating_sub(1))
    }
}

/// The transports at the caller, which chooses them.
pub(crate) struct CallerTransport {
    secret: [u8; SECRET_BYTES],
    call: CallId,
    /// Where the other end is called, and where it receives datagrams.
    called: SocketAddr,
    udp: SocketAddr,
    choice: PathChoice,
    /// The number of the one that is used.
    number: u32,
    /// The highest that was, shown to the other end or not.
    used: u32,
    by: CallPath,
    heard: u64,
    sent: u64,
    /// Since when both ends have sound.
    pub(crate) began: LocalTime,
    /// The direction in which nothing passes, until that is reported.
    silent: Option<SilentWay>,
    watch: Option<TcpWatch>,
    again: LocalTime,
    /// The next step, as other paths are allowed.
    next: Option<PathStep>,
    /// The connection that is being made, while the sound goes on by the transport that is used. The thread connects and
    /// writes nothing: the ticket, and with it the number of a transport, is used only if the connection still is wanted.
    connecting: Option<JoinHandle<io::Result<TcpStream>>>,
    probing: Option<UdpSocket>,
    probes: PathProbes,
    probed: u64,
}

impl CallerTransport {
    /// Those of a call that begins, or is made again while the devices run. `waits` for a connection if the first frame of
    /// a file is to go by it.
    pub(crate) fn begin(
        link: &mut CallLink,
        call: &AgreedCall,
        keys: TransportKeys,
        waits: bool,
    ) -> Result<Self, Error> {
        let TransportKeys { secret, called, .. } = keys;
        let number = keys.number().ok_or_else(no_keys)?;
        let keys = CallKeys::of(&secret, call.id, 0);
        let mut all = Self {
            secret,
            call: call.id,
            called,
            udp: SocketAddr::new(called.ip(), call.udp_port),
            choice: PathChoice::new(&call.terms.paths, now()),
            number,
            used: number,
            by: call.terms.paths.first().copied().unwrap_or(CallPath::Udp),
            heard: link.heard(),
            sent: link.sent(),
            began: now(),
            silent: None,
            watch: None,
            again: now(),
            next: None,
            connecting: None,
            probing: None,
            probes: PathProbes::new(&keys.probe),
            probed: 0,
        };
        match all.choice.path() {
            CallPath::Udp => all.use_udp(link, bind(any_port(called))?)?,
            CallPath::Tcp => all.connect(),
        }
        if waits && let Some(connecting) = all.connecting.take() {
            match connecting.join() {
                Ok(connected) => all.go_by_tcp(link, connected.ok()),
                Err(panic) => std::panic::resume_unwind(panic),
            };
        }
        Ok(all)
    }

    /// Uses these alone from now on: a connection as soon as there is one.
    pub(crate) fn allow(&mut self, paths: &[CallPath]) {
        let udp = PathStep::Use(CallPath::Udp);
        if let Some(step) = self.choice.allow(paths, now()) {
            self.next = Some(udp).filter(|udp| step == *udp && self.by != CallPath::Udp);
        }
    }

    /// The highest number that was used: no two have the same keys.
    pub(crate) const fn used(&self) -> u32 {
        self.used
    }

    pub(crate) const fn now(&self) -> (CallPath, u32) {
        (self.by, self.number)
    }

    /// Whether another transport is used from now on: the other end has to know.
    pub(crate) fn turn(&mut self, link: &mut CallLink) -> Result<bool, Error> {
        link.switch.collect();
        let heard = link.heard();
        if heard != self.heard {
            self.heard = heard;
            self.choice.heard(now());
            // It was silent for a while, and no connection was made since.
            if self.by == CallPath::Udp && self.choice.path() == CallPath::Tcp {
                self.choice.stay_by_udp(now());
            }
        }
        let sent = link.sent();
        if sent != self.sent {
            self.sent = sent;
            self.choice.sent(now());
        }
        self.hear_probes();
        if self.choice.path() == CallPath::Udp {
            self.connecting = None;
        }
        if let Some(connected) = finished(&mut self.connecting) {
            if self.go_by_tcp(link, connected.ok()) {
                return Ok(true);
            }
        } else if self.connecting.is_none()
            && self.choice.path() == CallPath::Tcp
            && self.is_lost()
            && now() >= self.again
        {
            self.connect();
        }
        match self.next.take().or_else(|| self.choice.poll(now())) {
            Some(PathStep::Use(CallPath::Tcp)) => self.connect(),
            Some(PathStep::Use(CallPath::Udp)) => {
                self.connecting = None;
                self.used = self.used.checked_add(1).ok_or_else(no_keys)?;
                self.number = self.used;
                let socket = match self.probing.take() {
                    Some(socket) => socket,
                    None => bind(any_port(self.called))?,
                };
                self.use_udp(link, socket)?;
                return Ok(true);
            }
            Some(PathStep::Probe) => self.probe(),
            Some(PathStep::Tell(way)) => self.silent = Some(way),
            None => {}
        }
        Ok(false)
    }

    fn connect(&mut self) {
        let called = self.called;
        self.connect_by(move || TcpStream::connect_timeout(&called, CONNECT_LIMIT));
    }

    /// Without a thread it fails, as a connection that is refused.
    fn connect_by(&mut self, connect: impl FnOnce() -> io::Result<TcpStream> + Send + 'static) {
        self.again = now() + AGAIN;
        self.connecting =
            std::thread::Builder::new().name("taut-by-tcp".into()).spawn(connect).ok();
    }

    /// The direction in which nothing passes though nothing else may be used, once, and the UDP port of the other end.
    pub(crate) fn silent(&mut self) -> Option<(SilentWay, u16)> {
        Some((self.silent.take()?, self.udp.port()))
    }

    pub(crate) const fn is_by_udp_alone(&self) -> bool {
        self.choice.is_by_udp_alone()
    }

    fn use_udp(&mut self, link: &mut CallLink, socket: UdpSocket) -> Result<(), Error> {
        self.watch = None;
        let keys = CallKeys::of(&self.secret, self.call, self.number);
        use_udp(link, socket, FarAddress::At(self.udp), (&keys, Side::Caller))?;
        self.by = CallPath::Udp;
        Ok(())
    }

    fn is_lost(&self) -> bool {
        self.watch.as_ref().is_none_or(|watch| watch.lost().is_some())
    }

    /// Uses a connection, if it was made; otherwise it is retried. Whether there is one now.
    fn go_by_tcp(&mut self, link: &mut CallLink, connected: Option<TcpStream>) -> bool {
        self.again = now() + AGAIN;
        self.watch = connected.and_then(|stream| self.show_ticket(link, stream));
        let is_made = self.watch.is_some();
        if is_made {
            (self.by, self.number) = (CallPath::Tcp, self.used);
        }
        is_made
    }

    fn show_ticket(&mut self, link: &mut CallLink, mut stream: TcpStream) -> Option<TcpWatch> {
        // The other end may have seen it, whatever comes of it: its number is not used again.
        self.used = self.used.checked_add(1)?;
        let keys = CallKeys::of(&self.secret, self.call, self.used);
        // It is less than any buffer of a connection on which nothing was sent yet.
        stream.set_nonblocking(true).ok()?;
        stream.write_all(&keys.ticket.shown()).ok()?;
        stream.set_nonblocking(false).ok()?;
        use_tcp(link, stream, (&keys, Side::Caller)).ok()
    }

    /// The other end receives nothing by the transport of that number.
    pub(crate) fn unheard(&mut self, number: u32) {
        if (self.by, self.number) == (CallPath::Udp, number) {
            self.choice.unheard(now());
        }
    }

    /// Both ends have sound from now on: silence before does not count.
    pub(crate) fn begun(&mut self) {
        self.began = now();
        self.choice.heard(now());
    }

    fn probe(&mut self) {
        if self.probing.is_none() {
            let socket = UdpSocket::bind(any_port(self.called)).ok();
            self.probing = socket.filter(|socket| socket.set_nonblocking(true).is_ok());
        }
        self.probed += 1;
        let probe = self.probes.written(ProbeWay::There, self.probed);
        // A refused one does not come back.
        self.probing.iter().for_each(|socket| drop(socket.send_to(&probe, self.udp)));
    }

    fn hear_probes(&mut self) {
        let mut probe = [0; PROBE_BYTES + 1];
        let Some(socket) = &self.probing else { return };
        while let Ok((count, from)) = socket.recv_from(&mut probe) {
            let back = self.probes.read(ProbeWay::Back, &probe[..count]);
            if from == self.udp && back == Some(self.probed) {
                self.choice.probe_back();
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

/// The transports at the end that is called, which follows the caller.
pub(crate) struct CalledTransport {
    secret: [u8; SECRET_BYTES],
    call: CallId,
    /// Of the one that is used: later ones have higher numbers.
    number: u32,
    pub(crate) path: CallPath,
    pub(crate) probes: PathProbes,
    /// Of the next connections.
    tickets: Vec<(u32, MediaTicket)>,
}

impl CalledTransport {
    /// Begins with UDP.
    pub(crate) fn of(secret: [u8; SECRET_BYTES], call: CallId) -> Self {
        let probes = PathProbes::new(&CallKeys::of(&secret, call, 0).probe);
        let path = CallPath::Udp;
        let mut first = Self { secret, call, number: 0, path, probes, tickets: Vec::new() };
        first.go_to(0, path);
        first
    }

    fn go_to(&mut self, number: u32, path: CallPath) {
        (self.number, self.path) = (number, path);
        let next = (1..=MAX_AHEAD).filter_map(|ahead| number.checked_add(ahead));
        let ticket = |number| (number, MediaTicket::of(&self.secret, self.call, number));
        self.tickets = next.map(ticket).collect();
    }

    pub(crate) const fn number(&self) -> u32 {
        self.number
    }

    pub(crate) fn keys(&self) -> CallKeys {
        CallKeys::of(&self.secret, self.call, self.number)
    }

    /// The caller announces its transport: whether that is UDP, to be used from now on. A connection is used as it arrives.
    pub(crate) fn goes_by(&mut self, path: CallPath, number: u32) -> bool {
        let moved = number.checked_sub(self.number);
        if !moved.is_some_and(|moved| (1..=MAX_MOVED).contains(&moved)) {
            return false;
        }
        match path {
            CallPath::Udp => self.go_to(number, path),
            // Those between failed, and this one arrives.
            CallPath::Tcp => self.go_to(number - 1, self.path),
        }
        path == CallPath::Udp
    }

    /// There is sound again, with keys of its own. Whether a number is left for that.
    #[must_use]
    pub(crate) fn sounds_anew(&mut self) -> bool {
        let number = self.number.checked_add(1);
        number.iter().for_each(|number| self.go_to(*number, CallPath::Udp));
        number.is_some()
    }

    /// Uses the connection with this ticket, if it is one of this call that was not shown yet.
    pub(crate) fn takes(&mut self, ticket: &MediaTicket) -> bool {
        let found = self.tickets.iter().find(|(_, expected)| expected.is(ticket));
        let Some(number) = found.map(|(number, _)| *number) else { return false };
        self.go_to(number, CallPath::Tcp);
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
    use tautline_proto::units::{Channels, Rate};

    use super::*;

    const SECRET: [u8; SECRET_BYTES] = [1; SECRET_BYTES];
    const CALL: CallId = CallId([7; 16]);

    /// The transports of a call that goes by UDP, and where the other end listens.
    fn by_udp() -> (CallerTransport, CallLink, TcpListener) {
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
        let all =
            CallerTransport::begin(&mut link, &call, TransportKeys::new(SECRET, called), true)
                .unwrap();
        assert_eq!(all.now(), (CallPath::Udp, 0));
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
    fn gated(all: &mut CallerTransport) -> Sender<()> {
        let ((open, gate), called) = (channel::<()>(), all.called);
        all.connect_by(move || {
            gate.recv().map_err(io::Error::other)?;
            TcpStream::connect(called)
        });
        open
    }

    /// UDP carries nothing, and a connection is to be made.
    fn wants_tcp(all: &mut CallerTransport) {
        all.choice = PathChoice::new(&[CallPath::Tcp, CallPath::Udp], now());
    }

    /// Looks until it goes by the connection that is being made.
    fn until_moved(all: &mut CallerTransport, link: &mut CallLink) {
        while !all.turn(link).unwrap() {
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
            assert!(!all.turn(&mut link).unwrap());
            assert_eq!(all.now(), (CallPath::Udp, 0));
        }
        open.send(()).unwrap();
        until_moved(&mut all, &mut link);
        assert_eq!(all.now(), (CallPath::Tcp, 1));
        assert_eq!(said(&there, ticket(1).len()), ticket(1));
    }

    #[test]
    fn a_connection_that_comes_when_the_sound_went_back_to_udp_is_closed_and_uses_no_number() {
        let (mut all, mut link, there) = by_udp();
        wants_tcp(&mut all);
        let open = gated(&mut all);
        assert!(!all.turn(&mut link).unwrap());
        all.choice.stay_by_udp(now());
        assert!(!all.turn(&mut link).unwrap());
        open.send(()).unwrap();
        assert!(said(&there, ticket(1).len()).is_empty(), "nobody wants it");
        assert_eq!(all.now(), (CallPath::Udp, 0));
        // The next one has the number that was not used, and the one after it another.
        wants_tcp(&mut all);
        for number in 1..=2 {
            let open = gated(&mut all);
            open.send(()).unwrap();
            until_moved(&mut all, &mut link);
            assert_eq!(all.now(), (CallPath::Tcp, number));
            assert_eq!(said(&there, ticket(number).len()), ticket(number));
        }
    }

    #[test]
    fn a_connection_that_comes_when_the_sound_is_over_says_nothing() {
        let (mut all, mut link, there) = by_udp();
        wants_tcp(&mut all);
        let open = gated(&mut all);
        assert!(!all.turn(&mut link).unwrap());
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
            assert!(!all.turn(&mut link).unwrap());
            std::thread::yield_now();
        }
        assert_eq!(all.now(), (CallPath::Udp, 0));
        all.again = now();
        assert!(!all.turn(&mut link).unwrap());
        assert!(all.connecting.is_some());
    }

    #[test]
    fn no_two_sounds_of_a_call_have_one_number_and_none_is_behind_the_other_ends() {
        let mut made = TransportKeys::new([1; SECRET_BYTES], ([127, 0, 0, 1], 1).into());
        assert_eq!(made.number(), Some(0), "of a call that begins with sound");
        made.asked = 1;
        assert_eq!(made.number(), Some(0), "of one that is asked for some, as at the other end");
        // Asked for, held before it began here, and asked for again: the other end began twice.
        made.asked = 2;
        assert_eq!(made.number(), Some(1));
        (made.used, made.asked) = (Some(4), 1);
        assert_eq!(made.number(), Some(5));
        made.asked = 3;
        assert_eq!(made.number(), Some(7));
        (made.used, made.asked) = (Some(u32::MAX), 1);
        assert_eq!(made.number(), None, "none is left");
    }

    #[test]
    fn sound_that_begins_anew_has_other_keys_and_a_caller_that_says_its_number_changes_nothing() {
        let mut transport = CalledTransport::of([1; SECRET_BYTES], CallId([7; 16]));
        let before = transport.keys();
        assert!(transport.sounds_anew());
        assert_ne!(transport.keys().there.key, before.there.key);
        assert_eq!(
            transport.keys().there.key,
            CallKeys::of(&[1; 32], CallId([7; 16]), 1).there.key
        );
        assert!(!transport.goes_by(CallPath::Udp, 1), "it is used already");
        transport.number = u32::MAX;
        assert!(!transport.sounds_anew(), "none is left");
    }
}
