//! The called end: control connections, and seats for callers on two devices.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use tautline_api::call::{MediaTicket, fresh_call};
use tautline_api::trust::{HostKey, TrustStore};
use tautline_io::clock;
use tautline_io::link::muxed::FarAddress;
use tautline_proto::call::CallId;
use tautline_proto::call::answering::{Answering, AnsweringStep, CallLimits, ConnectionId};
use tautline_proto::call::message::{CallMessage, CallReason};
use tautline_proto::call::terms::{CallAdaptation, CallPath, CallTerms};
use tautline_proto::call::transport::{CalledTransport, SoundChange, TransportStep};
use tautline_proto::device::Direction;
use tautline_proto::stream::MAX_DATAGRAM_BYTES;
use tautline_proto::time::{LocalTime, Span};
use tautline_serving::{
    ApiServer, CalledConnection, ConnectionEvent, Listening, ServingNews, serve_calls,
};

use crate::devices::SharedDevices;
use crate::endpoint::{Endpoint, Setup};
use crate::terms::offer;
use crate::transport::{CalledKeys, bind, use_tcp, use_udp};
use crate::{
    BEAT, CallEvent, CallView, Config, DeviceChoice, DevicePair, Ended, EndedSound, Error, Event,
    Side, Standing, Watched, running,
};

const MAX_STALE: usize = 1024;
/// Maximum calls with sound. Each needs threads, and memory in the device callbacks.
const MAX_SOUNDING: u16 = 32;
const EVENTS: usize = 4096;
const LOOK_EVERY: Span = Span::from_secs(1);
const STRANGERS_TOLD: Span = Span::from_secs(60);
/// Timeout for peers to close after the last message.
const FAREWELL: Span = Span::from_millis(500);

const UNTRUSTED: &str =
    "the caller is no longer trusted; run taut trust NAME KEY on the called machine";

/// Server settings.
pub struct ServerConfig {
    /// Common settings.
    pub end: Config,
    /// TCP control address; UDP ports start at its number.
    pub listen: SocketAddr,
    /// Maximum callers.
    pub callers: u16,
    /// Maximum callers per machine.
    pub max_calls_per_host: Option<u16>,
    /// Whether callers hear each other.
    pub bridged: bool,
    /// Whether the codec follows the network in calls of callers that chose none.
    pub auto_format: bool,
    /// Whether calls are displayed.
    pub seen: bool,
}

/// A server; call `turn` repeatedly.
pub struct Server {
    config: ServerConfig,
    /// As opened.
    opened: DevicePair,
    /// As of the newest call.
    devices: DevicePair,
    server: ApiServer,
    happened: Receiver<ConnectionEvent>,
    answering: Answering,
    sockets: Vec<UdpSocket>,
    calls: BTreeMap<usize, Call>,
    ending: Vec<Endpoint>,
    ended: EndedSound,
    sounds: u64,
    recorded: u32,
    shared: SharedDevices,
    connections: BTreeMap<ConnectionId, CalledConnection>,
    probe: Box<[u8]>,
    due: LocalTime,
    strangers_reported: LocalTime,
    trust: Arc<TrustStore>,
    look_at: LocalTime,
    unreadable: Option<String>,
}

struct Call {
    who: String,
    keys: CalledKeys,
    endpoint: Option<Endpoint>,
    watched: Watched,
    /// Last address of a silent caller, to which nothing is sent.
    silent: Option<SocketAddr>,
    /// Each endpoint has its own keys; 0 before the first.
    number: u64,
}

