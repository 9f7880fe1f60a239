//! State machine of the caller.

use std::collections::VecDeque;

use super::message::{
    CALL_VERSION, CallMessage, CallReason, MAX_VERSION, REDUNDANCY_VERSION, TAKES_VERSION,
};
use super::packets::NoPackets;
use super::terms::{CallAdaptation, CallLatency, CallOffer, CallPath, CallTerms};
use super::transport::TransportNumbers;
use super::{CallId, LINE_DEAD, PING_EVERY};
use crate::stream::{Coding, PTIME_RANGE};
use crate::time::{LocalTime, Span};

const ANSWER: Span = Span::from_secs(5);
/// Pause after the first failure. The pause doubles after each further failure.
const FIRST_PAUSE: Span = Span::from_millis(250);
/// Maximum pause.
const MAX_PAUSE: Span = Span::from_secs(2);
/// Maximum redials, half a minute in total, while no call exists and the called end closes without
/// an answer.
const MAX_REDIALS: u32 = 16;

/// Agreed call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgreedCall {
    /// Identifier.
    pub id: CallId,
    /// Agreed terms.
    pub terms: CallTerms,
    /// UDP port of the called end.
    pub udp_port: u16,
}

/// Next action of the driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallerStep {
    /// Connect, and report [`CallerEnd::connected`] or [`CallerEnd::line_lost`].
    Dial,
    /// Send this message.
    Say(CallMessage),
    /// Close the control connection.
    Close,
    /// The control connection is lost. Audio continues, and the caller reconnects.
    Away,
    /// The call begins, with keys from the current control connection.
    Begin(AgreedCall),
    /// The call resumes on a new control connection.
    Resumed,
    /// These terms are requested again after a lost connection.
    Again(CallTerms),
    /// These terms are given up after two lost connections.
    Dropped(CallTerms),
    /// The call has these terms now.
    Change(CallTerms),
    /// The called end keeps the current terms.
    Kept(CallReason),
    /// The called end receives nothing via this transport.
    NotReceived(u32),
    /// The called end refuses a new call after losing the old call. The caller retries.
    TurnedAway(CallReason),
    /// The call is over.
    Over(CallOver),
}

/// Reason for the end of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallOver {
    /// Unreachable, and no call existed.
    NotReached,
    /// The called end refused.
    Refused(CallReason),
    /// The called end hung up.
    Ended(CallReason),
    /// This end hung up.
    HungUp,
}

/// Reason why terms were not requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotAsked {
    /// No control connection.
    NoLine,
    /// An earlier hold is unanswered.
    Ending,
    /// No packets are possible.
    NoPackets(NoPackets),
    /// The called end's protocol version does not support them.
    Older,
}

#[derive(Debug)]
struct RequestedTerms {
    terms: CallTerms,
    again: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallerConnection {
    /// No connection.
    Away { dial_at: LocalTime },
    /// The driver sets the timeout.
    Dialling,
    /// Waits for the answer.
    Requested { until: LocalTime },
    /// In use.
    Open,
    /// Closed for good.
    Over,
}

/// State machine of the caller. Methods take the current time.
#[derive(Debug)]
pub struct CallerEnd {
    offer: CallOffer,
    /// Only this end may open the microphone.
    held: bool,
    holds: u32,
    line: CallerConnection,
    call: Option<AgreedCall>,
    pub(super) numbers: TransportNumbers,
    requested: Option<RequestedTerms>,
    /// Each is answered, in order.
    unanswered: u32,
    /// Paths that the user requested last.
    by: Option<Vec<CallPath>>,
    adapts: Option<CallAdaptation>,
    version: u32,
    /// If so, the caller redials until the user hangs up.
    called: bool,
    failures: u32,
    received: LocalTime,
    pinged: LocalTime,
    steps: VecDeque<CallerStep>,
}

impl CallerEnd {
    /// Creates a caller that dials immediately.
    pub fn new(offer: CallOffer, now: LocalTime) -> Self {
        Self {
            offer,
            held: false,
            holds: 0,
            line: CallerConnection::Away { dial_at: now },
            call: None,
            numbers: TransportNumbers::default(),
            requested: None,
            unanswered: 0,
            by: None,
            adapts: None,
            version: CALL_VERSION,
            called: false,
            failures: 0,
            received: now,
            pinged: now,
            steps: VecDeque::new(),
        }
    }

    /// Sets whether the call begins on hold.
    #[must_use]
    pub fn held(self, held: bool) -> Self {
        Self { held, ..self }
    }

    /// Like [`Self::held`], if the request was not sent yet; otherwise returns `false`.
    pub fn begins_held(&mut self, held: bool) -> bool {
        let unsaid =
            matches!(self.line, CallerConnection::Away { .. } | CallerConnection::Dialling);
        let begins = unsaid && self.call.is_none();
        if begins {
            self.held = held;
        }
        begins
    }

    /// Replaces the offer for later calls and answers.
    pub fn offers(&mut self, offer: CallOffer) {
        let before = core::mem::replace(&mut self.offer, offer);
        self.allow_paths(&before.paths);
    }

