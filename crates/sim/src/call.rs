//! A call: the state machines of both ends ([`tautline_proto::call`]), their connections and
//! network.

use std::collections::BTreeMap;

use tautline_proto::call::CallId;
use tautline_proto::call::answering::{Answering, AnsweringStep, ConnectionId};
use tautline_proto::call::caller::{CallerEnd, CallerStep, NotAsked};
use tautline_proto::call::caller_session::{CallerAction, CallerSession};
use tautline_proto::call::message::{CALL_VERSION, CallMessage};
use tautline_proto::call::terms::{CallOffer, CallPath, CallTerms, StreamTerms};
use tautline_proto::call::transport::{
    CalledTransport, CallerTransport, SoundChange, TransportStep,
};
use tautline_proto::send_policy::BASE_BYTES;
use tautline_proto::time::{LocalTime, Span};

use crate::clock::TrueTime;
use crate::link::{Path, PathModel};

/// Interval between steps; all packet times are multiples of it.
const STEP: Span = Span::from_micros(2_500);
const BEAT: Span = Span::from_millis(20);
/// Timeouts of a control connection and of a sound connection.
const DIAL_LIMIT: Span = Span::from_secs(5);
const CONNECT_LIMIT: Span = Span::from_secs(2);
/// Bytes of RTP, timestamps and encryption.
const HEADS: usize = 48;

#[derive(Debug, Clone)]
pub struct Network {
    pub datagrams: [PathModel; 2],
    pub way: Span,
    /// Times without any packets, in order. Connection data arrives right afterwards.
    pub down: Vec<(TrueTime, TrueTime)>,
    /// Times with datagrams only: connections pass no data.
    pub starved: Vec<(TrueTime, TrueTime)>,
}

impl Network {
    fn is_down(&self, now: TrueTime) -> Option<TrueTime> {
        let mut all = self.down.iter().chain(&self.starved);
        all.find(|(from, to)| (*from..*to).contains(&now)).map(|(_, to)| *to)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Caller,
    Called,
}

use Side::{Called, Caller};

type Transport = (CallPath, u32);

enum Event {
    Dialled(bool),
    Connected(u32, bool),
    Said(Side, ConnectionId, Box<CallMessage>),
    Gone(Side, ConnectionId),
    Packet(Side, Transport),
    Ticket(u32),
    Probe(u64, usize),
    ProbeBack(u64),
}

struct Sound {
    terms: StreamTerms,
    transport: Transport,
    sent: u64,
    received: u64,
    received_at: TrueTime,
}

pub struct Call {
    network: Network,
    paths: [Path; 2],
    now: TrueTime,
    events: BTreeMap<(TrueTime, u64), Event>,
    numbers: [u64; 3],
    connecting: u32,
    gone: bool,
    offer: CallOffer,
    caller: CallerSession,
    line: Option<ConnectionId>,
    answering: Answering,
    sounds: [Option<Sound>; 2],
    sends_there: bool,
    pub silences: [Span; 2],
    pub log: Vec<(Span, String)>,
}

impl Call {
    pub fn new(mut network: Network, offer: &CallOffer, seed: u64) -> Self {
        for path in &mut network.datagrams {
            path.outages.extend(&network.down);
            path.outages.sort_by_key(|(from, _)| *from);
        }
        let [there, back] = network.datagrams.clone();
        Self {
            paths: [Path::new(there, seed), Path::new(back, seed + 1)],
            network,
            now: TrueTime::ZERO,
            events: BTreeMap::new(),
            numbers: [0; 3],
            connecting: 0,
            gone: false,
            offer: offer.clone(),
            caller: CallerSession::new(CallerEnd::new(offer.clone(), LocalTime::ZERO)),
            line: None,
            answering: Answering::new(offer.clone(), vec![7_000]),
            sounds: [None, None],
            sends_there: true,
            silences: [Span::ZERO; 2],
            log: Vec::new(),
        }
    }

    fn local(&self) -> LocalTime {
        LocalTime::ZERO + self.now.since(TrueTime::ZERO)
    }

