//! One call at the end that makes it, without I/O: joins the control connection ([`CallerEnd`]), the transports of the sound
//! ([`CallerTransport`]) and the coding that follows the network ([`Adaptation`]).
//!
//! A driver reports events to [`CallerSession::control`] and [`CallerSession::transport_mut`], lets time pass
//! ([`CallerSession::poll`]), and then carries out every [`CallerAction`].

use std::collections::VecDeque;

use super::adaptation::{Adaptation, PacketCounts};
use super::caller::{AgreedCall, CallerEnd, CallerStep, NotAsked};
use super::terms::{CallPath, CallTerms};
use super::transport::{CallerTransport, SoundChange, TransportStep};
use crate::time::{LocalTime, Span};

/// What is known by now of the packets there, and back.
pub type Feedback = [Option<PacketCounts>; 2];

/// What a driver does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallerAction {
    /// Carry out, or report, this step of the control connection. Those that the following actions stand for are not among
    /// them, nor are answers to requests that the session made.
    Control(CallerStep),
    /// A call begins: its keys are those of the present control connection. [`CallerSession::ask_for_bits`] comes after it.
    Begin(AgreedCall, SoundChange),
    /// The sound has these terms from now on.
    Change(CallTerms, SoundChange),
    /// Exchange the transport, or look for another.
    Transport(TransportStep),
    /// Report that the sound goes by another path.
    Moved(CallPath),
    /// Report terms that follow the network.
    Adapted(CallTerms),
}

#[derive(Debug)]
enum SoundState {
    /// The devices are closed.
    Silent,
    /// The other end has lost the call; the devices run, and packets go as they went.
    Adrift,
    Sounding(CallerTransport),
}

/// See the module. One owner.
#[derive(Debug)]
pub struct CallerSession {
    /// Takes the events of the control connection, and the requests of the user.
    pub control: CallerEnd,
    sound: SoundState,
    /// The transport that the other end knows of.
    announced: Option<(CallPath, u32)>,
    adaptation: Option<Adaptation>,
    /// Whether the coding follows the network, and not its bit rate alone.
    auto: bool,
    /// The maximum bit rate.
    pub bitrate: Option<u32>,
    actions: VecDeque<CallerAction>,
}

impl CallerSession {
    /// `auto` if the coding follows the network; otherwise its bit rate does, up to `bitrate`.
    pub const fn new(control: CallerEnd, auto: bool, bitrate: Option<u32>) -> Self {
        Self {
            control,
            sound: SoundState::Silent,
            announced: None,
            adaptation: None,
            auto,
            bitrate,
            actions: VecDeque::new(),
        }
    }

    /// Decides about the transport, while the call has sound.
    pub const fn transport(&self) -> Option<&CallerTransport> {
        match &self.sound {
            SoundState::Sounding(transport) => Some(transport),
            SoundState::Silent | SoundState::Adrift => None,
        }
    }

    /// Takes the events of the sockets.
    pub const fn transport_mut(&mut self) -> Option<&mut CallerTransport> {
        match &mut self.sound {
            SoundState::Sounding(transport) => Some(transport),
            SoundState::Silent | SoundState::Adrift => None,
        }
    }

    /// Lets time pass. `feedback` is asked for when it is needed.
    pub fn poll(&mut self, feedback: impl FnOnce() -> Feedback, now: LocalTime) {
        self.control.poll(now);
        self.take_steps(now);
        let mut heard = 0;
        if let SoundState::Sounding(transport) = &mut self.sound {
            heard = transport.heard();
            while let Some(step) = transport.poll(now) {
                // If the control connection is lost, too, more is amiss than that UDP does not pass.
                if self.control.has_line() || !matches!(step, TransportStep::Report(_)) {
                    self.actions.push_back(CallerAction::Transport(step));
                }
            }
            // The first is announced once it is there.
            if self.announced.is_some() {
                self.announce(now);
            }
        }
        self.adapt(heard, feedback, now);
    }

    /// Asks for another coding, if the network carries more or less than the present one.
    fn adapt(&mut self, heard: u64, feedback: impl FnOnce() -> Feedback, now: LocalTime) {
        let call = self.control.call().filter(|_| self.control.asked().is_none());
        let (Some(call), Some(adaptation)) = (call, &mut self.adaptation) else { return };
        // If the line is lost, or no sound comes, more is amiss than that reports find no room.
        let heard = self.control.has_line().then_some(heard);
        let wanted = adaptation.poll(&call.terms, heard, feedback, now);
        if wanted.is_some_and(|terms| self.control.change(terms).is_err()) {
            adaptation.dropped();
        }
    }

    /// Tells the other end the transport, if it is another. A connection is known by its ticket, too.
    fn announce(&mut self, now: LocalTime) {
        let used = self.transport().map(CallerTransport::used);
        let Some((path, number)) = used.filter(|_| used != self.announced) else { return };
        if let Some((before, _)) = core::mem::replace(&mut self.announced, used) {
            if path != before {
                self.actions.push_back(CallerAction::Moved(path));
            }
            self.adaptation.iter_mut().for_each(|adaptation| adaptation.moved(now));
        }
        self.control.go_by(path, number);
    }

    /// The next action, until there is none. Each is carried out before the next is taken.
    pub fn action(&mut self, now: LocalTime) -> Option<CallerAction> {
        if self.actions.is_empty() {
            self.announce(now);
            self.take_steps(now);
        }
        self.actions.pop_front()
    }

