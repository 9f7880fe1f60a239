//! By what the sound of a call goes, at the end that calls: which transport is used, and the next one.

use std::io::Write;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use tautline_api::call::{CallKeys, PROBE_BYTES, PathProbes, ProbeWay};
use tautline_api::seal::SECRET_BYTES;
use tautline_io::clock::now;
use tautline_io::link::muxed::FarAddress;
use tautline_io::tcp::TcpWatch;
use tautline_io::udp::any;
use tautline_proto::call::caller::AgreedCall;
use tautline_proto::call::path::{PathChoice, PathStep};
use tautline_proto::call::terms::CallPath;
use tautline_proto::time::{LocalTime, Span};

use super::made::CallMade;
use crate::cmd::call_end::{CallLink, CallSide, bind, tcp_line, udp_line};
use crate::failure::Failure;

/// For a connection that is to carry sound.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);
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
    /// By what that goes.
    by: CallPath,
    heard: u64,
    watch: Option<TcpWatch>,
    again: LocalTime,
    probing: Option<UdpSocket>,
    probes: PathProbes,
    probed: u64,
}

impl Transports {
    /// Those of sound that begins.
    pub(super) fn begin(
        link: &mut CallLink,
        call: &AgreedCall,
        made: CallMade,
    ) -> Result<Self, Failure> {
        let CallMade { secret, called, .. } = made;
        let number = made.number().ok_or_else(|| {
            Failure::running("no keys are left for this call; hang up and call anew")
        })?;
        let keys = CallKeys::of(&secret, call.id, 0);
        let mut all = Self {
            secret,
            call: call.clone(),
            called,
            udp: SocketAddr::new(called.ip(), call.udp_port),
            choice: PathChoice::new(&call.terms.paths, now()),
            number,
            by: CallPath::Udp,
            heard: link.heard(),
            watch: None,
            again: now(),
            probing: None,
            probes: PathProbes::new(&keys.probe),
            probed: 0,
        };
        match all.choice.path() {
            CallPath::Udp => all.use_udp(link, bind(any_port(called))?)?,
            CallPath::Tcp => drop(all.use_tcp(link)),
        }
        Ok(all)
    }

    /// What is used, and its number.
    pub(super) const fn now(&self) -> (CallPath, u32) {
        (self.choice.path(), self.number)
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
        self.hear_probes();
        let lost = self.watch.as_ref().is_none_or(|watch| watch.lost().is_some());
        if self.choice.path() == CallPath::Tcp && lost && now() >= self.again {
            return Ok(self.use_tcp(link));
        }
        match self.choice.poll(now()) {
            Some(PathStep::Use(CallPath::Tcp)) => Ok(self.use_tcp(link)),
            Some(PathStep::Use(CallPath::Udp)) => {
                self.number += 1;
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
            None => Ok(false),
        }
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

    /// Whether there is a connection now; else it is tried again.
    fn use_tcp(&mut self, link: &mut CallLink) -> bool {
        let connected = TcpStream::connect_timeout(&self.called, CONNECT_LIMIT);
        let line = connected.ok().and_then(|mut stream| {
            // The other end may have seen it, whatever comes of it: its number is not used again.
            self.number += 1;
            let keys = self.keys();
            stream.set_write_timeout(Some(CONNECT_LIMIT)).ok()?;
            stream.write_all(&keys.ticket.shown()).ok()?;
            tcp_line(stream, link, (&keys, CallSide::Caller)).ok()
        });
        self.again = now() + AGAIN;
        let Some((line, watch)) = line else {
            self.watch = None;
            return false;
        };
        link.switch.exchange(line);
        (self.watch, self.by) = (Some(watch), CallPath::Tcp);
        true
    }

    /// Both ends sound from now on: what came of the time before says nothing.
    pub(super) fn begun(&mut self) {
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

/// Any port of this host from which that address is reached.
fn any_port(far: SocketAddr) -> SocketAddr {
    SocketAddr::new(any(far.is_ipv6()), 0)
}
