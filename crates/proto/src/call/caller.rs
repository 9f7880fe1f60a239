//! The end that calls: when to dial, what to say, when the line is dead, when the call is over.

use std::collections::VecDeque;

use super::message::{
    ADAPTS_VERSION, CALL_VERSION, CallMessage, CallReason, MOST_VERSION, REDUNDANCY_VERSION,
    TAKES_VERSION,
};
use super::packets::NoPackets;
use super::terms::{CallAdaptation, CallLatency, CallOffer, CallPath, CallTerms};
use super::transport::TransportNumbers;
use super::{CallId, LINE_DEAD, PING_EVERY};
use crate::stream::{Coding, PTIME_RANGE};
use crate::time::{LocalTime, Span};

/// An answer to a call comes within this, or the line is given up.
const ANSWER: Span = Span::from_secs(5);
/// From a line that was lost to the first try of another, which doubles with each that fails,
const FIRST_PAUSE: Span = Span::from_millis(250);
/// to this at most: whoever waits for a network that returns waits no longer.
const MOST_PAUSE: Span = Span::from_secs(2);
/// Before there is a call, a line that the other end cuts before it answers is dialled again so many times: for half a minute.
const MAX_REDIALS: u32 = 16;

/// A call that was agreed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgreedCall {
    /// By what it is known.
    pub id: CallId,
    /// How its sound looks.
    pub terms: CallTerms,
    /// Where the other end hears it.
    pub udp_port: u16,
}

/// What is to be done next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallerStep {
    /// Connect, and say how that went: [`CallerEnd::connected`], [`CallerEnd::line_lost`].
    Dial,
    /// Say this on the line.
    Say(CallMessage),
    /// Close the line.
    Close,
    /// The line is lost; the sound goes on as long as it comes, and another line is made.
    Away,
    /// The call begins: its keys are those of the line that there is now.
    Begin(AgreedCall),
    /// The call goes on as it was, on another line.
    Resumed,
    /// These terms were asked for on the line before, and whether that came there is not known: they are asked for again.
    Again(CallTerms),
    /// These fell with two lines in a row, and are not asked for again.
    Dropped(CallTerms),
    /// It sounds by these terms from now on.
    Change(CallTerms),
    /// The other end keeps to what was: why.
    Kept(CallReason),
    /// The other end hears nothing by the transport of this number.
    Unheard(u32),
    /// The call is over there, and another is not had now: why. It is tried again and again.
    TurnedAway(CallReason),
    /// Nothing more is done.
    Over(CallOver),
}

/// Why a call is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallOver {
    /// Nobody was reached, and there was no call to keep.
    NotReached,
    /// The other end refused: its sentence.
    Refused(CallReason),
    /// The other end hung up: its sentence.
    Ended(CallReason),
    /// This end did.
    HungUp,
}

/// Why terms were not asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotAsked {
    /// There is no line to ask on.
    NoLine,
    /// It is not known yet whether the sound is over there.
    Ending,
    /// Nobody can make packets of them.
    NoPackets(NoPackets),
    /// The other end's taut has no word for them.
    Older,
}

/// Terms that were asked for, until that is answered.
#[derive(Debug)]
struct AskedTerms {
    terms: CallTerms,
    /// Whether they were said on more lines than one.
    again: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallerConnection {
    /// There is none until then.
    Away { dial_at: LocalTime },
    /// It is being made; whoever makes it knows for how long.
    Dialling,
    /// The other end owes an answer.
    Asked { until: LocalTime },
    /// It is in use.
    Open,
    /// Nothing more is to come.
    Over,
}

/// Decides for the end that calls. One owner; every call takes the time.
#[derive(Debug)]
pub struct CallerEnd {
    offer: CallOffer,
    /// Whether the call is to be without sound: nobody else's word opens a microphone.
    held: bool,
    /// How often that was asked for and not answered yet.
    holds: u32,
    line: CallerConnection,
    call: Option<AgreedCall>,
    /// Of the transports of its sound.
    pub(super) numbers: TransportNumbers,
    /// What was asked for last and not answered yet,
    asked: Option<AskedTerms>,
    /// and how much was since: each is answered, in turn.
    unanswered: u32,
    /// By what people last asked for the sound to go.
    by: Option<Vec<CallPath>>,
    /// How the sound follows the network by the last change.
    adapts: Option<CallAdaptation>,
    /// The version that is spoken by the newest line.
    version: u32,
    /// Whether there was one: then it is called until somebody hangs up.
    called: bool,
    /// Since the last line that was of use.
    failures: u32,
    heard: LocalTime,
    pinged: LocalTime,
    steps: VecDeque<CallerStep>,
}

impl CallerEnd {
    /// Is to call with this offer, at once.
    pub fn new(offer: CallOffer, now: LocalTime) -> Self {
        Self {
            offer,
            held: false,
            holds: 0,
            line: CallerConnection::Away { dial_at: now },
            call: None,
            numbers: TransportNumbers::default(),
            asked: None,
            unanswered: 0,
            by: None,
            adapts: None,
            version: CALL_VERSION,
            called: false,
            failures: 0,
            heard: now,
            pinged: now,
            steps: VecDeque::new(),
        }
    }

