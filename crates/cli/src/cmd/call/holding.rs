//! Calls with sound and without: the devices are open while there is sound, and the line is there all the while.

use tautline_engine::control::{CannotChange, Changed};
use tautline_io::clock::now;
use tautline_proto::call::caller::AgreedCall;
use tautline_proto::call::terms::CallTerms;
use tautline_proto::device::Stop;

use super::adapting::Adapting;
use super::made::CallMade;
use super::share::{CallShare, CallStanding};
use super::transports::Transports;
use super::{Calling, offer_of};
use crate::cmd::call_end::{
    CallEnd, CallSide, DeviceChoice, EndSetup, EndSound, directions, in_words, without_echo,
};
use crate::failure::Failure;

impl Calling<'_> {
    /// Begins with a transport that is there before the first packet: of a file not a frame is to be missed.
    pub(super) fn open(
        &mut self,
        call: &AgreedCall,
        stop: &Stop,
        made: CallMade,
    ) -> Result<(), Failure> {
        let (sent, heard) = directions(&call.terms, CallSide::Caller);
        self.devices = self.choice.at(&sent, &heard)?;
        // As they run, so the call is taken up again.
        self.caller.offers(offer_of(self.flags, &DeviceChoice::alone(self.devices)));
        let watched = self.watched.clone();
        self.adapting = match self.auto {
            true => Adapting::new(&call.terms, watched, now()),
            false => Adapting::in_bits(&call.terms, self.bitrate, watched, now()),
        };
        let sound = match &mut self.share {
            Some(share) => EndSound::Part(share.take()?),
            None => {
                let specs = (&self.flags.input, &self.flags.output);
                let rule = self.flags.echo;
                let echo = without_echo(rule, specs, &self.devices, self.voice)?;
                EndSound::Own(echo.map(Box::new))
            }
        };
        // Whoever muted while there was no sound is not heard.
        self.open = self.is_open();
        let setup = EndSetup {
            name: "call",
            far: self.host.to_string(),
            flags: &self.flags.end,
            input: &self.flags.input,
            output: &self.flags.output,
            devices: self.devices,
            sent,
            heard,
            latency: call.terms.latency,
            muted: !self.open,
            in_call: true,
            witness: self.share.as_ref().is_none_or(CallShare::is_first),
            sounding: self.share.as_ref().map_or(1, |share| share.index as usize + 1),
            recorded_before: self.share.as_ref().map_or(0, |share| share.index),
            onlookers: self.onlookers.iter().chain([&self.watched, &self.seen]).cloned().collect(),
        };
        let (end, mut transports) =
            CallEnd::begin(&setup, sound, stop, |link| Transports::begin(link, call, made))?;
        transports.begun();
        (self.end, self.transports) = (Some(end), Some(transports));
        self.made.iter_mut().for_each(|made| made.asked = 0);
        self.share.iter().for_each(CallShare::begins);
        Ok(())
    }

    /// How it stands with the sound.
    pub(super) fn standing(&self) -> CallStanding {
        match &self.transports {
            Some(transports) => CallStanding::By(transports.now().0),
            None if self.end.is_none() && self.caller.call().is_some() => CallStanding::Held,
            None => CallStanding::None,
        }
    }

    /// Asks for a call without sound, or with.
    pub(super) fn ask_to_hold(&mut self, held: bool) -> Result<Changed, CannotChange> {
        let Some(call) = self.caller.call() else {
            // It is to begin so.
            let begins = self.caller.begins_held(held);
            return if begins { Ok(Changed::Held(held)) } else { Err(CannotChange::Busy) };
        };
        let asked = self.caller.asked();
        let ends = asked.is_some_and(|asked| !asked.sound()) && call.terms.sound();
        if ends && !held {
            // Whether the sound is over there is not known yet.
            return Err(CannotChange::Busy);
        }
        // Of what may be refused yet a hold is no part.
        let mut terms = asked.filter(|_| !held).unwrap_or(&call.terms).clone();
        terms.paths = if held { Vec::new() } else { self.paths.clone() };
        self.ask_for(terms)?;
        self.asked = Some(crate::words::changed(&Changed::Held(held)));
        Ok(Changed::Held(held))
    }

    /// Sounds by these terms from now on, or not at all.
    pub(super) fn adopt(&mut self, terms: &CallTerms, stop: &Stop) -> Result<(), Failure> {
        match (&self.end, terms.sound()) {
            (Some(end), true) => {
                let ways = directions(terms, CallSide::Caller);
                if let Err(why) = end.adopt(ways, terms.latency) {
                    self.tell(&crate::words::cannot_change(&why));
                }
            }
            (Some(_), false) => {
                self.hold()?;
                self.tell("the call is without sound; say resume to have some");
            }
            (None, true) => {
                let call = self.caller.call().cloned();
                if let (Some(call), Some(made)) = (call, self.made) {
                    self.open(&call, stop, made)?;
                    self.tell(&format!("the call has sound: {}", in_words(terms)));
                    self.tell_path();
                }
            }
            (None, false) => {}
        }
        Ok(())
    }

    /// Ends the sound, and closes the devices.
    fn hold(&mut self) -> Result<(), Failure> {
        (self.adapting, self.lost) = (None, None);
        drop(self.seen[1].newest());
        if let (Some(transports), Some(made)) = (self.transports.take(), &mut self.made) {
            made.used = made.used.max(Some(transports.used()));
        }
        let Some(end) = self.end.take() else { return Ok(()) };
        self.heard |= end.link.heard() > 0;
        let left = end.end();
        self.caller.offers(offer_of(self.flags, &self.choice));
        self.share.iter_mut().for_each(CallShare::gives_back);
        let left = left?;
        if let Some(failed) = self.ended.keep(left) {
            self.tell(&failed);
        }
        Ok(())
    }
}
