//! By what the sound of a call goes, at the end that calls: which transport is used, and the next one.

use std::io::Write;
use std::net::{SocketAddr, TcpStream, UdpSocket};

use tautline_api::call::{CallKeys, PROBE_BYTES, PathProbes, ProbeWay};
use tautline_api::seal::SECRET_BYTES;
use tautline_io::clock::now;
use tautline_io::link::muxed::{FarAddress, MuxedLine};
use tautline_io::tcp::TcpWatch;
use tautline_io::udp::any;
use tautline_proto::call::caller::AgreedCall;
use tautline_proto::call::path::{PathChoice, PathStep, SilentWay};
use tautline_proto::call::terms::CallPath;
use tautline_proto::time::{LocalTime, Span};

use super::connecting::{Connected, Connecting};
use super::made::CallMade;
use crate::cmd::call_end::{CallLink, CallSide, bind, tcp_line, udp_line};
use crate::failure::Failure;

/// From a connection that was not made, or was lost, to the next try.
const AGAIN: Span = Span::from_millis(500);

/// The transports of one call, of which one is used at a time; each has keys of its own.
pub(super) struct Transports {
    secret: [u8; SECRET_BYTES],
    call: AgreedCall,
    /// Where the other end is called, and where it hears datagrams.
    called: SocketAddr,
    udp: SocketAddr,
    choice: PathChoice,
    /// The number of the one that is used.
    number: u32,
    /// The highest that was, shown to the other end or not.
    used: u32,
    /// By what that goes.
    by: CallPath,
    heard: u64,
    sent: u64,
    /// Since when both ends are to sound.
    pub(super) began: LocalTime,
    /// By which way nothing passes, of which people are not told yet.
    silent: Option<SilentWay>,
    watch: Option<TcpWatch>,
    again: LocalTime,
    /// What is done next, as the paths that it may go by are others.
    next: Option<PathStep>,
    /// The connection that is being made, while the sound goes on by what there is.
    connecting: Option<Connecting>,
    probing: Option<UdpSocket>,
    probes: PathProbes,
    probed: u64,
}

impl Transports {
    /// Those of sound that begins with the devices: waits for the first, as not a frame of a file is to be missed.
    pub(super) fn begin(
        link: &mut CallLink,
        call: &AgreedCall,
        made: CallMade,
    ) -> Result<Self, Failure> {
        let mut all = Self::begin_anew(link, call, made)?;
        if let Some(connecting) = all.connecting.take() {
            all.go_by_tcp(link, connecting.wait());
        }
        Ok(all)
    }

    /// Those of a call that is made again, while the devices run.
    pub(super) fn begin_anew(
        link: &mut CallLink,
        call: &AgreedCall,
        made: CallMade,
    ) -> Result<Self, Failure> {
        let CallMade { secret, called, .. } = made;
        let number = made.number().ok_or_else(no_keys)?;
        let keys = CallKeys::of(&secret, call.id, 0);
        let mut all = Self {
            secret,
            call: call.clone(),
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
            CallPath::Tcp => all.connecting = Some(Connecting::to(called)),
        }
        Ok(all)
    }

    /// Goes by these alone from now on: by a connection as soon as there is one.
    pub(super) fn allow(&mut self, paths: &[CallPath]) {
        let udp = PathStep::Use(CallPath::Udp);
        if let Some(step) = self.choice.allow(paths, now()) {
            self.next = Some(udp).filter(|udp| step == *udp && self.by != CallPath::Udp);
        }
    }

    /// The highest number that was used: no two have the same keys.
    pub(super) const fn used(&self) -> u32 {
        self.used
    }

    /// What is used, and its number.
    pub(super) const fn now(&self) -> (CallPath, u32) {
        (self.by, self.number)
    }

    /// Looks how it stands; whether another transport is used from now on, which the other end is to be told.
    pub(super) fn turn(&mut self, link: &mut CallLink) -> Result<bool, Failure> {
        link.switch.collect();
        let heard = link.heard();
        if heard != self.heard {
            self.heard = heard;
            self.choice.heard(now());
            // It was silent for a while, and no connection came about since.
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
            // What comes of it is not used any more.
            self.connecting = None;
        }
        if let Some(connecting) = self.connecting.take() {
            let connected = connecting.look();
            if self.go_by_tcp(link, connected) {
                return Ok(true);
            }
        } else if self.choice.path() == CallPath::Tcp && self.is_lost() && now() >= self.again {
            self.connecting = Some(Connecting::to(self.called));
        }
        match self.next.take().or_else(|| self.choice.poll(now())) {
            Some(PathStep::Use(CallPath::Tcp)) => {
                self.connecting = Some(Connecting::to(self.called));
                Ok(false)
            }
            Some(PathStep::Use(CallPath::Udp)) => {
                self.connecting = None;
                self.used = self.used.checked_add(1).ok_or_else(no_keys)?;
                self.number = self.used;
                let socket = match self.probing.take() {
                    Some(socket) => socket,
                    None => bind(any_port(self.called))?,
                };
                self.use_udp(link, socket)?;
                Ok(true)
            }
            Some(PathStep::Probe) => {
                self.probe();
                Ok(false)
            }
            Some(PathStep::Tell(way)) => {
                self.silent = Some(way);
                Ok(false)
            }
            None => Ok(false),
        }
    }