    /// Calls without sound at first, or with.
    #[must_use]
    pub fn held(self, held: bool) -> Self {
        Self { held, ..self }
    }

    /// The same while it calls. False, and all is as it was, where there is a call, or what was said is not answered yet.
    pub fn begins_held(&mut self, held: bool) -> bool {
        let unsaid =
            matches!(self.line, CallerConnection::Away { .. } | CallerConnection::Dialling);
        let begins = unsaid && self.call.is_none();
        if begins {
            self.held = held;
        }
        begins
    }

    /// What is offered from now on, where it is called anew or answered otherwise: of devices that run, what they run as.
    pub fn offers(&mut self, offer: CallOffer) {
        let before = core::mem::replace(&mut self.offer, offer);
        self.may_go_by(&before.paths);
    }

    /// What is asked for may be answered, whatever is offered by now.
    fn may_go_by(&mut self, paths: &[CallPath]) {
        for path in paths {
            if !self.offer.paths.contains(path) {
                self.offer.paths.push(*path);
            }
        }
    }

    /// The call, once there is one; it lasts while lines come and go.
    pub const fn call(&self) -> Option<&AgreedCall> {
        self.call.as_ref()
    }

    /// The terms that were asked for and not answered yet.
    pub fn asked(&self) -> Option<&CallTerms> {
        self.asked.as_ref().map(|asked| &asked.terms)
    }

    /// Whether there is a call with sound.
    fn has_sound(&self) -> bool {
        self.call.as_ref().is_some_and(|call| call.terms.sound())
    }

    /// Whether there is a line in use.
    pub const fn has_line(&self) -> bool {
        matches!(self.line, CallerConnection::Open)
    }

    /// A line was made, on which this version is spoken, or an older one than is spoken here.
    pub fn connected(&mut self, version: u32, now: LocalTime) {
        if self.line != CallerConnection::Dialling {
            return;
        }
        self.line = CallerConnection::Asked { until: now + ANSWER };
        self.heard = now;
        let (mut offer, resumes) = (self.offer.clone(), self.call.as_ref().map(|call| call.id));
        if self.held {
            offer.paths.clear();
        } else if let Some(by) = &self.by {
            offer.paths.clone_from(by);
        }
        if let Some(adapts) = &self.adapts {
            offer.adapt(adapts);
        }
        let version = version.min(CALL_VERSION);
        self.version = version;
        // It would refuse what it has no word for.
        if version < TAKES_VERSION {
            (offer.there.takes, offer.back.takes) = (None, None);
        }
        if version < MOST_VERSION {
            offer.latency = offer.latency.filter(|latency| latency.kept().is_some());
        }
        offer.adapts = offer.adapts.filter(|_| version >= ADAPTS_VERSION);
        offer.redundancy = offer.redundancy.filter(|_| version >= REDUNDANCY_VERSION);
        self.say(CallMessage::Call { version, offer, resumes });
    }

    /// No line was made, or the one there was is no more.
    pub fn line_lost(&mut self, now: LocalTime) {
        match (self.line, self.called) {
            (CallerConnection::Over | CallerConnection::Away { .. }, _) => {}
            (_, false) => self.end(CallOver::NotReached),
            (line, true) => {
                if line == CallerConnection::Open {
                    self.steps.push_back(CallerStep::Away);
                }
                self.dial_later(now);
            }
        }
    }

    /// The other end cut the line in its handshake, which may be over at this end: it may have no room now.
    pub fn cut_off(&mut self, now: LocalTime) {
        match self.line {
            CallerConnection::Dialling | CallerConnection::Asked { .. }
                if self.failures < MAX_REDIALS =>
            {
                self.dial_later(now);
            }
            _ => self.line_lost(now),
        }
    }

    fn dial_later(&mut self, now: LocalTime) {
        // What was asked for by that line is answered no more.
        (self.holds, self.unanswered) = (0, 0);
        let doubled = FIRST_PAUSE.as_nanos() << self.failures.min(8);
        let pause = Span::from_nanos(doubled).min(MOST_PAUSE);
        self.failures += 1;
        self.line = CallerConnection::Away { dial_at: now + pause };
    }

