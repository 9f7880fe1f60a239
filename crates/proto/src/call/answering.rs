//! State machine of the called end and all its callers.

use std::collections::VecDeque;

use super::message::{
    CALL_VERSION, CallMessage, CallReason, MAX_VERSION, OLDEST_CALL_VERSION, REDUNDANCY_VERSION,
    UNHEARD_VERSION,
};
use super::terms::{CallLatency, CallOffer, CallPath, CallTerms, Unsupported};
use super::transport::{CalledTransport, SoundChange, TransportStep};
use super::{CALL_KEPT, CallId, LINE_DEAD};
use crate::time::{LocalTime, Span};

/// Time without any packet or message of the caller, after which audio to it stops: it would fill a
/// network that carries less, and a caller that left could not call again. It exceeds [`LINE_DEAD`].
const SENT_UNHEARD: Span = Span::from_secs(5);
const SAY_WHAT: Span = Span::from_secs(5);
/// Maximum burst of messages on a connection.
const MAX_AT_ONCE: u32 = 32;
/// Interval at which the allowance grows by one message.
const ONE_MORE: Span = Span::from_millis(100);

/// Control connection, numbered by the driver. Numbers are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

/// Proven public key of a peer.
pub type ConnectionPeer = [u8; 32];

/// Next action of the driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnsweringStep {
    /// Send this message.
    Say(ConnectionId, CallMessage),
    /// Close this connection.
    Close(ConnectionId),
    /// A call begins. Its keys derive from the connection.
    Begin {
        /// Place, counted from 0.
        place: usize,
        /// Control connection.
        line: ConnectionId,
        /// Identifier.
        call: CallId,
        /// Agreed terms.
        terms: CallTerms,
    },
    /// A call resumes on this connection.
    Resumed {
        /// Place.
        place: usize,
        /// Control connection.
        line: ConnectionId,
    },
    /// A call has new terms.
    Change {
        /// Place.
        place: usize,
        /// Agreed terms.
        terms: CallTerms,
        /// Effect on the audio.
        sound: SoundChange,
    },
    /// The caller announces its transport.
    Path {
        /// Place.
        place: usize,
        /// Path.
        path: CallPath,
        /// Number.
        transport: u32,
        /// Whether to use it now. A TCP connection is used on arrival ([`Answering::connected`]).
        is_used: bool,
    },
    /// The call has lost its control connection. Audio continues.
    Away {
        /// Place.
        place: usize,
    },
    /// Send audio to the caller, or stop it, because no packet or message arrives. A packet of the
    /// caller starts it, too.
    Send {
        /// Place.
        place: usize,
        /// Whether to send.
        sends: bool,
    },
    /// A call is over.
    End {
        /// Place.
        place: usize,
        /// Reason.
        why: CallReason,
    },
    /// A connection was refused.
    Refused {
        /// Control connection.
        line: ConnectionId,
        /// Reason.
        why: CallReason,
    },
}

/// Limits on simultaneous calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallLimits {
    /// Calls with audio; others are on hold.
    pub sounding: usize,
    /// Calls per peer.
    pub of_a_peer: usize,
    /// Calls with audio per peer.
    pub sounding_of_a_peer: usize,
    /// Peer without limits: this machine's own key.
    pub own: Option<ConnectionPeer>,
}

impl CallLimits {
    /// Limits each peer but this machine to half of all places and half of those with audio,
    /// rounded up.
    pub fn of(places: usize, sounding: usize, own: Option<ConnectionPeer>) -> Self {
        let (of_a_peer, sounding_of_a_peer) = (places.div_ceil(2), sounding.div_ceil(2));
        Self { sounding, of_a_peer, sounding_of_a_peer, own }
    }

    /// Sets the limits per peer, at least 1. `None` keeps them.
    #[must_use]
    pub fn each(self, each: Option<usize>) -> Self {
        let each = each.map(|each| each.max(1));
        let of_a_peer = each.unwrap_or(self.of_a_peer);
        let sounding_of_a_peer = each.unwrap_or(self.sounding_of_a_peer);
        Self { of_a_peer, sounding_of_a_peer, ..self }
    }
}

#[derive(Debug)]
struct AnsweredConnection {
    id: ConnectionId,
    peer: ConnectionPeer,
    /// Oldest supported one before the first message.
    version: u32,
    received: LocalTime,
    place: Option<usize>,
    credit: u32,
    credited: LocalTime,
}