    fn take_steps(&mut self, now: LocalTime) {
        while let Some(step) = self.control.step() {
            match step {
                CallerStep::Begin(call) => {
                    if self.transport().is_some() {
                        self.sound = SoundState::Adrift;
                    }
                    let sound = self.adopt(&call.terms, now);
                    let _ = self.adaptation.as_mut().map(|one| one.answered(&call.terms));
                    self.actions.push_back(CallerAction::Begin(call, sound));
                    continue;
                }
                CallerStep::Change(terms) => {
                    self.change(terms, now);
                    continue;
                }
                CallerStep::Unheard(number) => {
                    let transport = self.transport_mut();
                    transport.into_iter().for_each(|transport| transport.unheard(number, now));
                }
                CallerStep::Dropped(_)
                    if self.adaptation.as_mut().is_some_and(Adaptation::dropped) =>
                {
                    continue;
                }
                CallerStep::Kept(_) => {
                    // A coding that is chosen here is tried until one is accepted.
                    let is_own = self.adaptation.as_mut().is_some_and(|one| one.refused(now));
                    if let Some(terms) = self.control.call().map(|call| call.terms.clone()) {
                        self.follow_in_bits(&terms, now);
                    }
                    if is_own {
                        continue;
                    }
                }
                CallerStep::Resumed => self.announced = None,
                CallerStep::TurnedAway(_) if self.transport().is_some() => {
                    self.sound = SoundState::Adrift;
                }
                _ => {}
            }
            self.actions.push_back(CallerAction::Control(step));
        }
    }

    fn change(&mut self, terms: CallTerms, now: LocalTime) {
        let sound = self.adopt(&terms, now);
        self.actions.push_back(CallerAction::Change(terms.clone(), sound));
        if let Some(transport) = self.transport_mut() {
            transport.allow(&terms.paths, now);
        }
        self.follow_in_bits(&terms, now);
        if self.adaptation.as_mut().is_some_and(|adaptation| adaptation.answered(&terms)) {
            self.actions.push_back(CallerAction::Adapted(terms));
        }
    }

    /// Sounds by these terms from now on, or not at all.
    fn adopt(&mut self, terms: &CallTerms, now: LocalTime) -> SoundChange {
        match (&self.sound, terms.sound()) {
            (SoundState::Silent, true) => {
                self.adaptation = match self.auto {
                    true => Adaptation::new(terms, now),
                    false => Adaptation::in_bits(terms, self.bitrate, now),
                };
                SoundChange::Begins(self.begin_transport(terms, now))
            }
            (SoundState::Adrift, true) => SoundChange::Restarts(self.begin_transport(terms, now)),
            (SoundState::Sounding(_), true) => SoundChange::GoesOn,
            (_, false) => {
                self.adaptation = None;
                let before = core::mem::replace(&mut self.sound, SoundState::Silent);
                if let SoundState::Sounding(transport) = before {
                    self.control.numbers.end(&transport);
                }
                SoundChange::Ends
            }
        }
    }

    fn begin_transport(&mut self, terms: &CallTerms, now: LocalTime) -> TransportStep {
        let Some(number) = self.control.numbers.first() else { return TransportStep::UsedUp };
        let (transport, first) = CallerTransport::begin(&terms.paths, number, now);
        self.control.numbers.begin();
        (self.sound, self.announced) = (SoundState::Sounding(transport), None);
        first
    }

    /// Asks for the chosen bit rate, which is no part of an offer.
    pub fn ask_for_bits(&mut self, terms: &CallTerms) -> Result<(), NotAsked> {
        let Some(bits) = self.bitrate else { return Ok(()) };
        let (there, back) = (terms.there.at_bitrate(bits), terms.back.at_bitrate(bits));
        let wanted = CallTerms { there, back, ..terms.clone() };
        if wanted == *terms { Ok(()) } else { self.control.change(wanted) }
    }

    /// Has the bit rate follow the network if the coding does not.
    fn follow_in_bits(&mut self, terms: &CallTerms, now: LocalTime) {
        if self.adaptation.is_none() && terms.sound() && self.control.asked().is_none() {
            self.adaptation = Adaptation::in_bits(terms, self.bitrate, now);
        }
    }

    /// Has the coding follow the network. False without a choice.
    pub fn follow_network(&mut self, terms: &CallTerms, now: LocalTime) -> bool {
        let adaptation = Adaptation::new(terms, now);
        let has_choice = adaptation.is_some();
        if has_choice {
            (self.adaptation, self.auto, self.bitrate) = (adaptation, true, None);
        }
        has_choice
    }

    /// Has the coding follow the network no more. Whether it did.
    pub fn keep_coding(&mut self) -> bool {
        self.adaptation = None;
        core::mem::take(&mut self.auto)
    }

    /// Whether the coding follows the network, and does so in packets of this time, too.
    pub fn tries(&mut self, ptime: Span) -> bool {
        let follows = self.adaptation.as_mut().filter(|_| self.auto);
        follows.is_some_and(|adaptation| adaptation.tries(ptime))
    }

    /// The user asked for packets of this time, in which all is to be tried.
    pub fn asks_for(&mut self, ptime: Span) {
        self.adaptation.iter_mut().for_each(|adaptation| adaptation.asks_for(ptime));
    }
}
