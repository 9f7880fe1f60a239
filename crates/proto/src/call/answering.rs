//! Decides for the called end and all its callers: which call gets a place, which call resumes,
//! which connection is dead.

use std::collections::VecDeque;

use super::message::{
    CALL_VERSION, CallMessage, CallReason, MAX_VERSION, OLDEST_CALL_VERSION, REDUNDANCY_VERSION,
    UNHEARD_VERSION,
};
use super::terms::{CallLatency, CallOffer, CallPath, CallTerms, Unsupported};
use super::transport::{CalledTransport, SoundChange, TransportStep};
use super::{CALL_KEPT, CallId, LINE_DEAD};
use crate::time::{LocalTime, Span};

/// Timeout for the first request on a new connection.
const SAY_WHAT: Span = Span::from_secs(5);
/// Maximum burst of messages on a connection. The allowance refills
const MAX_AT_ONCE: u32 = 32;
/// by one message per interval: a call needs one ping per second and an occasional change.
const ONE_MORE: Span = Span::from_millis(100);

/// Identifier of a control connection, assigned by the driver and never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

/// Peer of a control connection: its proven public key.
pub type ConnectionPeer = [u8; 32];

/// Next action of the driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnsweringStep {
    /// Send this message on that connection.
    Say(ConnectionId, CallMessage),
    /// Close the connection.
    Close(ConnectionId),
    /// A call begins at this place, counted from 0. Its keys derive from the connection.
    Begin {
        /// Place of the call.
        place: usize,
        /// Control connection.
        line: ConnectionId,
        /// Identifier of the call.
        call: CallId,
        /// Agreed terms.
        terms: CallTerms,
    },
    /// The call at this place resumes on this connection.
    Resumed {
        /// Place of the call.
        place: usize,
        /// Control connection.
        line: ConnectionId,
    },
    /// The call at this place has new terms.
    Change {
        /// Place of the call.
        place: usize,
        /// Agreed terms.
        terms: CallTerms,
        /// Effect on the audio.
        sound: SoundChange,
    },
    /// The caller announces its transport.
    Path {
        /// Place of the call.
        place: usize,
        /// Path of the transport.
        path: CallPath,
        /// Number of the transport.
        transport: u32,
        /// Whether to use it now: a TCP connection is used when it arrives
        /// ([`Answering::connected`]).
        is_used: bool,
    },
    /// The call at this place has lost its control connection. Its audio continues.
    Away {
        /// Place of the call.
        place: usize,
    },
    /// The call at this place is over.
    End {
        /// Place of the call.
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
    /// Calls with audio. Further calls can only be on hold.
    pub sounding: usize,
    /// Calls per peer.
    pub of_a_peer: usize,
    /// Calls with audio per peer.
    pub sounding_of_a_peer: usize,
    /// Peer that is exempt from the limits per peer: this machine's own key.
    pub own: Option<ConnectionPeer>,
}

impl CallLimits {
    /// Limits each peer except this machine to half of the places, and half of the calls with
    /// audio, rounded up.
    pub fn of(places: usize, sounding: usize, own: Option<ConnectionPeer>) -> Self {
        let (of_a_peer, sounding_of_a_peer) = (places.div_ceil(2), sounding.div_ceil(2));
        Self { sounding, of_a_peer, sounding_of_a_peer, own }
    }

    /// Sets the limits per peer to `each`, at least 1. `None` keeps the limits.
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
    /// Protocol version of the caller, once received.
    version: u32,
    heard: LocalTime,
    /// Place of its call.
    place: Option<usize>,
    /// Messages that the caller may send now, and the time of the last refill.
    credit: u32,
    credited: LocalTime,
}

#[derive(Debug)]
struct HeldCall {
    id: CallId,
    peer: ConnectionPeer,
    /// Offer of the caller.
    offer: CallOffer,
    terms: CallTerms,
    /// Maximum latency that the audio buffers allow, fixed when the audio begins.
    room: Span,
    transport: CalledTransport,
    line: Option<ConnectionId>,
    /// Authenticated packets received so far.
    packets: u64,
    /// Time of the loss of the control connection or of the last packet, whichever is later.
    alive: LocalTime,
}

/// State machine of the called end. It has one owner, and its methods take the current time.
#[derive(Debug)]
pub struct Answering {
    offer: CallOffer,
    limits: CallLimits,
    /// UDP port of each place.
    udp_ports: Vec<u16>,
    calls: Vec<Option<HeldCall>>,
    lines: Vec<AnsweredConnection>,
    steps: VecDeque<AnsweringStep>,
}