#[derive(Debug)]
struct HeldCall {
    id: CallId,
    peer: ConnectionPeer,
    offer: CallOffer,
    terms: CallTerms,
    /// Maximum latency, fixed when the audio begins.
    room: Span,
    transport: CalledTransport,
    line: Option<ConnectionId>,
    packets: u64,
    /// Loss of the control connection or the last packet, whichever is later.
    alive: LocalTime,
    /// Last packet, or the begin of the audio.
    received: LocalTime,
    /// Whether the caller is silent, so that this end sends nothing.
    is_silent: bool,
}

impl HeldCall {
    /// Time at which this end stops sending. `line` is the time of the last message.
    fn silent_at(&self, line: Option<LocalTime>) -> LocalTime {
        match self.terms.sound() {
            true => line.map_or(self.received, |line| line.max(self.received)) + SENT_UNHEARD,
            false => LocalTime::NEVER,
        }
    }
}

/// State machine of the called end. Methods take the current time.
#[derive(Debug)]
pub struct Answering {
    offer: CallOffer,
    limits: CallLimits,
    udp_ports: Vec<u16>,
    calls: Vec<Option<HeldCall>>,
    lines: Vec<AnsweredConnection>,
    steps: VecDeque<AnsweringStep>,
}

impl Answering {
    /// Creates a called end with one place per UDP port.
    pub fn new(offer: CallOffer, udp_ports: Vec<u16>) -> Self {
        let calls: Vec<_> = udp_ports.iter().map(|_| None).collect();
        let all = calls.len();
        let limits =
            CallLimits { sounding: all, of_a_peer: all, sounding_of_a_peer: all, own: None };
        Self { offer, limits, udp_ports, calls, lines: Vec::new(), steps: VecDeque::new() }
    }

    /// Sets the devices' share of received and sent latency, for later calls and changes.
    pub const fn set_takes(&mut self, received: Span, sent: Span) {
        (self.offer.there.takes, self.offer.back.takes) = (Some(received), Some(sent));
    }

    /// Sets the limits.
    #[must_use]
    pub fn limited(self, limits: CallLimits) -> Self {
        Self { limits, ..self }
    }

    /// Number of calls.
    pub fn calls(&self) -> usize {
        self.calls.iter().flatten().count()
    }

    /// Adds a connection of a peer with a proven key.
    pub fn arrived(&mut self, id: ConnectionId, peer: ConnectionPeer, now: LocalTime) {
        let (place, credit) = (None, MAX_AT_ONCE);
        let version = OLDEST_CALL_VERSION;
        self.lines.push(AnsweredConnection {
            id,
            peer,
            version,
            received: now,
            place,
            credit,
            credited: now,
        });
    }

    /// Removes a lost or closed connection.
    pub fn gone(&mut self, line: ConnectionId, now: LocalTime) {
        let Some(at) = self.lines.iter().position(|one| one.id == line) else { return };
        let AnsweredConnection { place, .. } = self.lines.swap_remove(at);
        let Some((place, call)) =
            place.and_then(|place| Some((place, self.calls[place].as_mut()?)))
        else {
            return;
        };
        if call.line == Some(line) {
            call.line = None;
            call.alive = now;
            self.steps.push_back(AnsweringStep::Away { place });
        }
    }

    /// Handles a message. `fresh` is a random identifier for a new call.
    pub fn handle_message(
        &mut self,
        line: ConnectionId,
        message: CallMessage,
        fresh: CallId,
        now: LocalTime,
    ) {
        let Some(at) = self.lines.iter().position(|one| one.id == line) else { return };
        if !self.lines[at].may_say(now) {
            return self.refuse(line, "too many messages; update taut", now);
        }
        if let CallMessage::Call { version, .. } = &message {
            self.lines[at].version = *version;
        }
        let place = self.lines[at].place;
        match (message, place) {
            (CallMessage::Call { version, .. }, _)
                if !(OLDEST_CALL_VERSION..=CALL_VERSION).contains(&version) =>
            {
                let why = format!(
                    "unsupported call protocol version {version}: must be {OLDEST_CALL_VERSION} to {CALL_VERSION}; update the \
                     older taut"
                );
                self.refuse(line, why, now);
            }
            (CallMessage::Call { resumes: Some(id), .. }, None) => self.resume(at, id, now),
            (CallMessage::Call { offer, .. }, None) => self.begin(at, offer, fresh, now),
            (CallMessage::Ping, _) => self.emit(line, CallMessage::Pong),
            (CallMessage::Change(terms), Some(place)) => self.change(line, place, terms, now),
            (CallMessage::Path { path, transport }, Some(place)) => {
                let call = self.calls[place].as_mut();
                let is_used = call.is_some_and(|call| call.transport.announced(path, transport));
                self.steps.push_back(AnsweringStep::Path { place, path, transport, is_used });
            }
            (CallMessage::Bye(why), place) => {
                self.close(line);
                if let Some(place) = place {
                    self.end(place, why);
                }
            }
            (CallMessage::Pong, _) => {}
            _ => self.refuse(line, "unexpected message; update taut", now),
        }
    }

