//! The end that is called, for all its callers: who gets a place, whose call goes on, which line is dead.

use std::collections::VecDeque;

use super::message::{
    CALL_VERSION, CallMessage, CallReason, MOST_VERSION, OLDEST_CALL_VERSION, REDUNDANCY_VERSION,
    UNHEARD_VERSION,
};
use super::terms::{CallLatency, CallOffer, CallPath, CallTerms, NotHad};
use super::transport::{CalledTransport, SoundChange, TransportStep};
use super::{CALL_KEPT, CallId, LINE_DEAD};
use crate::time::{LocalTime, Span};

/// Who connects says what it wants within this.
const SAY_WHAT: Span = Span::from_secs(5);
/// Messages that a line may say at once, which come back
const MOST_AT_ONCE: u32 = 32;
/// one in so long: a ping a second is all that a call takes, and a change now and then.
const ONE_MORE: Span = Span::from_millis(100);

/// A control connection, as whoever drives this numbers them; never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

/// Whose a line is: the key that the other end proved to have.
pub type ConnectionPeer = [u8; 32];

/// What is to be done next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnsweringStep {
    /// Say this on that line.
    Say(ConnectionId, CallMessage),
    /// Close it.
    Close(ConnectionId),
    /// A call begins at this place, counted from 0: its keys are those of the line.
    Begin {
        /// Where.
        place: usize,
        /// By which line.
        line: ConnectionId,
        /// Known by this.
        call: CallId,
        /// What was chosen.
        terms: CallTerms,
    },
    /// The call at this place goes on, on this line.
    Resumed {
        /// Where.
        place: usize,
        /// By which line.
        line: ConnectionId,
    },
    /// The call at this place sounds by these terms from now on.
    Change {
        /// Where.
        place: usize,
        /// What is agreed on.
        terms: CallTerms,
        /// What becomes of the sound.
        sound: SoundChange,
    },
    /// Its caller announces by what its sound goes from now on.
    Path {
        /// Where.
        place: usize,
        /// By what.
        path: CallPath,
        /// Its number.
        transport: u32,
        /// Whether it is used from now on: a connection is used as it arrives ([`Answering::connected`]).
        is_used: bool,
    },
    /// The line of the call at this place is lost; its sound goes on.
    Away {
        /// Where.
        place: usize,
    },
    /// The call at this place is over.
    End {
        /// Where.
        place: usize,
        /// A sentence.
        why: CallReason,
    },
    /// Somebody was refused.
    Refused {
        /// By which line.
        line: ConnectionId,
        /// A sentence.
        why: CallReason,
    },
}

/// How much of what there is may be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallLimits {
    /// Calls that have sound at a time; the others are lines.
    pub sounding: usize,
    /// Places of one peer.
    pub of_a_peer: usize,
    /// Of its calls those that have sound.
    pub sounding_of_a_peer: usize,
    /// Whose calls are not counted so: whoever has this machine's own key may do with it what they like.
    pub own: Option<ConnectionPeer>,
}

impl CallLimits {
    /// Of so many places half, and at least one, for each peer but this machine itself, so that none takes all; of the
    /// sound likewise.
    pub fn of(places: usize, sounding: usize, own: Option<ConnectionPeer>) -> Self {
        let (of_a_peer, sounding_of_a_peer) = (places.div_ceil(2), sounding.div_ceil(2));
        Self { sounding, of_a_peer, sounding_of_a_peer, own }
    }

    /// The same with so many places for each peer, at least one, and sound for as many, where somebody says how many.
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
    /// Which its caller speaks, once it has said so.
    version: u32,
    heard: LocalTime,
    /// The place of its call.
    place: Option<usize>,
    /// Messages that it may say now, and since when more came back.
    credit: u32,
    credited: LocalTime,
}

#[derive(Debug)]
struct HeldCall {
    id: CallId,
    peer: ConnectionPeer,
    /// What its caller can.
    offer: CallOffer,
    terms: CallTerms,
    /// The longest latency that its sound has room for, since that began.
    room: Span,
    transport: CalledTransport,
    line: Option<ConnectionId>,
    /// Packets received by now, each of which was authenticated.
    packets: u64,
    /// When its line was lost or its last packet received, whichever came later.
    alive: LocalTime,
}