impl Server {
    /// Listens and opens the devices. `news` must not block.
    pub fn open(
        config: ServerConfig,
        trust: Arc<TrustStore>,
        devices: DevicePair,
        news: impl Fn(&ServingNews) + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        let choice = DeviceChoice::alone(devices);
        let mut offer = offer(&config.end, &choice, Side::Called, &[CallPath::Udp, CallPath::Tcp]);
        let usual = offer.choose(&offer).map_err(|error| Error::Usage(error.to_string()))?;
        if config.auto_format {
            let codings = offer.there.codings.clone();
            offer.adapts = Some(CallAdaptation { codings, ..CallAdaptation::default() });
        }
        let (events, happened) = sync_channel(EVENTS);
        let listening = Listening { address: config.listen, trust: Some(Arc::clone(&trust)) };
        let server = serve_calls(&listening, events, news);
        let server = server.map_err(|error| Error::Open(error.to_string()))?;
        // The first caller uses the control port's number: one firewall rule is enough.
        let requested = config.listen.port() != 0;
        let sockets = seats(server.address(), requested, config.callers)?;
        let ports = sockets.iter().map(|socket| socket.local_addr().map(|at| at.port()));
        let ports = ports.collect::<std::io::Result<_>>().map_err(again)?;
        let sounding = usize::from(config.callers.min(MAX_SOUNDING));
        let limits =
            CallLimits::of(config.callers.into(), sounding, Some(trust.identity().key().bytes()));
        let limits = limits.each(config.max_calls_per_host.map(usize::from));
        let answering = Answering::new(offer, ports).limited(limits);
        let format = |way| Side::Called.terms(&usual, way).coding.sample;
        let formats = [Direction::Capture, Direction::Playback].map(format);
        let calls = (sounding, config.bridged);
        let mut shared = SharedDevices::open(&config.end, &devices, calls, formats)?;
        shared.run()?;
        if config.bridged && config.callers > 1 && !shared.are_bridged() {
            config.end.notify(Event::Note(
                "the two devices differ in rate or channels: callers do not hear one another"
                    .into(),
            ));
        }
        Ok(Self {
            config,
            opened: devices,
            devices,
            server,
            happened,
            answering,
            sockets,
            calls: BTreeMap::new(),
            ending: Vec::new(),
            ended: EndedSound::default(),
            sounds: 0,
            recorded: 0,
            shared,
            connections: BTreeMap::new(),
            probe: vec![0; MAX_DATAGRAM_BYTES].into(),
            due: LocalTime::ZERO,
            strangers_reported: LocalTime::ZERO,
            trust,
            look_at: LocalTime::ZERO,
            unreadable: None,
        })
    }

    /// Control address.
    pub const fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Mutes this machine for callers.
    pub fn mute(&self, muted: bool) {
        self.shared.mute(muted);
    }