    /// An answer to an earlier request may contain them.
    fn allow_paths(&mut self, paths: &[CallPath]) {
        for path in paths {
            if !self.offer.paths.contains(path) {
                self.offer.paths.push(*path);
            }
        }
    }

    /// Current call. It survives lost connections.
    pub const fn call(&self) -> Option<&AgreedCall> {
        self.call.as_ref()
    }

    /// Unanswered request.
    pub fn requested(&self) -> Option<&CallTerms> {
        self.requested.as_ref().map(|requested| &requested.terms)
    }

    fn has_sound(&self) -> bool {
        self.call.as_ref().is_some_and(|call| call.terms.sound())
    }

    /// Whether the control connection is usable.
    pub const fn has_line(&self) -> bool {
        matches!(self.line, CallerConnection::Open)
    }

    /// Handles a new connection. `version` may exceed this end's.
    pub fn connected(&mut self, version: u32, now: LocalTime) {
        if self.line != CallerConnection::Dialling {
            return;
        }
        self.line = CallerConnection::Requested { until: now + ANSWER };
        self.received = now;
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
        // Older versions reject these fields.
        if version < TAKES_VERSION {
            (offer.there.takes, offer.back.takes) = (None, None);
        }
        if version < MAX_VERSION {
            offer.latency = offer.latency.filter(|latency| latency.kept().is_some());
        }
        offer.adapts = offer.adapts.and_then(|adapts| adapts.for_version(version));
        offer.redundancy = offer.redundancy.filter(|_| version >= REDUNDANCY_VERSION);
        self.emit(CallMessage::Call { version, offer, resumes });
    }

    /// Handles a failed or lost connection.
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

    /// Handles a connection closed during the handshake, possibly for lack of room.
    pub fn cut_off(&mut self, now: LocalTime) {
        match self.line {
            CallerConnection::Dialling | CallerConnection::Requested { .. }
                if self.failures < MAX_REDIALS =>
            {
                self.dial_later(now);
            }
            _ => self.line_lost(now),
        }
    }

    fn dial_later(&mut self, now: LocalTime) {
        (self.holds, self.unanswered) = (0, 0);
        let doubled = FIRST_PAUSE.as_nanos() << self.failures.min(8);
        let pause = Span::from_nanos(doubled).min(MAX_PAUSE);
        self.failures += 1;
        self.line = CallerConnection::Away { dial_at: now + pause };
    }