/// Decides for the end that is called. One owner; every call takes the time.
#[derive(Debug)]
pub struct Answering {
    offer: CallOffer,
    limits: CallLimits,
    /// The UDP port at which the call at each place is heard.
    udp_ports: Vec<u16>,
    calls: Vec<Option<HeldCall>>,
    lines: Vec<AnsweredConnection>,
    steps: VecDeque<AnsweringStep>,
}

impl Answering {
    /// Answers with what it can, as many at once as there are `udp_ports`, each of which is that of a place.
    pub fn new(offer: CallOffer, udp_ports: Vec<u16>) -> Self {
        let calls: Vec<_> = udp_ports.iter().map(|_| None).collect();
        let all = calls.len();
        let limits =
            CallLimits { sounding: all, of_a_peer: all, sounding_of_a_peer: all, own: None };
        Self { offer, limits, udp_ports, calls, lines: Vec::new(), steps: VecDeque::new() }
    }

    /// The same with these limits.
    #[must_use]
    pub fn limited(self, limits: CallLimits) -> Self {
        Self { limits, ..self }
    }

    /// Calls that there are.
    pub fn calls(&self) -> usize {
        self.calls.iter().flatten().count()
    }

    /// Somebody connected and proved to have this key.
    pub fn came(&mut self, id: ConnectionId, peer: ConnectionPeer, now: LocalTime) {
        let (place, credit) = (None, MOST_AT_ONCE);
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

    /// A line was closed by its other end, or lost.
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

    /// Something was said on a line. `fresh` names the call, if it becomes one: random.
    pub fn said(
        &mut self,
        line: ConnectionId,
        message: CallMessage,
        fresh: CallId,
        now: LocalTime,
    ) {
        let Some(at) = self.lines.iter().position(|one| one.id == line) else { return };
        if !self.lines[at].may_say(now) {
            return self.refuse(line, "you say more than a call has to say; update taut", now);
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
                    "this taut speaks versions {OLDEST_CALL_VERSION} to {CALL_VERSION} of calls; update the older of the \
                     two"
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
            _ => self.refuse(line, "that is nothing that a caller says now; update taut", now),
        }
    }

    fn begin(&mut self, at: usize, offer: CallOffer, fresh: CallId, now: LocalTime) {
        let AnsweredConnection { id: line, peer, version, .. } = self.lines[at];
        let mut terms = match offer.choose(&self.offer) {
            Ok(terms) => terms,
            Err(why) => return self.refuse(line, why.to_string(), now),
        };
        // It would refuse what it has no word for.
        if version < MOST_VERSION && terms.latency.kept().is_none() {
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
            self.end(place, CallReason::new("its caller called anew"));
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

    /// A free place, or that of a call of the same peer that has lost its line: whose program died calls anew. Else why
    /// there is none for it.
    fn place_for(&self, peer: ConnectionPeer) -> Result<usize, String> {
        let left = |call: &HeldCall| call.peer == peer && call.line.is_none();
        let calls = || self.calls.iter();
        if let Some(place) = calls().position(|call| call.as_ref().is_some_and(left)) {
            return Ok(place);
        }
        let most = self.calls.len();
        let free = calls().position(Option::is_none).ok_or_else(|| {
            format!(
                "it is in as many calls as it takes, {most}; call later, or raise that there (taut serve --max-callers)"
            )
        })?;
        let held = calls().flatten().filter(|call| call.peer == peer).count();
        if held >= self.limits.of_a_peer && self.limits.own != Some(peer) {
            return Err(format!(
                "your machine is in {held} of its {most} calls, and the others are for others; end one, or raise that \
                 there (taut serve --max-calls-per-host)"
            ));
        }
        Ok(free)
    }

    /// Whether there is sound left for a call of this peer at this place, whatever is there now; else why there is none.
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
                "as many of its calls have sound as it carries, {most}; hold one of them, or call later"
            ));
        }
        if own >= self.limits.sounding_of_a_peer && self.limits.own != Some(peer) {
            return Err(format!(
                "your machine has sound in {own} of the {most} calls that may, and the others are for others; hold one of \
                 yours"
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
            return self.refuse(line, "that call is over here; call anew", now);
        };
        // The line before may not be known to be dead yet.
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
                "the packets and devices of both ends leave no time for less than {kept}; ask for that or more, or for \
                 shorter packets"
            );
            return self.say(line, CallMessage::Kept(CallReason::new(why)));
        }
        let begins = terms.sound() && !call.terms.sound();
        let room = if begins { terms.room() } else { call.room };
        if let Some(asked) = terms.latency.beyond(room) {
            let why = format!(
                "a latency of {asked} is more than the {room} that this call has room for since it began; hang up and \
                 call with a --latency of that"
            );
            return self.say(line, CallMessage::Kept(CallReason::new(why)));
        }
        if begins && let Err(why) = self.sound_for(call.peer, place) {
            return self.say(line, CallMessage::Kept(CallReason::new(why)));
        }
        let Some(call) = &mut self.calls[place] else { return };
        if begins && !call.transport.begin(now) {
            let why = "no keys are left for this call; call anew";
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

    /// By what the call at this place goes.
    pub fn transport(&self, place: usize) -> Option<&CalledTransport> {
        self.calls.get(place)?.as_ref().map(|call| &call.transport)
    }

    /// The connection of this number arrived for the call at this place, and is used.
    pub fn connected(&mut self, place: usize, number: u32) {
        let call = self.calls.get_mut(place).and_then(Option::as_mut);
        call.into_iter().for_each(|call| call.transport.goes_by_tcp(number));
    }

    /// Of the sound at this place so many authenticated packets were received by now.
    pub fn heard(&mut self, place: usize, packets: u64, now: LocalTime) {
        let Some(call) = self.calls.get_mut(place).and_then(Option::as_mut) else { return };
        if call.packets != packets {
            (call.packets, call.alive) = (packets, now);
        }
        if let Some(number) = call.transport.poll(packets, now) {
            self.unheard(place, number);
        }
    }

    /// Nothing is heard of the call at this place by the transport of this number: its caller is told, if it reads that.
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

    /// Ends all calls, as the server ends.
    pub fn hang_up(&mut self, why: &CallReason) {
        (0..self.calls.len()).for_each(|place| self.hang_up_at(place, why));
    }

    /// Ends the call at this place, if there is one: it failed here.
    pub fn hang_up_at(&mut self, place: usize, why: &CallReason) {
        let Some(call) = self.calls.get(place) else { return };
        if let Some(line) = call.as_ref().and_then(|call| call.line) {
            self.say(line, CallMessage::Bye(why.clone()));
            self.close(line);
        }
        self.end(place, why.clone());
    }

    /// Parts with all who are trusted no more: their calls end, with a line or without, and lines that have no call.
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
        // A call's own line is closed by now.
        let strangers = self.lines.iter().filter(|line| !is_trusted(line.peer));
        for line in strangers.map(|line| line.id).collect::<Vec<_>>() {
            self.refuse(line, why.as_str(), now);
        }
    }

