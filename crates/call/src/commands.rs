//! Changes to a call.

use core::cmp::Ordering;

use tautline_dsp::gain::Gain;
use tautline_engine::control::{Answer, CannotChange, Changed, RecvChange, SendChange};
use tautline_engine::plan::lay;
use tautline_proto::call::caller::{AgreedCall, NotAsked};
use tautline_proto::call::terms::{CallAdaptation, CallLatency, CallPath, CallTerms, StreamTerms};
use tautline_proto::call::transport::CallerTransport;
use tautline_proto::congestion::CodingSteps;
use tautline_proto::counters::Counters;
use tautline_proto::latency::{LatencyRule, LatencySum};
use tautline_proto::receive_policy::LatencyRefused;
use tautline_proto::stream::Coding;
use tautline_proto::time::Span;
use tautline_report::snapshot::{StreamSnapshot, StreamState};
use tautline_report::text::missed;

use crate::caller::Caller;
use crate::endpoint::Endpoint;
use crate::terms::{codings, latency_by, next_latency};
use crate::{CallEvent, Standing, bits_in_words};

/// The user's change.
#[derive(Debug, Clone, Copy)]
pub enum Command {
    /// Sends silence; the peer is not involved.
    Mute(bool),
    /// Toggles muting.
    ToggleMute,
    /// Push-to-talk: the key was pressed or is held.
    Talk,
    /// Holds (`true`) or resumes calls at both ends: the call with this index from 0, or all calls.
    Hold(bool, Option<usize>),
    /// Received gain.
    Volume(Gain),
    /// Status of received sound.
    Status,
    /// Packet time, both ways.
    Ptime(Span),
    /// Next longer or shorter default packet time.
    PtimeBy(Ordering),
    /// Codec, both ways.
    Format(Coding),
    /// Adaptive codec, both ways.
    AutoFormat,
    /// Opus bit/s, both ways.
    Bitrate(u32),
    /// Allowed transports in order, and the name of the choice.
    Transport(&'static [CallPath], &'static str),
    /// Latency, both ways.
    Latency(LatencyRule),
    /// Changes the latency by this many packets.
    LatencyBy(i64),
}

fn said(why: impl Into<String>) -> CannotChange {
    CannotChange::Said(why.into())
}

fn received_latency(end: &Endpoint) -> Result<(Span, Span), CannotChange> {
    let standing = match end.recv.request(RecvChange::Status)? {
        Changed::Receiving(standing) => standing.streams.into_iter().next(),
        _ => None,
    };
    Ok(standing.map_or((Span::ZERO, Span::ZERO), |stream| (stream.latency, stream.longest)))
}

pub(crate) fn not_asked(not: NotAsked) -> CannotChange {
    match not {
        NotAsked::NoLine => {
            said("the control connection is lost; repeat this when the call continues")
        }
        NotAsked::Ending => CannotChange::Busy,
        NotAsked::NoPackets(why) => said(why.to_string()),
        NotAsked::Older => {
            said("the taut there does not support auto:TIME; use latency auto, or update it")
        }
    }
}

fn coded(terms: &StreamTerms, measured: Option<&StreamSnapshot>) -> String {
    let StreamTerms { coding, ptime, .. } = *terms;
    let agreed = || (coding.name(), coding.bitrate(), ptime);
    let measured = measured
        .map(|stream| (stream.format.as_str(), stream.bitrate, Span::from_nanos(stream.ptime_ns)));
    let (name, bits, ptime) = measured.unwrap_or_else(agreed);
    format!("{name}{} in packets of {ptime}", bits_in_words(bits))
}