    /// The other end said something.
    pub fn said(&mut self, message: CallMessage, now: LocalTime) {
        self.heard = now;
        match (self.line, message) {
            // Nobody asked for sound, or nobody does any more.
            (CallerConnection::Open, CallMessage::Changed(terms))
                if self.held && terms.sound() && !self.has_sound() =>
            {
                self.unanswered = self.unanswered.saturating_sub(1);
            }
            (CallerConnection::Asked { .. }, CallMessage::Accepted { terms, .. })
                if terms.sound() == self.held || terms.fits(&self.answerable()).is_err() =>
            {
                self.answered_otherwise();
            }
            (CallerConnection::Open, CallMessage::Changed(terms))
                if self.is_held_unasked(&terms) || terms.fits(&self.answerable()).is_err() =>
            {
                self.answered_otherwise();
            }
            (
                CallerConnection::Asked { .. },
                CallMessage::Accepted { call: id, terms, udp_port },
            ) => {
                self.open();
                let agreed = AgreedCall { id, terms, udp_port };
                (self.call, self.called) = (Some(agreed.clone()), true);
                self.numbers = TransportNumbers::default();
                // Of another call nothing is asked yet.
                self.asked = None;
                self.steps.push_back(CallerStep::Begin(agreed));
            }
            (CallerConnection::Asked { .. }, CallMessage::Resumed) if self.call.is_some() => {
                self.open();
                self.steps.push_back(CallerStep::Resumed);
                self.ask_again();
            }
            (CallerConnection::Asked { .. }, CallMessage::Refused(why)) => self.refused(why, now),
            (CallerConnection::Open, CallMessage::Changed(terms)) => {
                if !terms.sound() {
                    self.holds = self.holds.saturating_sub(1);
                }
                if let Some(call) = &mut self.call {
                    if call.terms.adapts != terms.adapts {
                        self.adapts.clone_from(&terms.adapts);
                    }
                    call.terms = terms.clone();
                }
                self.unanswered = self.unanswered.saturating_sub(1);
                self.asked.take_if(|asked| asked.terms == terms);
                self.steps.push_back(CallerStep::Change(terms));
            }
            (CallerConnection::Open, CallMessage::Kept(why)) => {
                self.unanswered = self.unanswered.saturating_sub(1);
                // What was asked for after that is answered yet: a hold among it stays one.
                if self.unanswered == 0 {
                    (self.held, self.holds, self.asked) = (!self.has_sound(), 0, None);
                }
                self.steps.push_back(CallerStep::Kept(why));
            }
            (CallerConnection::Open, CallMessage::Unheard { transport }) => {
                self.steps.push_back(CallerStep::Unheard(transport));
            }
            (CallerConnection::Open, CallMessage::Ping) => self.say(CallMessage::Pong),
            (CallerConnection::Open | CallerConnection::Asked { .. }, CallMessage::Bye(why)) => {
                self.steps.push_back(CallerStep::Close);
                self.end(CallOver::Ended(why));
            }
            // An answer to nothing that was asked changes nothing.
            _ => {}
        }
    }

    /// Whether the sound would be over though nobody here asked for that.
    fn is_held_unasked(&self, terms: &CallTerms) -> bool {
        !terms.sound() && self.has_sound() && self.holds == 0
    }

    fn answered_otherwise(&mut self) {
        let why = "it answers with what was not offered; update taut on both sides";
        self.steps.push_back(CallerStep::Say(CallMessage::Bye(CallReason::new(why))));
        self.steps.push_back(CallerStep::Close);
        self.end(CallOver::Refused(CallReason::new(why)));
    }

    /// What may be agreed on: what was offered, with packets as short as may be asked for later.
    fn answerable(&self) -> CallOffer {
        let mut offer = self.offer.clone();
        for abilities in [&mut offer.there, &mut offer.back] {
            abilities.ptimes = PTIME_RANGE;
            abilities.codings = Coding::ALL.to_vec();
        }
        offer
    }

    /// A call that the other end does not know any more is called anew; one that never was is over.
    fn refused(&mut self, why: CallReason, now: LocalTime) {
        self.steps.push_back(CallerStep::Close);
        self.call = None;
        match self.called {
            true => {
                self.steps.push_back(CallerStep::TurnedAway(why));
                self.dial_later(now);
            }
            false => self.end(CallOver::Refused(why)),
        }
    }

    fn open(&mut self) {
        self.line = CallerConnection::Open;
        self.failures = 0;
    }