    /// Handles a message of the called end.
    pub fn handle_message(&mut self, message: CallMessage, now: LocalTime) {
        self.received = now;
        match (self.line, message) {
            (CallerConnection::Open, CallMessage::Changed(terms))
                if self.held && terms.sound() && !self.has_sound() =>
            {
                self.unanswered = self.unanswered.saturating_sub(1);
            }
            (CallerConnection::Requested { .. }, CallMessage::Accepted { terms, .. })
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
                CallerConnection::Requested { .. },
                CallMessage::Accepted { call: id, terms, udp_port },
            ) => {
                self.open();
                let agreed = AgreedCall { id, terms, udp_port };
                (self.call, self.called) = (Some(agreed.clone()), true);
                self.numbers = TransportNumbers::default();
                self.requested = None;
                self.steps.push_back(CallerStep::Begin(agreed));
            }
            (CallerConnection::Requested { .. }, CallMessage::Resumed) if self.call.is_some() => {
                self.open();
                self.steps.push_back(CallerStep::Resumed);
                self.ask_again();
            }
            (CallerConnection::Requested { .. }, CallMessage::Refused(why)) => {
                self.refused(why, now)
            }
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
                self.requested.take_if(|requested| requested.terms == terms);
                self.steps.push_back(CallerStep::Change(terms));
            }
            (CallerConnection::Open, CallMessage::Kept(why)) => {
                self.unanswered = self.unanswered.saturating_sub(1);
                // A hold among unanswered requests stays in effect.
                if self.unanswered == 0 {
                    (self.held, self.holds, self.requested) = (!self.has_sound(), 0, None);
                }
                self.steps.push_back(CallerStep::Kept(why));
            }
            (CallerConnection::Open, CallMessage::NotReceived { transport }) => {
                self.steps.push_back(CallerStep::NotReceived(transport));
            }
            (CallerConnection::Open, CallMessage::Ping) => self.emit(CallMessage::Pong),
            (
                CallerConnection::Open | CallerConnection::Requested { .. },
                CallMessage::Bye(why),
            ) => {
                self.steps.push_back(CallerStep::Close);
                self.end(CallOver::Ended(why));
            }
            _ => {}
        }
    }

    fn is_held_unasked(&self, terms: &CallTerms) -> bool {
        !terms.sound() && self.has_sound() && self.holds == 0
    }

    fn answered_otherwise(&mut self) {
        let why = "the answer does not match the offer; update taut on both ends";
        self.steps.push_back(CallerStep::Say(CallMessage::Bye(CallReason::new(why))));
        self.steps.push_back(CallerStep::Close);
        self.end(CallOver::Refused(CallReason::new(why)));
    }

    /// Later changes may request any packet length and codec.
    fn answerable(&self) -> CallOffer {
        let mut offer = self.offer.clone();
        for abilities in [&mut offer.there, &mut offer.back] {
            abilities.ptimes = PTIME_RANGE;
            abilities.codings = Coding::ALL.to_vec();
        }
        offer
    }

    /// Redials if a call existed.
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

    /// Requests other terms.
    pub fn change(&mut self, mut terms: CallTerms) -> Result<(), NotAsked> {
        terms.adapts = terms.adapts.and_then(|adapts| adapts.for_version(self.version));
        terms.redundancy = terms.redundancy.filter(|_| self.version >= REDUNDANCY_VERSION);
        terms.packets().map_err(NotAsked::NoPackets)?;
        if self.call.is_none() || self.line == CallerConnection::Over {
            return Err(NotAsked::NoLine);
        }
        let is_usual = terms.latency == CallLatency::AUTO || terms.latency.kept().is_some();
        if self.version < MAX_VERSION && !is_usual {
            return Err(NotAsked::Older);
        }
        if self.has_line() {
            self.request(terms, false);
        } else {
            // Sent when the call resumes.
            self.requested = Some(RequestedTerms { terms, again: false });
        }
        Ok(())
    }

    /// Requests a hold, or audio via these paths.
    pub fn hold(&mut self, held: bool, paths: &[CallPath]) -> Result<(), NotAsked> {
        let Some(call) = &self.call else { return Err(NotAsked::NoLine) };
        let requested = self.requested().filter(|_| !held);
        if requested.is_some_and(|requested| !requested.sound()) && call.terms.sound() {
            return Err(NotAsked::Ending);
        }
        // The last request may still be rejected.
        let mut terms = requested.unwrap_or(&call.terms).clone();
        terms.paths = if held { Vec::new() } else { paths.to_vec() };
        self.change(terms)
    }

    fn request(&mut self, terms: CallTerms, again: bool) {
        let held = !terms.sound();
        self.emit(CallMessage::Change(terms.clone()));
        self.allow_paths(&terms.paths);
        if !held {
            self.by = Some(terms.paths.clone());
            if !self.has_sound() {
                self.numbers.request();
            }
        }
        self.held = held;
        self.holds += u32::from(held);
        self.unanswered += 1;
        self.requested = Some(RequestedTerms { terms, again });
    }

    /// Only once: the request may have caused the loss.
    fn ask_again(&mut self) {
        match self.requested.take() {
            Some(RequestedTerms { terms, again: false }) => {
                self.steps.push_back(CallerStep::Again(terms.clone()));
                self.request(terms, true);
            }
            Some(RequestedTerms { terms, again: true }) => {
                self.held = !self.has_sound();
                self.steps.push_back(CallerStep::Dropped(terms));
            }
            None => {}
        }
    }

    /// Announces the transport. Returns `false` without a connection.
    pub fn go_by(&mut self, path: CallPath, transport: u32) -> bool {
        self.say_if_open(CallMessage::Path { path, transport })
    }

    fn say_if_open(&mut self, message: CallMessage) -> bool {
        let open = self.has_line();
        if open {
            self.emit(message);
        }
        open
    }

    /// Ends the call.
    pub fn hang_up(&mut self, why: CallReason) {
        if !matches!(
            self.line,
            CallerConnection::Away { .. } | CallerConnection::Dialling | CallerConnection::Over
        ) {
            self.emit(CallMessage::Bye(why));
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

    fn emit(&mut self, message: CallMessage) {
        self.steps.push_back(CallerStep::Say(message));
    }

    /// Handles timeouts.
    pub fn poll(&mut self, now: LocalTime) {
        match self.line {
            CallerConnection::Away { dial_at } if now >= dial_at => {
                self.line = CallerConnection::Dialling;
                self.steps.push_back(CallerStep::Dial);
            }
            CallerConnection::Requested { until } if now >= until => self.give_line_up(now),
            CallerConnection::Open if now >= self.received + LINE_DEAD => self.give_line_up(now),
            CallerConnection::Open if now >= self.pinged + PING_EVERY => {
                self.pinged = now;
                self.emit(CallMessage::Ping);
            }
            _ => {}
        }
    }

    fn give_line_up(&mut self, now: LocalTime) {
        self.steps.push_back(CallerStep::Close);
        self.line_lost(now);
    }

    /// Time of the next [`Self::poll`], or [`LocalTime::NEVER`].
    pub fn deadline(&self) -> LocalTime {
        match self.line {
            CallerConnection::Away { dial_at } => dial_at,
            CallerConnection::Requested { until } => until,
            CallerConnection::Open => (self.received + LINE_DEAD).min(self.pinged + PING_EVERY),
            CallerConnection::Dialling | CallerConnection::Over => LocalTime::NEVER,
        }
    }

    /// Next action; call until `None`.
    pub fn step(&mut self) -> Option<CallerStep> {
        self.steps.pop_front()
    }
}