impl Caller {
    pub(crate) fn change(&mut self, request: Command, open: bool) -> Answer {
        match request {
            Command::Mute(_) | Command::ToggleMute | Command::Talk => self.set_open(open),
            Command::Hold(held, _) => self.ask_to_hold(held),
            Command::Volume(gain) => {
                let changed = self.sounding()?.recv.request(RecvChange::Volume(None, gain))?;
                self.volume = gain;
                Ok(changed)
            }
            Command::Status => self.status(open),
            Command::Ptime(ptime) => self.in_packets_of(ptime),
            Command::PtimeBy(way) => {
                let terms = self.wanted()?;
                let next = terms.next_ptime(way).ok_or_else(|| {
                    let what = if way == Ordering::Greater { "longer" } else { "shorter" };
                    let StreamTerms { coding, ptime, .. } = terms.there;
                    said(format!(
                        "{} has no {what} packets than {ptime}; choose another format",
                        coding.name()
                    ))
                })?;
                self.in_packets_of(next)
            }
            Command::Format(coding) => {
                let mut terms = self.wanted()?;
                let of = |terms: StreamTerms| terms.coded(coding.usual_for(terms.channels));
                (terms.there, terms.back) = (of(terms.there), of(terms.back));
                self.code_by(terms, None, Changed::Format(coding))
            }
            Command::AutoFormat => {
                let mut terms = self.wanted()?;
                if terms.adapts.is_none() {
                    return Err(said("the taut there cannot adapt to the network; update it"));
                }
                let adapts = CallAdaptation { codings: codings(), ..CallAdaptation::default() };
                let shape = |terms: &StreamTerms| (terms.rate, terms.channels);
                let has_choice = |terms: &StreamTerms| {
                    CodingSteps::new(shape(terms), &adapts.limits(terms)).is_some()
                };
                if !has_choice(&terms.there) || !has_choice(&terms.back) {
                    return Err(said(
                        "no alternative formats for such a stream; choose one with format",
                    ));
                }
                if adapts.codings.contains(&Coding::OPUS) {
                    let opus = |terms: StreamTerms| {
                        let coded = terms.coded(Coding::OPUS.usual_for(terms.channels));
                        if coded.packets().is_ok() { coded } else { terms }
                    };
                    (terms.there, terms.back) = (opus(terms.there), opus(terms.back));
                }
                terms.adapts = Some(adapts);
                self.change_to(terms, Changed::Said("format auto".to_owned()))
            }
            Command::Bitrate(bits) => {
                let terms = self.wanted()?;
                if terms.there.coding.bitrate().or(terms.back.coding.bitrate()).is_none() {
                    let coding = terms.there.coding.name();
                    return Err(said(format!(
                        "{coding} has no selectable bit rate; use format opus first"
                    )));
                }
                let (there, back) = (terms.there.at_bitrate(bits), terms.back.at_bitrate(bits));
                let changed = Changed::Said(format!("bitrate {bits}"));
                self.code_by(CallTerms { there, back, ..terms }, Some(bits), changed)
            }
            Command::Transport(paths, name) => {
                let wanted = self.wanted()?;
                if !wanted.sound() {
                    return Err(said("on hold; use resume first"));
                }
                let terms = CallTerms { paths: paths.to_vec(), ..wanted };
                let changed = Changed::Said(format!("transport {name}"));
                let changed = self.change_to(terms, changed)?;
                self.paths = paths;
                Ok(changed)
            }
            Command::Latency(rule) => {
                let latency = latency_by(rule);
                let terms = CallTerms { latency, ..self.wanted()? };
                self.change_to(terms, Changed::Latency(latency.rule()))
            }
            Command::LatencyBy(packets) => {
                let wanted = self.wanted()?;
                let ptime = wanted.back.ptime;
                let now = match wanted.latency {
                    CallLatency::Kept(latency) => latency,
                    CallLatency::Auto { .. } => received_latency(self.sounding()?)?.0,
                };
                let step = ptime.times(packets);
                let latency = CallLatency::Kept(next_latency(now, step, self.min_latency(&wanted)));
                let changed = Changed::Latency(latency.rule());
                self.change_to(CallTerms { latency, ..wanted }, changed)
            }
        }
    }

    pub(crate) fn ask_to_hold(&mut self, held: bool) -> Answer {
        let control = &mut self.session.control;
        if control.call().is_none() {
            // An unanswered offer keeps the old terms; the call changes later.
            self.held_next = (!control.begins_held(held)).then_some(held);
            return Ok(Changed::Held(held));
        }
        control.hold(held, self.paths).map_err(not_asked)?;
        self.requested = Some(Changed::Held(held));
        Ok(Changed::Held(held))
    }

    fn sounding(&self) -> Result<&Endpoint, CannotChange> {
        self.endpoint.as_ref().ok_or_else(|| {
            let why = match self.session.control.call() {
                Some(_) => "on hold; use resume first",
                None => "no call yet; repeat this when there is one",
            };
            said(why)
        })
    }