    /// Lets time pass.
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
                    CallReason::new(format!("its caller was not heard of for {CALL_KEPT}")),
                );
            }
        }
    }

    /// When [`Self::poll`] has something to do; [`LocalTime::NEVER`] if nothing.
    pub fn deadline(&self) -> LocalTime {
        let lines = self.lines.iter().map(AnsweredConnection::dead_at);
        let away = self.calls.iter().flatten().filter(|call| call.line.is_none());
        lines.chain(away.map(|call| call.alive + CALL_KEPT)).min().unwrap_or(LocalTime::NEVER)
    }

    /// What is to be done next, until there is nothing.
    pub fn step(&mut self) -> Option<AnsweringStep> {
        self.steps.pop_front()
    }
}

impl AnsweredConnection {
    fn dead_at(&self) -> LocalTime {
        self.heard + if self.place.is_some() { LINE_DEAD } else { SAY_WHAT }
    }

    /// Whether it may say one more.
    fn may_say(&mut self, now: LocalTime) -> bool {
        let back = (now - self.credited).as_nanos() / ONE_MORE.as_nanos();
        if back > 0 {
            self.credit = MOST_AT_ONCE
                .min(self.credit.saturating_add(u32::try_from(back).unwrap_or(MOST_AT_ONCE)));
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

/// Why these terms cannot follow those, if they cannot: devices keep their rate and channels.
fn unlike(now: &CallTerms, wanted: &CallTerms, here: &CallOffer) -> Option<NotHad> {
    for (now, wanted) in [(&now.there, &wanted.there), (&now.back, &wanted.back)] {
        if (now.rate, now.channels) != (wanted.rate, wanted.channels) {
            return Some(NotHad::Shape);
        }
    }
    wanted.fits(here).err()
}