    /// All calls, newest sound first.
    pub fn views(&self) -> Vec<CallView<'_>> {
        let mut calls: Vec<_> = self.calls.iter().collect();
        calls.sort_by_key(|(_, call)| core::cmp::Reverse(call.number));
        let view = calls.into_iter().map(|(seat, call)| {
            let path = self.answering.transport(*seat).map(|transport| transport.used().0);
            let sounding = path.filter(|_| call.endpoint.is_some());
            call.watched.view(&call.who, sounding.map_or(Standing::Held, Standing::By))
        });
        view.collect()
    }

    /// Does all due work; blocks for at most one beat. Returns `false` once the playback device or
    /// the server is gone.
    pub fn turn(&mut self) -> Result<bool, Error> {
        if self.shared.is_over() {
            return Ok(false);
        }
        let first = match self.happened.recv_timeout(left(self.due)) {
            Ok(event) => Some(event),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return Ok(false),
        };
        let now = clock::now();
        if let Some(event) = first {
            self.take(event, now)?;
            for _ in 0..EVENTS {
                let Ok(event) = self.happened.try_recv() else { break };
                self.take(event, now)?;
            }
        }
        self.answering.poll(now);
        self.turn_trust(now);
        for (seat, call) in &self.calls {
            if let Some(endpoint) = &call.endpoint {
                self.answering.received(*seat, endpoint.link.received(), now);
            }
        }
        self.take_steps();
        self.turn_calls(now);
        self.shared.turn();
        self.due = (now + BEAT).min(self.answering.deadline());
        Ok(true)
    }

    /// Hangs up all calls and waits until the messages are sent; then the peers close.
    pub fn hang_up(&mut self) {
        let connections = self.connections.len();
        self.answering.hang_up(&CallReason::new("taut serve ended there"));
        self.take_steps();
        self.connections.clear();
        let (mut gone, until) = (0, clock::now() + FAREWELL);
        while gone < connections && !left(until).is_zero() {
            match self.happened.recv_timeout(left(until)) {
                Ok(event) => gone += usize::from(matches!(event, ConnectionEvent::Gone(..))),
                Err(_) => break,
            }
        }
    }

    /// Stops; returns the newest reports and the first failure.
    pub fn finish(mut self) -> Result<Ended, Error> {
        let seats: Vec<_> = self.calls.keys().copied().collect();
        seats.into_iter().for_each(|seat| self.end(seat));
        core::mem::take(&mut self.ending).into_iter().for_each(|end| self.keep(end));
        self.server.stop();
        let [realigned, missed] = self.shared.end()?;
        if realigned + missed > 0 {
            self.config.end.notify(Event::Detail(format!(
                "sound between callers was realigned {realigned} times, and missing for {missed} periods"
            )));
        }
        Ok(self.ended.finish())
    }

    /// Hangs up untrusted callers, as a handshake checks the list only once. An unreadable list
    /// trusts no host; this is reported once.
    fn turn_trust(&mut self, now: LocalTime) {
        if now < self.look_at {
            return;
        }
        self.look_at = now + LOOK_EVERY;
        let is_trusted =
            |peer| self.trust.trusts_still(HostKey::new(peer), None).unwrap_or_default();
        self.answering.keep_trusted(is_trusted, &CallReason::new(UNTRUSTED), now);
        let unreadable = self.trust.trusted().hosts().err().map(|error| error.to_string());
        if let Some(why) = unreadable.clone().filter(|_| unreadable != self.unreadable) {
            self.config.end.notify(Event::Note(why));
        }
        self.unreadable = unreadable;
    }

    fn take(&mut self, event: ConnectionEvent, now: LocalTime) -> Result<(), Error> {
        match event {
            ConnectionEvent::Arrived(line) => {
                self.answering.arrived(line.id, line.peer.bytes(), now);
                self.connections.insert(line.id, *line);
            }
            ConnectionEvent::Said(line, message) => {
                if matches!(*message, CallMessage::Call { resumes: None, .. }) {
                    self.follow_devices();
                }
                let fresh = fresh_call().ok_or_else(|| {
                    running("cannot read random bytes\nhint: check that getrandom is allowed here")
                })?;
                self.answering.handle_message(line, *message, fresh, now);
            }
            ConnectionEvent::Media { ticket, stream, from, place: _ } => {
                self.take_connection(&ticket, stream, from, now)
            }
            ConnectionEvent::Gone(line, why) => {
                if let (Some(why), Some(whose)) = (why, self.connections.get(&line)) {
                    self.notify(who(whose), CallEvent::Fault(why));
                }
                self.answering.gone(line, now);
                self.connections.remove(&line);
            }
        }
        self.take_steps();
        Ok(())
    }

    /// The minimum latency of a call is that of the devices now.
    fn follow_devices(&mut self) {
        self.devices = self.opened.now(&self.config.end);
        let [sent, received] = self.devices.take();
        self.answering.set_takes(received, sent);
    }

    fn take_steps(&mut self) {
        while let Some(step) = self.answering.step() {
            match step {
                AnsweringStep::Say(line, message) => {
                    // A blocked connection is gone or will time out.
                    self.connections.get(&line).map(|line| line.event_sender.emit(message));
                }
                AnsweringStep::Close(line) => drop(self.connections.remove(&line)),
                AnsweringStep::Begin { place, line, call, terms } => {
                    let begun = self.begin(place, line, call, terms);
                    self.hang_up_if_failed(place, begun);
                }
                AnsweringStep::Resumed { line, .. } => {
                    if let Some(line) = self.connections.get(&line) {
                        self.notify(who(line), CallEvent::Resumed);
                    }
                }
                AnsweringStep::Change { place, terms, sound } => {
                    let changed = self.change(place, terms, sound);
                    self.hang_up_if_failed(place, changed);
                }
                AnsweringStep::Path { place, transport, is_used, .. } => {
                    if is_used && let Err(failure) = self.go_by_udp(place, transport) {
                        self.config.end.notify(Event::Note(failure.to_string()));
                    }
                }
                AnsweringStep::Away { place } => self.tell_of(place, CallEvent::Away(None)),
                AnsweringStep::Send { place, sends } => self.send(place, sends),
                AnsweringStep::End { place, why } => {
                    self.tell_of(place, CallEvent::Over(why));
                    self.end(place);
                }
                AnsweringStep::Refused { line, why } => {
                    let whose = self.connections.get(&line).map_or("a caller".to_owned(), who);
                    self.notify(whose, CallEvent::Rejected(why));
                }
            }
        }
    }

    fn notify(&self, who: String, event: CallEvent) {
        self.config.end.notify(Event::Call(who, event));
    }

    fn tell_of(&self, seat: usize, event: CallEvent) {
        let who = self.calls.get(&seat).map_or("a caller", |call| &call.who);
        self.notify(who.to_owned(), event);
    }

    fn hang_up_if_failed(&mut self, place: usize, done: Result<(), Error>) {
        if let Err(failure) = done {
            let why = failure.to_string();
            self.answering.hang_up_at(place, &CallReason::new(&why));
            self.config.end.notify(Event::Note(why));
        }
    }

    fn begin(
        &mut self,
        seat: usize,
        line: ConnectionId,
        call: CallId,
        terms: CallTerms,
    ) -> Result<(), Error> {
        let Some(line) = self.connections.get(&line) else { return Ok(()) };
        let (who, keys) = (who(line), CalledKeys::of(line.secret, call));
        self.end(seat);
        let (mut stale, socket) = ([0; 1], self.sockets.get(seat));
        for _ in 0..MAX_STALE {
            if socket.is_none_or(|socket| socket.recv_from(&mut stale).is_err()) {
                break;
            }
        }
        let call = Call {
            who: who.clone(),
            keys,
            endpoint: None,
            watched: Watched::default(),
            silent: None,
            number: 0,
        };
        self.calls.insert(seat, call);
        let sounds = terms.sound();
        if sounds {
            self.sound(seat, &terms, 0)?;
        }
        self.notify(who, CallEvent::Begun(sounds.then_some(terms)));
        Ok(())
    }

    fn change(&mut self, seat: usize, terms: CallTerms, sound: SoundChange) -> Result<(), Error> {
        let event = match sound {
            SoundChange::Begins(TransportStep::UseUdp(number)) => {
                self.sound(seat, &terms, number)?;
                CallEvent::Sounds(terms)
            }
            SoundChange::Ends => {
                self.hold(seat);
                CallEvent::Held
            }
            _ => {
                let endpoint = self.calls.get_mut(&seat).and_then(|call| call.endpoint.as_mut());
                let adopted = endpoint.map(|endpoint| endpoint.adopt(&terms, Side::Called));
                if let Some(Err(why)) = adopted {
                    self.tell_of(seat, CallEvent::CannotChange(why));
                }
                CallEvent::Changed(terms)
            }
        };
        self.tell_of(seat, event);
        Ok(())
    }

    fn sound(&mut self, seat: usize, terms: &CallTerms, number: u32) -> Result<(), Error> {
        let sounding = self.calls.values().filter(|call| call.endpoint.is_some()).count();
        let (Some(socket), Some(call)) = (self.sockets.get(seat), self.calls.get_mut(&seat)) else {
            return Ok(());
        };
        let (socket, keys) = (clone(socket)?, call.keys.keys(number));
        let part = self.shared.take()?;
        call.watched = Watched::default();
        let setup = Setup {
            config: &self.config.end,
            side: Side::Called,
            far: call.who.clone(),
            devices: self.devices,
            terms,
            muted: false,
            sounding: sounding + 1,
            monitors_stalls: sounding == 0,
            recorded_before: self.recorded,
            watched: self.config.seen.then_some(&call.watched),
        };
        let (endpoint, ()) = Endpoint::begin(&setup, part, |link| {
            use_udp(link, socket, FarAddress::Newest, (&keys, Side::Called))
        })?;
        if let Some(recordings) = &endpoint.recordings {
            self.recorded = recordings.calls();
        }
        self.sounds += 1;
        call.number = self.sounds;
        call.endpoint = Some(endpoint);
        Ok(())
    }

    fn hold(&mut self, seat: usize) {
        let call = self.calls.get_mut(&seat);
        if let Some(mut endpoint) = call.and_then(|call| call.endpoint.take()) {
            endpoint.stop();
            self.ending.push(endpoint);
        }
    }

    fn end(&mut self, seat: usize) {
        self.hold(seat);
        self.calls.remove(&seat);
    }

    fn keep(&mut self, endpoint: Endpoint) {
        let left = endpoint.end().unwrap_or_else(|failure| (Vec::new(), Err(failure)));
        if let Some(failed) = self.ended.keep(left) {
            self.config.end.notify(Event::Note(failed));
        }
    }

    fn send(&mut self, seat: usize, sends: bool) {
        let Some(call) = self.calls.get_mut(&seat) else { return };
        let Some(switch) = call.endpoint.as_ref().map(|endpoint| &endpoint.link.switch) else {
            return;
        };
        if !sends {
            call.silent = switch.far_end();
            if switch.stop_sending() {
                self.tell_of(seat, CallEvent::Silent);
            }
        } else if let (Some(last), None) = (call.silent.take(), switch.far_end()) {
            switch.redirect(last);
        }
    }

    fn go_by_udp(&mut self, seat: usize, number: u32) -> Result<(), Error> {
        let (Some(socket), Some(call)) = (self.sockets.get(seat), self.calls.get_mut(&seat)) else {
            return Ok(());
        };
        let Some(endpoint) = &mut call.endpoint else { return Ok(()) };
        let event = CallEvent::MovedTo(CallPath::Udp, None);
        self.config.end.notify(Event::Call(call.who.clone(), event));
        let (keys, far) = (call.keys.keys(number), FarAddress::Newest);
        use_udp(&mut endpoint.link, clone(socket)?, far, (&keys, Side::Called))
    }

    fn take_connection(
        &mut self,
        ticket: &MediaTicket,
        stream: TcpStream,
        from: SocketAddr,
        now: LocalTime,
    ) {
        let mut calls = self.calls.iter_mut();
        let expected = calls.find_map(|(seat, call)| {
            let number = call.keys.takes(ticket, self.answering.transport(*seat)?)?;
            Some((*seat, number, call))
        });
        let Some((seat, number, call)) = expected else {
            if now >= self.strangers_reported {
                self.strangers_reported = now + STRANGERS_TOLD;
                self.notify(from.ip().to_canonical().to_string(), CallEvent::Stranger);
            }
            return;
        };
        self.answering.connected(seat, number);
        let keys = call.keys.keys(number);
        let Some(endpoint) = &mut call.endpoint else { return };
        if use_tcp(&mut endpoint.link, stream, (&keys, Side::Called)).is_ok() {
            let event = CallEvent::MovedTo(CallPath::Tcp, None);
            self.config.end.notify(Event::Call(call.who.clone(), event));
        }
    }

    fn turn_calls(&mut self, now: LocalTime) {
        for (seat, call) in &mut self.calls {
            if let Some(socket) = self.sockets.get(*seat) {
                let used = self.answering.transport(*seat).map(CalledTransport::used);
                if used.is_some_and(|(path, _)| path == CallPath::Tcp) {
                    call.keys.answer_probes(socket, &mut self.probe);
                }
            }
            let Some(endpoint) = &mut call.endpoint else { continue };
            call.watched.look();
            endpoint.link.switch.collect();
            endpoint.follow_transport();
            if let Some(recordings) = &mut endpoint.recordings {
                recordings.turn(now);
            }
        }
        let over: Vec<_> = self.ending.extract_if(.., |end| end.has_ended()).collect();
        over.into_iter().for_each(|end| self.keep(end));
    }
}