    fn status(&self, open: bool) -> Answer {
        if self.standing() == Standing::Held {
            return Ok(Changed::Said("status held".to_owned()));
        }
        let standing = self.sounding()?.recv.request(RecvChange::Status)?;
        let mut words = (self.config.end.change_words)(&standing);
        if let Some(AgreedCall { terms: CallTerms { there, back, .. }, .. }) =
            self.session.control.call()
        {
            let [sent, received] = self.watched.newest();
            words += &format!(", sends {}, hears {}", coded(there, sent), coded(back, received));
        }
        if let Some((path, _)) = self.session.transport().map(CallerTransport::used) {
            words += &format!(", by {}", path.name());
        }
        words += if open { ", open" } else { ", muted" };
        if let [sent, Some(stream)] = self.watched.newest() {
            let Counters { lost, received: arrived, .. } = stream.counted().unwrap_or_default();
            words += &format!(", lost {lost} of {} packets", lost.saturating_add(arrived));
            let is_current = stream.state != StreamState::Silent;
            if let Some(measured) = stream.latency.measured_ns.filter(|_| is_current) {
                words += &format!(", measured {}", Span::from_nanos(measured));
            }
            words += &format!(", {}", missed(stream, sent));
        }
        Ok(Changed::Said(words))
    }

    fn wanted(&self) -> Result<CallTerms, CannotChange> {
        self.sounding()?;
        let control = &self.session.control;
        let call = control.call().ok_or(CannotChange::Busy)?;
        Ok(control.requested().unwrap_or(&call.terms).clone())
    }

    fn code_by(&mut self, mut terms: CallTerms, maximum: Option<u32>, changed: Changed) -> Answer {
        let was_auto = terms.adapts.as_ref().is_some_and(CallAdaptation::is_auto_at_once);
        let bits = CallAdaptation { max_bitrate: maximum, ..CallAdaptation::default() };
        terms.adapts = terms.adapts.map(|_| bits);
        let changed = self.change_to(terms, changed)?;
        if was_auto {
            self.notify(CallEvent::CodingKept);
        }
        Ok(changed)
    }

    fn in_packets_of(&mut self, ptime: Span) -> Answer {
        let mut terms = self.wanted()?;
        (terms.there.ptime, terms.back.ptime) = (ptime, ptime);
        self.change_to(terms, Changed::Ptime(ptime))
    }

    fn change_to(&mut self, terms: CallTerms, changed: Changed) -> Answer {
        self.takes(&terms)?;
        self.session.control.change(terms).map_err(not_asked)?;
        self.requested = Some(changed.clone());
        Ok(changed)
    }

    pub(crate) fn set_open(&mut self, open: bool) -> Answer {
        if let Some(endpoint) = self.endpoint.as_ref().filter(|_| open != self.open) {
            self.open = open;
            endpoint.send.request(SendChange::Mute(!open))?;
        }
        Ok(Changed::Said(if open { "unmute" } else { "mute" }.to_owned()))
    }

    /// Minimum latency of the received sound at this device.
    fn min_latency(&self, terms: &CallTerms) -> Span {
        let ptime = terms.back.format(0).map_or(terms.back.ptime, |format| format.ptime());
        LatencySum::of(ptime, &self.devices.playback).without_network()
    }

    /// Checks this device before asking the peer.
    fn takes(&self, terms: &CallTerms) -> Result<(), CannotChange> {
        let room = received_latency(self.sounding()?)?.1;
        if let Some(requested) = terms.latency.beyond(room) {
            return Err(said(format!(
                "a latency of {requested} exceeds the buffers of this call, {room}; hang up and call with --latency {}",
                terms.latency
            )));
        }
        let Some(requested) = terms.latency.kept() else { return Ok(()) };
        let Some(format) = terms.back.format(0) else { return Ok(()) };
        let playback = &self.devices.playback;
        let kept = lay::kept(LatencyRule::Chosen(requested), None, &format, playback);
        kept.map(|_| ()).map_err(|short| CannotChange::Latency {
            address: self.host.clone(),
            refused: LatencyRefused::TooShort { requested, needs: short.needs },
        })
    }
}