    /// Asks for other terms while it sounds. Without a line, and where nobody can make packets of them, nothing is said.
    pub fn change(&mut self, mut terms: CallTerms) -> Result<(), NotAsked> {
        terms.adapts = terms.adapts.filter(|_| self.version >= ADAPTS_VERSION);
        terms.redundancy = terms.redundancy.filter(|_| self.version >= REDUNDANCY_VERSION);
        terms.packets().map_err(NotAsked::NoPackets)?;
        if !self.has_line() {
            return Err(NotAsked::NoLine);
        }
        let is_usual = terms.latency == CallLatency::AUTO || terms.latency.kept().is_some();
        if self.version < MOST_VERSION && !is_usual {
            return Err(NotAsked::Older);
        }
        self.ask(terms, false);
        Ok(())
    }

    /// Asks for a call without sound, or for sound by these paths and by the terms that were asked for last.
    pub fn hold(&mut self, held: bool, paths: &[CallPath]) -> Result<(), NotAsked> {
        let Some(call) = &self.call else { return Err(NotAsked::NoLine) };
        let asked = self.asked().filter(|_| !held);
        if asked.is_some_and(|asked| !asked.sound()) && call.terms.sound() {
            return Err(NotAsked::Ending);
        }
        // A hold is no part of a request that may yet be refused.
        let mut terms = asked.unwrap_or(&call.terms).clone();
        terms.paths = if held { Vec::new() } else { paths.to_vec() };
        self.change(terms)
    }

    fn ask(&mut self, terms: CallTerms, again: bool) {
        let held = !terms.sound();
        self.say(CallMessage::Change(terms.clone()));
        self.may_go_by(&terms.paths);
        if !held {
            self.by = Some(terms.paths.clone());
            // As the other end counts sound that begins.
            if !self.has_sound() {
                self.numbers.ask();
            }
        }
        self.held = held;
        self.holds += u32::from(held);
        self.unanswered += 1;
        self.asked = Some(AskedTerms { terms, again });
    }

    /// What fell with a line is said again, and once: it may be why it fell.
    fn ask_again(&mut self) {
        match self.asked.take() {
            Some(AskedTerms { terms, again: false }) => {
                self.steps.push_back(CallerStep::Again(terms.clone()));
                self.ask(terms, true);
            }
            Some(AskedTerms { terms, again: true }) => {
                self.held = !self.has_sound();
                self.steps.push_back(CallerStep::Dropped(terms));
            }
            None => {}
        }
    }

    /// The sound goes by another path from now on. False without a line: whoever moved says it again.
    pub fn go_by(&mut self, path: CallPath, transport: u32) -> bool {
        self.say_if_open(CallMessage::Path { path, transport })
    }

    fn say_if_open(&mut self, message: CallMessage) -> bool {
        let open = self.has_line();
        if open {
            self.say(message);
        }
        open
    }

    /// Ends the call.
    pub fn hang_up(&mut self, why: CallReason) {
        if !matches!(
            self.line,
            CallerConnection::Away { .. } | CallerConnection::Dialling | CallerConnection::Over
        ) {
            self.say(CallMessage::Bye(why));
            self.steps.push_back(CallerStep::Close);
        }
        self.end(CallOver::HungUp);
    }

    fn end(&mut self, over: CallOver) {
        if self.line != CallerConnection::Over {
            self.line = CallerConnection::Over;
            self.steps.push_back(CallerStep::Over(over));
        }
    }

    fn say(&mut self, message: CallMessage) {
        self.steps.push_back(CallerStep::Say(message));
    }

    /// Lets time pass.
    pub fn poll(&mut self, now: LocalTime) {
        match self.line {
            CallerConnection::Away { dial_at } if now >= dial_at => {
                self.line = CallerConnection::Dialling;
                self.steps.push_back(CallerStep::Dial);
            }
            CallerConnection::Asked { until } if now >= until => self.give_line_up(now),
            CallerConnection::Open if now >= self.heard + LINE_DEAD => self.give_line_up(now),
            CallerConnection::Open if now >= self.pinged + PING_EVERY => {
                self.pinged = now;
                self.say(CallMessage::Ping);
            }
            _ => {}
        }
    }

    fn give_line_up(&mut self, now: LocalTime) {
        self.steps.push_back(CallerStep::Close);
        self.line_lost(now);
    }

    /// When [`Self::poll`] has something to do; [`LocalTime::NEVER`] if nothing.
    pub fn deadline(&self) -> LocalTime {
        match self.line {
            CallerConnection::Away { dial_at } => dial_at,
            CallerConnection::Asked { until } => until,
            CallerConnection::Open => (self.heard + LINE_DEAD).min(self.pinged + PING_EVERY),
            CallerConnection::Dialling | CallerConnection::Over => LocalTime::NEVER,
        }
    }

    /// What is to be done next, until there is nothing.
    pub fn step(&mut self) -> Option<CallerStep> {
        self.steps.pop_front()
    }
}
