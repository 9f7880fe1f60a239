//! A call at the caller, without I/O.
//!
//! A driver reports events to [`CallerSession::control`] and [`CallerSession::transport_mut`],
//! calls [`CallerSession::poll`], and carries out every [`CallerAction`].

use std::collections::VecDeque;

use super::caller::{AgreedCall, CallerEnd, CallerStep};
use super::terms::{CallPath, CallTerms};
use super::transport::{CallerTransport, SoundChange, TransportStep};
use crate::time::LocalTime;

/// Next action of the driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallerAction {
    /// Carry out or report this step.
    Control(CallerStep),
    /// A call begins, with keys from the current control connection.
    Begin(AgreedCall, SoundChange),
    /// The call has these terms now.
    Change(CallTerms, SoundChange),
    /// Change the transport, or find another transport.
    Transport(TransportStep),
    /// Report that the audio uses another path.
    Moved(CallPath),
}

#[derive(Debug)]
enum SoundState {
    /// Close the devices.
    Silent,
    /// The called end has lost the call. Devices and packets continue.
    Adrift,
    Sounding(CallerTransport),
}

/// State machine of a call at the caller.
#[derive(Debug)]
pub struct CallerSession {
    /// Takes control events and user requests.
    pub control: CallerEnd,
    sound: SoundState,
    announced: Option<(CallPath, u32)>,
    actions: VecDeque<CallerAction>,
}

impl CallerSession {
    /// Creates a session without a call.
    pub const fn new(control: CallerEnd) -> Self {
        Self { control, sound: SoundState::Silent, announced: None, actions: VecDeque::new() }
    }

    /// Transport of the audio, if any.
    pub const fn transport(&self) -> Option<&CallerTransport> {
        match &self.sound {
            SoundState::Sounding(transport) => Some(transport),
            SoundState::Silent | SoundState::Adrift => None,
        }
    }

    /// Transport, for socket events.
    pub const fn transport_mut(&mut self) -> Option<&mut CallerTransport> {
        match &mut self.sound {
            SoundState::Sounding(transport) => Some(transport),
            SoundState::Silent | SoundState::Adrift => None,
        }
    }

    /// Handles timeouts.
    pub fn poll(&mut self, now: LocalTime) {
        self.control.poll(now);
        self.take_steps(now);
        if let SoundState::Sounding(transport) = &mut self.sound {
            while let Some(step) = transport.poll(now) {
                // If the control connection is lost too, UDP is not the cause.
                if self.control.has_line() || !matches!(step, TransportStep::Report(_)) {
                    self.actions.push_back(CallerAction::Transport(step));
                }
            }
            // The first transport is announced once it exists.
            if self.announced.is_some() {
                self.announce();
            }
        }
    }

    /// Announces the transport in use to the called host, if it changed.
    fn announce(&mut self) {
        let used = self.transport().map(CallerTransport::used);
        let Some((path, number)) = used.filter(|_| used != self.announced) else { return };
        let before = core::mem::replace(&mut self.announced, used);
        if before.is_some_and(|(before, _)| before != path) {
            self.actions.push_back(CallerAction::Moved(path));
        }
        self.control.go_by(path, number);
    }

    /// Next action; call until `None`. Carry out each before the next.
    pub fn action(&mut self, now: LocalTime) -> Option<CallerAction> {
        if self.actions.is_empty() {
            self.announce();
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
                    self.actions.push_back(CallerAction::Begin(call, sound));
                    continue;
                }
                CallerStep::Change(terms) => {
                    self.change(terms, now);
                    continue;
                }
                CallerStep::NotReceived(number) => {
                    let transport = self.transport_mut();
                    transport.into_iter().for_each(|transport| transport.not_received(number, now));
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
    }

    fn adopt(&mut self, terms: &CallTerms, now: LocalTime) -> SoundChange {
        match (&self.sound, terms.sound()) {
            (SoundState::Silent, true) => SoundChange::Begins(self.begin_transport(terms, now)),
            (SoundState::Adrift, true) => SoundChange::Restarts(self.begin_transport(terms, now)),
            (SoundState::Sounding(_), true) => SoundChange::GoesOn,
            (_, false) => {
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
}