    fn log(&mut self, what: impl Into<String>) {
        self.log.push((self.now.since(TrueTime::ZERO), what.into()));
    }

    pub fn when(&self, what: &str) -> Vec<Span> {
        self.log.iter().filter(|(_, one)| one == what).map(|(when, _)| *when).collect()
    }

    pub fn sends(&self, side: Side) -> Option<(StreamTerms, Transport)> {
        self.sounds[side as usize].as_ref().map(|sound| (sound.terms, sound.transport))
    }

    pub fn hold(&mut self, held: bool) -> Result<(), NotAsked> {
        self.caller.control.hold(held, &self.offer.paths)
    }

    pub const fn vanish_called(&mut self) {
        self.gone = true;
    }

    pub fn start_called(&mut self) {
        self.gone = false;
        self.answering = Answering::new(self.offer.clone(), vec![7_000]);
        self.sounds[1] = None;
    }

    pub fn run(&mut self, until: Span) {
        while self.now.since(TrueTime::ZERO) < until {
            while let Some(event) = self.events.first_entry()
                && event.key().0 <= self.now
            {
                let event = event.remove();
                self.happen(event);
            }
            if self.is_at(BEAT) {
                self.beat();
            }
            self.send(Caller);
            if !self.gone {
                self.send(Called);
            }
            self.now = self.now.after(STEP);
        }
    }

    fn is_at(&self, every: Span) -> bool {
        self.now.as_nanos() % every.as_nanos() == 0
    }

    fn at(&mut self, at: TrueTime, event: Event) {
        self.numbers[0] += 1;
        self.events.insert((at, self.numbers[0]), event);
    }

    fn carry(&mut self, event: Event) {
        let from = self.network.is_down(self.now).unwrap_or(self.now);
        self.at(from.after(self.network.way), event);
    }

    fn connect(&mut self, limit: Span, round_trips: i64, event: impl FnOnce(bool) -> Event) {
        let fails = self.network.is_down(self.now).is_some() || self.gone;
        let takes = if fails { limit } else { self.network.way.times(2 * round_trips) };
        self.at(self.now.after(takes), event(!fails));
    }

    fn happen(&mut self, event: Event) {
        let now = self.local();
        let is_called = match &event {
            Event::Said(to, ..) | Event::Gone(to, _) | Event::Packet(to, ..) => *to == Called,
            Event::Ticket(_) | Event::Probe(..) => true,
            Event::Dialled(_) | Event::Connected(..) | Event::ProbeBack(_) => false,
        };
        if is_called && self.gone {
            return;
        }
        match event {
            Event::Dialled(true) => {
                self.numbers[1] += 1;
                let line = ConnectionId(self.numbers[1]);
                self.line = Some(line);
                self.answering.arrived(line, [1; 32], now);
                self.caller.control.connected(CALL_VERSION, now);
            }
            Event::Dialled(false) => self.caller.control.line_lost(now),
            Event::Said(Caller, line, message) if self.line == Some(line) => {
                self.caller.control.handle_message(*message, now);
            }
            Event::Gone(Caller, line) if self.line == Some(line) => {
                self.line = None;
                self.caller.control.line_lost(now);
            }
            Event::Said(Called, line, message) => {
                self.numbers[2] += 1;
                let fresh = CallId([self.numbers[2] as u8; 16]);
                self.answering.handle_message(line, *message, fresh, now);
            }
            Event::Gone(Called, line) => self.answering.gone(line, now),
            Event::Said(..) | Event::Gone(..) => {}
            Event::Connected(number, made) => self.connected(number, made),
            Event::Packet(to, transport) => self.receive(to, transport),
            Event::Ticket(number) => {
                let follows = self.answering.transport(0);
                if follows.is_some_and(|one| one.expected().any(|expected| expected == number)) {
                    self.answering.connected(0, number);
                    self.follow();
                }
            }
            Event::Probe(probe, bytes) => {
                let used = self.answering.transport(0).map(CalledTransport::used);
                if used.is_some_and(|(path, _)| path == CallPath::Tcp) {
                    self.datagram(Called, bytes, Event::ProbeBack(probe));
                }
            }
            Event::ProbeBack(probe) => {
                let transport = self.caller.transport_mut();
                transport.into_iter().for_each(|transport| transport.probe_back(probe));
            }
        }
        self.take_steps();
    }