    /// By which way nothing passes though nothing else may be used, if that is news, and the UDP port of the other end.
    pub(super) fn silent(&mut self) -> Option<(SilentWay, u16)> {
        Some((self.silent.take()?, self.udp.port()))
    }

    /// Whether nothing else may be used.
    pub(super) const fn is_by_udp_alone(&self) -> bool {
        self.choice.is_by_udp_alone()
    }

    fn keys(&self) -> CallKeys {
        CallKeys::of(&self.secret, self.call.id, self.number)
    }

    fn use_udp(&mut self, link: &mut CallLink, socket: UdpSocket) -> Result<(), Failure> {
        self.watch = None;
        let line = udp_line(
            socket,
            &link.udp,
            FarAddress::At(self.udp),
            (&self.keys(), CallSide::Caller),
        )?;
        link.switch.exchange(line);
        self.by = CallPath::Udp;
        Ok(())
    }

    /// Whether the connection that is used is over, or there is none.
    fn is_lost(&self) -> bool {
        self.watch.as_ref().is_none_or(|watch| watch.lost().is_some())
    }

    /// Uses a connection that was made: whether there is one now; else it is waited for, or tried again.
    fn go_by_tcp(&mut self, link: &mut CallLink, connected: Connected) -> bool {
        let line = match connected {
            Connected::NotYet(connecting) => {
                self.connecting = Some(connecting);
                return false;
            }
            Connected::Made(stream) => self.show_ticket(link, stream),
            Connected::Failed => None,
        };
        self.again = now() + AGAIN;
        let Some((line, watch)) = line else {
            self.watch = None;
            return false;
        };
        link.switch.exchange(line);
        (self.watch, self.by, self.number) = (Some(watch), CallPath::Tcp, self.used);
        true
    }

    fn show_ticket(
        &mut self,
        link: &CallLink,
        mut stream: TcpStream,
    ) -> Option<(MuxedLine, TcpWatch)> {
        // The other end may have seen it, whatever comes of it: its number is not used again.
        self.used = self.used.checked_add(1)?;
        let keys = CallKeys::of(&self.secret, self.call.id, self.used);
        // It is less than any buffer of a connection on which nothing was sent yet.
        stream.set_nonblocking(true).ok()?;
        stream.write_all(&keys.ticket.shown()).ok()?;
        stream.set_nonblocking(false).ok()?;
        tcp_line(stream, link, (&keys, CallSide::Caller)).ok()
    }

    /// The other end hears nothing by the transport of that number.
    pub(super) fn unheard(&mut self, number: u32) {
        if (self.by, self.number) == (CallPath::Udp, number) {
            self.choice.unheard(now());
        }
    }

    /// Both ends sound from now on: what came of the time before says nothing.
    pub(super) fn begun(&mut self) {
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
        // One that is refused is one that does not come back.
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

fn no_keys() -> Failure {
    Failure::running("no keys are left for this call; hang up and call anew")
}

/// Any port of this host from which that address is reached.
fn any_port(far: SocketAddr) -> SocketAddr {
    SocketAddr::new(any(far.is_ipv6()), 0)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;
    use std::time::Duration;

    use tautline_dsp::format::SampleFormat;
    use tautline_proto::call::CallId;
    use tautline_proto::call::terms::{CallLatency, CallTerms, StreamTerms};
    use tautline_proto::units::{Channels, Rate};

    use super::super::connecting::tests::gated;
    use super::*;

    const SECRET: [u8; SECRET_BYTES] = [1; SECRET_BYTES];
    const CALL: CallId = CallId([7; 16]);

    /// The transports of a call that goes by UDP, and where the other end listens.
    fn by_udp() -> (Transports, CallLink, TcpListener) {
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
        let mut link = CallLink::of_nobody();
        let all = Transports::begin(&mut link, &call, CallMade::new(SECRET, called)).unwrap();
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

    /// UDP carries nothing, and a connection is to be made.
    fn wants_tcp(all: &mut Transports) {
        all.choice = PathChoice::new(&[CallPath::Tcp, CallPath::Udp], now());
    }

    /// Looks until it goes by the connection that is being made.
    fn until_moved(all: &mut Transports, link: &mut CallLink) {
        while !all.turn(link).unwrap() {
            assert!(all.connecting.is_some(), "it was given up");
            std::thread::yield_now();
        }
    }

    #[test]
    fn while_a_connection_is_made_the_sound_goes_by_what_there_is_and_nothing_waits() {
        let (mut all, mut link, there) = by_udp();
        wants_tcp(&mut all);
        let (open, connecting) = gated(all.called);
        all.connecting = Some(connecting);
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
        let (open, connecting) = gated(all.called);
        all.connecting = Some(connecting);
        assert!(!all.turn(&mut link).unwrap());
        all.choice.stay_by_udp(now());
        assert!(!all.turn(&mut link).unwrap());
        open.send(()).unwrap();
        assert!(said(&there, ticket(1).len()).is_empty(), "nobody wants it");
        assert_eq!(all.now(), (CallPath::Udp, 0));
        // The next one has the number that was not used, and the one after it another.
        wants_tcp(&mut all);
        for number in 1..=2 {
            let (open, connecting) = gated(all.called);
            all.connecting = Some(connecting);
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
        let (open, connecting) = gated(all.called);
        all.connecting = Some(connecting);
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
        let (open, connecting) = gated(all.called);
        all.connecting = Some(connecting);
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
}