    fn begin(&mut self, at: usize, offer: CallOffer, fresh: CallId, now: LocalTime) {
        let AnsweredConnection { id: line, peer, version, .. } = self.lines[at];
        let mut terms = match offer.choose(&self.offer) {
            Ok(terms) => terms,
            Err(why) => return self.refuse(line, why.to_string(), now),
        };
        // Older versions reject this latency.
        if version < MAX_VERSION && terms.latency.kept().is_none() {
            terms.latency = CallLatency::AUTO;
        }
        terms.redundancy = terms.redundancy.filter(|_| version >= REDUNDANCY_VERSION);
        let place = match self.place_for(peer) {
            Ok(place) => place,
            Err(why) => return self.refuse(line, why, now),
        };
        if terms.sound()
            && let Err(why) = self.sound_for(peer, place)
        {
            return self.refuse(line, why, now);
        }
        if self.calls[place].is_some() {
            self.end(place, CallReason::new("replaced by a new call of the same caller"));
        }
        let mut transport = CalledTransport::new(now);
        if terms.sound() {
            let _ = transport.begin(now);
        }
        self.calls[place] = Some(HeldCall {
            id: fresh,
            peer,
            offer,
            terms: terms.clone(),
            room: terms.room(),
            transport,
            line: Some(line),
            packets: 0,
            alive: now,
            received: now,
            is_silent: false,
        });
        self.lines[at].place = Some(place);
        let udp_port = self.udp_ports[place];
        self.steps.push_back(AnsweringStep::Begin {
            place,
            line,
            call: fresh,
            terms: terms.clone(),
        });
        self.emit(line, CallMessage::Accepted { call: fresh, terms, udp_port });
    }

    /// The peer's call without a connection (a restarted program calls again), or a free place.
    fn place_for(&self, peer: ConnectionPeer) -> Result<usize, String> {
        let left = |call: &HeldCall| call.peer == peer && call.line.is_none();
        let calls = || self.calls.iter();
        if let Some(place) = calls().position(|call| call.as_ref().is_some_and(left)) {
            return Ok(place);
        }
        let maximum = self.calls.len();
        let free = calls().position(Option::is_none).ok_or_else(|| {
            format!(
                "busy: maximum of calls reached ({maximum}); call later, or raise it there (taut serve --max-callers)"
            )
        })?;
        let held = calls().flatten().filter(|call| call.peer == peer).count();
        if held >= self.limits.of_a_peer && self.limits.own != Some(peer) {
            return Err(format!(
                "busy: {held} of {maximum} calls are with your machine, the limit per host; end one, or raise the limit \
                 there (taut serve --max-calls-per-host)"
            ));
        }
        Ok(free)
    }

    /// Does not count the current call of this place.
    fn sound_for(&self, peer: ConnectionPeer, place: usize) -> Result<(), String> {
        let calls = self.calls.iter().enumerate().filter(|(at, _)| *at != place);
        let sounding =
            calls.filter_map(|(_, call)| call.as_ref()).filter(|call| call.terms.sound());
        let (mut all, mut own) = (0, 0);
        for call in sounding {
            all += 1;
            own += usize::from(call.peer == peer);
        }
        let maximum = self.limits.sounding;
        if all >= maximum {
            return Err(format!(
                "busy: maximum of calls with audio reached ({maximum}); hold one of them, or call later"
            ));
        }
        if own >= self.limits.sounding_of_a_peer && self.limits.own != Some(peer) {
            return Err(format!(
                "busy: {own} of {maximum} calls with audio are with your machine, the limit per host; hold one of yours"
            ));
        }
        Ok(())
    }

    fn resume(&mut self, at: usize, id: CallId, now: LocalTime) {
        let AnsweredConnection { id: line, peer, .. } = self.lines[at];
        let known = |call: &HeldCall| call.id == id && call.peer == peer;
        let place = self.calls.iter().position(|call| call.as_ref().is_some_and(known));
        let Some((place, call)) =
            place.and_then(|place| Some((place, self.calls[place].as_mut()?)))
        else {
            return self.refuse(line, "the call is over or unknown", now);
        };
        // The previous connection may be dead, without a timeout yet.
        let before = call.line.replace(line);
        self.lines[at].place = Some(place);
        if let Some(before) = before {
            self.close(before);
        }
        self.steps.push_back(AnsweringStep::Resumed { place, line });
        self.emit(line, CallMessage::Resumed);
    }