    fn beat(&mut self) {
        let now = self.local();
        if let (Some(transport), Some(sound)) = (self.caller.transport_mut(), &self.sounds[0]) {
            transport.observe(sound.received, sound.sent, false, now);
        }
        self.caller.poll(now);
        self.take_steps();
        if !self.gone {
            self.answering.poll(now);
            if let Some(sound) = &self.sounds[1] {
                self.answering.received(0, sound.received, now);
            }
        }
        self.take_steps();
    }

    fn take_transport(&mut self, step: TransportStep) {
        match step {
            TransportStep::Connect => {
                self.connecting += 1;
                let number = self.connecting;
                self.connect(CONNECT_LIMIT, 1, |made| Event::Connected(number, made));
            }
            TransportStep::UseUdp(number) => self.goes_by((CallPath::Udp, number)),
            TransportStep::Probe(probe) => {
                let call = self.caller.control.call();
                let bytes = call.map_or(0, |call| call.terms.datagram_bytes());
                self.datagram(Caller, bytes, Event::Probe(probe, bytes));
            }
            TransportStep::Report(way) => self.log(format!("no datagrams: {way:?}")),
            TransportStep::UsedUp => self.log("no number is left"),
        }
    }

    fn connected(&mut self, connection: u32, made: bool) {
        let now = self.local();
        let is_newest = connection == self.connecting;
        let transport = self.caller.transport_mut();
        let transport = transport.filter(|one| is_newest && one.is_connecting());
        let Some(transport) = transport else { return };
        match made.then(|| transport.connected(now)).flatten() {
            Some(number) => {
                transport.goes_by_tcp();
                self.carry(Event::Ticket(number));
                self.goes_by((CallPath::Tcp, number));
            }
            None => transport.not_connected(now),
        }
    }

    fn goes_by(&mut self, used: Transport) {
        self.sounds[0].iter_mut().for_each(|sound| sound.transport = used);
        self.log(format!("by {}", used.0.name()));
    }

    fn follow(&mut self) {
        if let (Some(follows), Some(sound)) = (self.answering.transport(0), &mut self.sounds[1]) {
            sound.transport = follows.used();
        }
    }

    fn take_steps(&mut self) {
        loop {
            if let Some(step) = self.caller.action(self.local()) {
                self.take_callers(step);
            } else if let Some(step) = self.answering.step() {
                self.take_answerers(step);
            } else {
                return;
            }
        }
    }

    fn take_callers(&mut self, action: CallerAction) {
        match action {
            CallerAction::Begin(call, sound) => {
                self.log("begins");
                self.adopt(&call.terms, sound);
            }
            CallerAction::Change(terms, sound) => self.adopt(&terms, sound),
            CallerAction::Transport(step) => self.take_transport(step),
            CallerAction::Control(step) => self.take_control(step),
            CallerAction::Moved(_) => {}
        }
    }

    fn take_control(&mut self, step: CallerStep) {
        match step {
            CallerStep::Dial => {
                self.log("dials");
                self.connect(DIAL_LIMIT, 2, Event::Dialled);
            }
            CallerStep::Say(message) => {
                if let Some(line) = self.line {
                    self.carry(Event::Said(Called, line, message.into()));
                }
            }
            CallerStep::Close => {
                if let Some(line) = self.line.take() {
                    self.carry(Event::Gone(Called, line));
                }
            }
            CallerStep::Away => self.log("away"),
            CallerStep::Resumed => self.log("resumes"),
            CallerStep::TurnedAway(why) => self.log(format!("turned away: {}", why.as_str())),
            CallerStep::Over(over) => self.log(format!("over: {over:?}")),
            _ => {}
        }
    }