impl Answering {
    /// Creates a called end with this offer and one place per UDP port.
    pub fn new(offer: CallOffer, udp_ports: Vec<u16>) -> Self {
        let calls: Vec<_> = udp_ports.iter().map(|_| None).collect();
        let all = calls.len();
        let limits =
            CallLimits { sounding: all, of_a_peer: all, sounding_of_a_peer: all, own: None };
        Self { offer, limits, udp_ports, calls, lines: Vec::new(), steps: VecDeque::new() }
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

    /// Adds a connection of a peer that has proven its key.
    pub fn came(&mut self, id: ConnectionId, peer: ConnectionPeer, now: LocalTime) {
        let (place, credit) = (None, MAX_AT_ONCE);
        let version = OLDEST_CALL_VERSION;
        self.lines.push(AnsweredConnection {
            id,
            peer,
            version,
            heard: now,
            place,
            credit,
            credited: now,
        });
    }

    /// Removes a connection that was lost or closed by the peer.
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

    /// Handles a message from a connection. `fresh` is a random identifier for a new call.
    pub fn said(
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
            (CallMessage::Ping, _) => self.say(line, CallMessage::Pong),
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
        // Older versions would reject this latency.
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
        });
        self.lines[at].place = Some(place);
        let udp_port = self.udp_ports[place];
        self.steps.push_back(AnsweringStep::Begin {
            place,
            line,
            call: fresh,
            terms: terms.clone(),
        });
        self.say(line, CallMessage::Accepted { call: fresh, terms, udp_port });
    }

    /// Returns a place for a call of this peer: that of its call without a connection, since a
    /// restarted program calls again, or a free place. Otherwise returns the reason for refusal.
    fn place_for(&self, peer: ConnectionPeer) -> Result<usize, String> {
        let left = |call: &HeldCall| call.peer == peer && call.line.is_none();
        let calls = || self.calls.iter();
        if let Some(place) = calls().position(|call| call.as_ref().is_some_and(left)) {
            return Ok(place);
        }
        let most = self.calls.len();
        let free = calls().position(Option::is_none).ok_or_else(|| {
            format!(
                "busy: maximum of calls reached ({most}); call later, or raise it there (taut serve --max-callers)"
            )
        })?;
        let held = calls().flatten().filter(|call| call.peer == peer).count();
        if held >= self.limits.of_a_peer && self.limits.own != Some(peer) {
            return Err(format!(
                "busy: {held} of {most} calls are with your machine, the limit per host; end one, or raise the limit \
                 there (taut serve --max-calls-per-host)"
            ));
        }
        Ok(free)
    }

    /// Checks the limits for audio at this place, apart from the call that is there now. Returns
    /// the reason for refusal.
    fn sound_for(&self, peer: ConnectionPeer, place: usize) -> Result<(), String> {
        let calls = self.calls.iter().enumerate().filter(|(at, _)| *at != place);
        let sounding =
            calls.filter_map(|(_, call)| call.as_ref()).filter(|call| call.terms.sound());
        let (mut all, mut own) = (0, 0);
        for call in sounding {
            all += 1;
            own += usize::from(call.peer == peer);
        }
        let most = self.limits.sounding;
        if all >= most {
            return Err(format!(
                "busy: maximum of calls with audio reached ({most}); hold one of them, or call later"
            ));
        }
        if own >= self.limits.sounding_of_a_peer && self.limits.own != Some(peer) {
            return Err(format!(
                "busy: {own} of {most} calls with audio are with your machine, the limit per host; hold one of yours"
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
            return self.refuse(line, "unknown call, or already over; call again", now);
        };
        // The previous connection may be dead without having timed out.
        let before = call.line.replace(line);
        self.lines[at].place = Some(place);
        if let Some(before) = before {
            self.close(before);
        }
        self.steps.push_back(AnsweringStep::Resumed { place, line });
        self.say(line, CallMessage::Resumed);
    }

    fn change(&mut self, line: ConnectionId, place: usize, mut terms: CallTerms, now: LocalTime) {
        terms.adapts = terms.adapts.map(|asked| asked.within(&self.offer));
        let Some(call) = &self.calls[place] else { return };
        let refused = unlike(&call.terms, &terms, &self.offer);
        if let Some(why) = refused {
            return self.say(line, CallMessage::Kept(CallReason::new(why.to_string())));
        }
        let kept = terms.kept(&call.offer, &self.offer);
        if kept != terms.latency {
            let why = format!(
                "the packets and devices of both ends need at least {kept}; request at least that, or shorter packets"
            );
            return self.say(line, CallMessage::Kept(CallReason::new(why)));
        }
        let begins = terms.sound() && !call.terms.sound();
        let room = if begins { terms.room() } else { call.room };
        if let Some(asked) = terms.latency.beyond(room) {
            let why = format!(
                "a latency of {asked} exceeds the buffers of this call, {room}; hang up and call again with that --latency"
            );
            return self.say(line, CallMessage::Kept(CallReason::new(why)));
        }
        if begins && let Err(why) = self.sound_for(call.peer, place) {
            return self.say(line, CallMessage::Kept(CallReason::new(why)));
        }
        let Some(call) = &mut self.calls[place] else { return };
        if begins && !call.transport.begin(now) {
            let why = "no keys are left for this call; call again";
            return self.hang_up_at(place, &CallReason::new(why));
        }
        (call.terms, call.room) = (terms.clone(), room);
        let sound = match (begins, terms.sound()) {
            (true, _) => SoundChange::Begins(TransportStep::UseUdp(call.transport.used().1)),
            (false, true) => SoundChange::GoesOn,
            (false, false) => SoundChange::Ends,
        };
        self.steps.push_back(AnsweringStep::Change { place, terms: terms.clone(), sound });
        self.say(line, CallMessage::Changed(terms));
    }

    /// Transport of the call at this place.
    pub fn transport(&self, place: usize) -> Option<&CalledTransport> {
        self.calls.get(place)?.as_ref().map(|call| &call.transport)
    }

    /// Switches the call at this place to the TCP connection with this number, which has arrived.
    pub fn connected(&mut self, place: usize, number: u32) {
        let call = self.calls.get_mut(place).and_then(Option::as_mut);
        call.into_iter().for_each(|call| call.transport.goes_by_tcp(number));
    }

    /// Updates the number of authenticated packets received by the call at this place.
    pub fn heard(&mut self, place: usize, packets: u64, now: LocalTime) {
        let Some(call) = self.calls.get_mut(place).and_then(Option::as_mut) else { return };
        if call.packets != packets {
            (call.packets, call.alive) = (packets, now);
        }
        if let Some(number) = call.transport.poll(packets, now) {
            self.unheard(place, number);
        }
    }

    /// Reports to the caller that no packet arrives via the transport with this number, if its
    /// version supports the report.
    pub fn unheard(&mut self, place: usize, transport: u32) {
        let line = self.calls.get(place).and_then(|call| call.as_ref()?.line);
        let reads = |line: &&AnsweredConnection| line.version >= UNHEARD_VERSION;
        let line = self.lines.iter().filter(reads).find(|one| Some(one.id) == line);
        if let Some(line) = line.map(|line| line.id) {
            self.say(line, CallMessage::Unheard { transport });
        }
    }

    fn say(&mut self, line: ConnectionId, message: CallMessage) {
        self.steps.push_back(AnsweringStep::Say(line, message));
    }

    fn refuse(&mut self, line: ConnectionId, why: impl AsRef<str>, now: LocalTime) {
        let why = CallReason::new(why);
        self.say(line, CallMessage::Refused(why.clone()));
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

    /// Ends all calls, because the server stops.
    pub fn hang_up(&mut self, why: &CallReason) {
        (0..self.calls.len()).for_each(|place| self.hang_up_at(place, why));
    }

    /// Ends the call at this place, if any.
    pub fn hang_up_at(&mut self, place: usize, why: &CallReason) {
        let Some(call) = self.calls.get(place) else { return };
        if let Some(line) = call.as_ref().and_then(|call| call.line) {
            self.say(line, CallMessage::Bye(why.clone()));
            self.close(line);
        }
        self.end(place, why.clone());
    }

    /// Ends all calls, and refuses all connections, of peers that are no longer trusted.
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
        // The connections of ended calls are closed already.
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

    /// Time to call [`Self::poll`] again; [`LocalTime::NEVER`] if there is nothing to do.
    pub fn deadline(&self) -> LocalTime {
        let lines = self.lines.iter().map(AnsweredConnection::dead_at);
        let away = self.calls.iter().flatten().filter(|call| call.line.is_none());
        lines.chain(away.map(|call| call.alive + CALL_KEPT)).min().unwrap_or(LocalTime::NEVER)
    }

    /// Next action; call until `None`.
    pub fn step(&mut self) -> Option<AnsweringStep> {
        self.steps.pop_front()
    }
}

impl AnsweredConnection {
    fn dead_at(&self) -> LocalTime {
        self.heard + if self.place.is_some() { LINE_DEAD } else { SAY_WHAT }
    }

    /// Takes one message from the allowance; `false` if none is left.
    fn may_say(&mut self, now: LocalTime) -> bool {
        let back = (now - self.credited).as_nanos() / ONE_MORE.as_nanos();
        if back > 0 {
            self.credit = MAX_AT_ONCE
                .min(self.credit.saturating_add(u32::try_from(back).unwrap_or(MAX_AT_ONCE)));
            self.credited = now;
        }
        if self.place.is_some() {
            self.heard = now;
        }
        let may = self.credit > 0;
        self.credit = self.credit.saturating_sub(1);
        may
    }
}

/// Reason why a call cannot change to these terms. Devices keep their rate and channels.
fn unlike(now: &CallTerms, wanted: &CallTerms, here: &CallOffer) -> Option<Unsupported> {
    for (now, wanted) in [(&now.there, &wanted.there), (&now.back, &wanted.back)] {
        if (now.rate, now.channels) != (wanted.rate, wanted.channels) {
            return Some(Unsupported::Shape);
        }
    }
    wanted.fits(here).err()
}