    fn change(&mut self, line: ConnectionId, place: usize, mut terms: CallTerms, now: LocalTime) {
        terms.adapts = terms.adapts.map(|requested| requested.within(&self.offer));
        let Some(call) = &self.calls[place] else { return };
        let refused = unlike(&call.terms, &terms, &self.offer);
        if let Some(why) = refused {
            return self.emit(line, CallMessage::Kept(CallReason::new(why.to_string())));
        }
        let kept = terms.kept(&call.offer, &self.offer);
        if kept != terms.latency {
            let why = format!(
                "the packets, devices and network need at least {kept}; request at least that, or shorter packets"
            );
            return self.emit(line, CallMessage::Kept(CallReason::new(why)));
        }
        let begins = terms.sound() && !call.terms.sound();
        let room = if begins { terms.room() } else { call.room };
        if let Some(requested) = terms.latency.beyond(room) {
            let why = format!(
                "a latency of {requested} exceeds the buffers of this call, {room}; hang up and call again with that --latency"
            );
            return self.emit(line, CallMessage::Kept(CallReason::new(why)));
        }
        if begins && let Err(why) = self.sound_for(call.peer, place) {
            return self.emit(line, CallMessage::Kept(CallReason::new(why)));
        }
        let Some(call) = &mut self.calls[place] else { return };
        if begins && !call.transport.begin(now) {
            let why = "no keys are left for this call; call again";
            return self.hang_up_at(place, &CallReason::new(why));
        }
        (call.terms, call.room) = (terms.clone(), room);
        if begins {
            (call.received, call.is_silent) = (now, false);
        }
        let sound = match (begins, terms.sound()) {
            (true, _) => SoundChange::Begins(TransportStep::UseUdp(call.transport.used().1)),
            (false, true) => SoundChange::GoesOn,
            (false, false) => SoundChange::Ends,
        };
        self.steps.push_back(AnsweringStep::Change { place, terms: terms.clone(), sound });
        self.emit(line, CallMessage::Changed(terms));
    }

    /// Transport of this call.
    pub fn transport(&self, place: usize) -> Option<&CalledTransport> {
        self.calls.get(place)?.as_ref().map(|call| &call.transport)
    }

    /// Switches to an arrived TCP connection.
    pub fn connected(&mut self, place: usize, number: u32) {
        let call = self.calls.get_mut(place).and_then(Option::as_mut);
        call.into_iter().for_each(|call| call.transport.goes_by_tcp(number));
    }

    /// Updates the number of authenticated packets.
    pub fn received(&mut self, place: usize, packets: u64, now: LocalTime) {
        let Some(call) = self.calls.get_mut(place).and_then(Option::as_mut) else { return };
        if call.packets != packets {
            (call.packets, call.alive, call.received) = (packets, now, now);
        }
        if let Some(number) = call.transport.poll(packets, now) {
            self.not_received(place, number);
        }
    }

    /// Reports to the caller that this transport is silent, if its version allows.
    pub fn not_received(&mut self, place: usize, transport: u32) {
        let line = self.calls.get(place).and_then(|call| call.as_ref()?.line);
        let reads = |line: &&AnsweredConnection| line.version >= UNHEARD_VERSION;
        let line = self.lines.iter().filter(reads).find(|one| Some(one.id) == line);
        if let Some(line) = line.map(|line| line.id) {
            self.emit(line, CallMessage::NotReceived { transport });
        }
    }

    fn emit(&mut self, line: ConnectionId, message: CallMessage) {
        self.steps.push_back(AnsweringStep::Say(line, message));
    }

    fn refuse(&mut self, line: ConnectionId, why: impl AsRef<str>, now: LocalTime) {
        let why = CallReason::new(why);
        self.emit(line, CallMessage::Refused(why.clone()));
        self.steps.push_back(AnsweringStep::Refused { line, why });
        self.steps.push_back(AnsweringStep::Close(line));
        self.gone(line, now);
    }

    fn close(&mut self, line: ConnectionId) {
        self.steps.push_back(AnsweringStep::Close(line));
        self.lines.retain(|one| one.id != line);
    }