fn seats(address: SocketAddr, requested: bool, callers: u16) -> Result<Vec<UdpSocket>, Error> {
    let seat = |seat| {
        let port = address.port().checked_add(seat).ok_or_else(|| {
            Error::Usage(format!(
                "fewer than {callers} UDP ports from {}\nhint: listen on a lower port, or reduce --max-callers",
                address.port()
            ))
        })?;
        let socket = match bind(SocketAddr::new(address.ip(), port)) {
            Err(_) if !requested => bind(SocketAddr::new(address.ip(), 0)),
            bound => bound,
        }?;
        socket.set_nonblocking(true).map_err(again)?;
        Ok(socket)
    };
    (0..callers).map(seat).collect()
}

fn again(error: std::io::Error) -> Error {
    running(format!("{error}\nhint: try again"))
}

fn clone(socket: &UdpSocket) -> Result<UdpSocket, Error> {
    socket.try_clone().map_err(|error| {
        running(format!("duplicating the UDP socket: {error}\nhint: raise ulimit -n"))
    })
}

fn left(until: LocalTime) -> Duration {
    Duration::from_nanos((until - clock::now()).max(Span::ZERO).as_nanos().unsigned_abs())
}

fn who(line: &CalledConnection) -> String {
    let address = line.from.ip().to_canonical();
    match &line.name {
        Some(name) => format!("{name} ({address})"),
        None => format!("this machine ({address})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_ports_are_replaced_unless_set_by_the_user() {
        let other = UdpSocket::bind("127.0.0.1:0").unwrap();
        let busy = other.local_addr().unwrap();
        let bound = |requested| seats(busy, requested, 1);
        let ports: Vec<_> =
            bound(false).unwrap().iter().map(|seat| seat.local_addr().unwrap().port()).collect();
        assert!(ports.len() == 1 && ports[0] != busy.port(), "{ports:?}");
        assert!(bound(true).is_err());
    }
}