    fn adopt(&mut self, terms: &CallTerms, sound: SoundChange) {
        match sound {
            SoundChange::Begins(first) | SoundChange::Restarts(first) => {
                let used = self.caller.transport().map(CallerTransport::used);
                self.sounds[0] = used.map(|used| Sound::new(terms.there, used, self.now));
                self.log("sounds");
                self.take_transport(first);
            }
            SoundChange::GoesOn => {
                self.sounds[0].iter_mut().for_each(|sound| sound.terms = terms.there);
            }
            SoundChange::Ends => {
                if self.sounds[0].take().is_some() {
                    self.log("silent");
                }
            }
        }
    }

    fn take_answerers(&mut self, step: AnsweringStep) {
        match step {
            AnsweringStep::Say(line, message) => {
                self.carry(Event::Said(Caller, line, message.into()));
            }
            AnsweringStep::Close(line) => self.carry(Event::Gone(Caller, line)),
            AnsweringStep::Begin { terms, .. } => self.sound_there(&terms),
            AnsweringStep::Change { terms, sound: SoundChange::GoesOn, .. } => {
                self.sounds[1].iter_mut().for_each(|sound| sound.terms = terms.back);
            }
            AnsweringStep::Change { terms, .. } => self.sound_there(&terms),
            AnsweringStep::Path { is_used: true, .. } => self.follow(),
            AnsweringStep::Path { .. } => {}
            AnsweringStep::Away { .. } => self.log("away there"),
            AnsweringStep::Resumed { .. } => self.log("resumed there"),
            AnsweringStep::Send { sends, .. } => {
                self.log(if sends { "sends there" } else { "stops there" });
                self.sends_there = sends;
            }
            AnsweringStep::End { .. } => {
                self.sounds[1] = None;
                self.log("over there");
            }
            AnsweringStep::Refused { why, .. } => self.log(format!("refused: {}", why.as_str())),
        }
    }

    fn sound_there(&mut self, terms: &CallTerms) {
        let used = self.answering.transport(0).filter(|_| terms.sound()).map(CalledTransport::used);
        self.sounds[1] = used.map(|used| Sound::new(terms.back, used, self.now));
        self.sends_there = true;
    }

    fn datagram(&mut self, from: Side, bytes: usize, event: Event) {
        let mut arrived = None;
        self.paths[from as usize].carry(bytes, self.now, |at| arrived = arrived.or(Some(at)));
        if let Some(at) = arrived {
            self.at(at, event);
        }
    }

    fn send(&mut self, from: Side) {
        let to = if from == Caller { Called } else { Caller };
        let now = self.now;
        let by_tcp = self.network.is_down(now).unwrap_or(now).after(self.network.way);
        if from == Called && !self.sends_there {
            return;
        }
        let Some(sound) = &mut self.sounds[from as usize] else { return };
        let transport = sound.transport;
        if now.as_nanos() % sound.terms.ptime.as_nanos() == 0 {
            let bytes = sound.terms.format(0).map_or(0, |format| format.payload_bytes()) + HEADS;
            // Another scenario tests the search for this maximum length.
            let bytes = bytes.min(BASE_BYTES);
            let mut arrived = (transport.0 == CallPath::Tcp).then_some(by_tcp);
            if transport.0 == CallPath::Udp {
                self.paths[from as usize].carry(bytes, now, |at| arrived = arrived.or(Some(at)));
            }
            sound.sent += 1;
            if let Some(at) = arrived {
                self.at(at, Event::Packet(to, transport));
            }
        }
    }

    /// Each transport has its own keys, so an end accepts only packets of its current transport.
    fn receive(&mut self, to: Side, transport: Transport) {
        let now = self.now;
        let sound = self.sounds[to as usize].as_mut();
        if let Some(sound) = sound.filter(|sound| sound.transport == transport) {
            let silence = &mut self.silences[to as usize];
            *silence = (*silence).max(now.since(sound.received_at));
            (sound.received, sound.received_at) = (sound.received + 1, now);
        }
    }
}

impl Sound {
    const fn new(terms: StreamTerms, transport: Transport, now: TrueTime) -> Self {
        Self { terms, transport, sent: 0, received: 0, received_at: now }
    }
}