    fn end(&mut self, place: usize, why: CallReason) {
        if self.calls[place].take().is_some() {
            self.lines
                .iter_mut()
                .filter(|line| line.place == Some(place))
                .for_each(|line| line.place = None);
            self.steps.push_back(AnsweringStep::End { place, why });
        }
    }

    /// Ends all calls.
    pub fn hang_up(&mut self, why: &CallReason) {
        (0..self.calls.len()).for_each(|place| self.hang_up_at(place, why));
    }

    /// Ends this call, if any.
    pub fn hang_up_at(&mut self, place: usize, why: &CallReason) {
        let Some(call) = self.calls.get(place) else { return };
        if let Some(line) = call.as_ref().and_then(|call| call.line) {
            self.emit(line, CallMessage::Bye(why.clone()));
            self.close(line);
        }
        self.end(place, why.clone());
    }

    /// Ends calls and connections of untrusted peers.
    pub fn keep_trusted(
        &mut self,
        is_trusted: impl Fn(ConnectionPeer) -> bool,
        why: &CallReason,
        now: LocalTime,
    ) {
        for place in 0..self.calls.len() {
            let call = self.calls[place].as_ref();
            if call.is_some_and(|call| !is_trusted(call.peer)) {
                self.hang_up_at(place, why);
            }
        }
        let strangers = self.lines.iter().filter(|line| !is_trusted(line.peer));
        for line in strangers.map(|line| line.id).collect::<Vec<_>>() {
            self.refuse(line, why.as_str(), now);
        }
    }

    /// Handles timeouts.
    pub fn poll(&mut self, now: LocalTime) {
        let dead = |line: &AnsweredConnection| now >= line.dead_at();
        while let Some(line) = self.lines.iter().find(|line| dead(line)).map(|line| line.id) {
            self.steps.push_back(AnsweringStep::Close(line));
            self.gone(line, now);
        }
        for (place, call) in self.calls.iter_mut().enumerate() {
            let Some(call) = call else { continue };
            let is_silent = now >= call.silent_at(last_message(&self.lines, call));
            if core::mem::replace(&mut call.is_silent, is_silent) != is_silent {
                self.steps.push_back(AnsweringStep::Send { place, sends: !is_silent });
            }
        }
        for place in 0..self.calls.len() {
            let over = self.calls[place].as_ref();
            if over.is_some_and(|call| call.line.is_none() && now >= call.alive + CALL_KEPT) {
                self.end(
                    place,
                    CallReason::new(format!("no connection and no packet for {CALL_KEPT}")),
                );
            }
        }
    }

    /// Time of the next [`Self::poll`], or [`LocalTime::NEVER`].
    pub fn deadline(&self) -> LocalTime {
        let lines = self.lines.iter().map(AnsweredConnection::dead_at);
        let away = self.calls.iter().flatten().filter(|call| call.line.is_none());
        let silent = self.calls.iter().flatten().filter(|call| !call.is_silent);
        let silent = silent.map(|call| call.silent_at(last_message(&self.lines, call)));
        let away = away.map(|call| call.alive + CALL_KEPT);
        lines.chain(away).chain(silent).min().unwrap_or(LocalTime::NEVER)
    }

    /// Next action; call until `None`.
    pub fn step(&mut self) -> Option<AnsweringStep> {
        self.steps.pop_front()
    }
}

impl AnsweredConnection {
    fn dead_at(&self) -> LocalTime {
        self.received + if self.place.is_some() { LINE_DEAD } else { SAY_WHAT }
    }

    fn may_say(&mut self, now: LocalTime) -> bool {
        let back = (now - self.credited).as_nanos() / ONE_MORE.as_nanos();
        if back > 0 {
            self.credit = MAX_AT_ONCE
                .min(self.credit.saturating_add(u32::try_from(back).unwrap_or(MAX_AT_ONCE)));
            self.credited = now;
        }
        if self.place.is_some() {
            self.received = now;
        }
        let may = self.credit > 0;
        self.credit = self.credit.saturating_sub(1);
        may
    }
}

fn last_message(lines: &[AnsweredConnection], call: &HeldCall) -> Option<LocalTime> {
    lines.iter().find(|line| Some(line.id) == call.line).map(|line| line.received)
}

/// Devices keep their rate and channels.
fn unlike(now: &CallTerms, wanted: &CallTerms, here: &CallOffer) -> Option<Unsupported> {
    for (now, wanted) in [(&now.there, &wanted.there), (&now.back, &wanted.back)] {
        if (now.rate, now.channels) != (wanted.rate, wanted.channels) {
            return Some(Unsupported::Shape);
        }
    }
    wanted.fits(here).err()
}
