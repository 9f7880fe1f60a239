//! What a line on standard input may change of a call.

use core::cmp::Ordering;

use clap::ValueEnum;
use tautline_api::call::CallAddress;
use tautline_audio::{DeviceSpec, SoftwareSpec};
use tautline_dsp::gain::Gain;
use tautline_engine::control::{Answer, CannotChange, Changed, Fader, RecvChange, SendChange};
use tautline_engine::plan::lay;
use tautline_io::clock::now;
use tautline_proto::call::caller::{AgreedCall, NotAsked};
use tautline_proto::call::terms::{CallLatency, CallTerms, StreamTerms};
use tautline_proto::latency::{LatencyRule, enough_latency};
use tautline_proto::receiving::LatencyRefused;
use tautline_proto::stream::{Coding, LONGEST_LINK_OFFSET, PTIME_RANGE};
use tautline_proto::time::Span;

use super::Calling;
use super::adapting::Adapting;
use super::share::CallStanding;
use super::transports::Transports;
use crate::cmd::call_end::{CallEnd, bits_in_words, latency_by};
use crate::control::nothing;
use crate::flags::{CallFlags, TransportFlag, bitrate, coding_in_line, latency, parse, span};

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub(super) enum CallAsk {
    /// Whether silence is sent, which is nobody else's concern.
    Mute(bool),
    /// Whether the call is without sound, at both ends; of several, all or the how many-th.
    Hold(bool, Option<usize>),
    /// How loud it is heard here.
    Volume(Gain),
    /// Nothing: how it stands with what is heard.
    Status,
    /// Sound in one packet, both ways.
    Ptime(Span),
    Format(Coding),
    /// Coding by what the network carries, both ways.
    AutoFormat,
    /// Bits per second of Opus, both ways.
    Bitrate(u32),
    /// By what the sound goes.
    Transport(TransportFlag),
    /// From capture to loudspeaker, both ways.
    Latency(CallLatency),
    /// So many packets more of it, or less.
    LatencyBy(i64),
    /// Longer packets, or shorter: the next of those that are usual.
    PtimeBy(Ordering),
}

pub(super) struct CallLines {
    hosts: Vec<CallAddress>,
    /// Whether a file is played or recorded.
    of_files: bool,
}

/// Whether a file is played or recorded: one that is opened again begins anew.
pub(super) fn is_of_files(flags: &CallFlags) -> bool {
    let is_file = |device: &DeviceSpec| {
        matches!(device, DeviceSpec::Software(SoftwareSpec::File(_) | SoftwareSpec::Standard(_)))
    };
    is_file(&flags.input) || is_file(&flags.output)
}

impl CallAsk {
    /// Whether it is for this call of several.
    pub(super) fn is_for(self, index: usize) -> bool {
        !matches!(self, Self::Hold(_, Some(only)) if only != index)
    }
}

impl CallLines {
    /// Those of these calls.
    pub(super) fn of(flags: &CallFlags) -> Self {
        Self { hosts: flags.hosts.clone(), of_files: is_of_files(flags) }
    }

    /// The call that is meant by this, of several: by its name, its address or both.
    fn which(&self, verb: &str, text: &str) -> Result<Option<usize>, String> {
        if text.is_empty() || self.hosts.len() < 2 {
            return nothing(verb, text, None);
        }
        let is_meant = |host: &CallAddress| {
            let whole = host.to_string();
            let place = whole.split_once('=').map_or(&*whole, |(_, place)| place);
            [Some(&*whole), Some(place), Some(&*host.0.host), host.0.name.as_deref()]
                .contains(&Some(text))
        };
        let mut meant = (0..).zip(&self.hosts).filter(|(_, host)| is_meant(host));
        match (meant.next(), meant.next()) {
            (Some((index, _)), None) => Ok(Some(index)),
            (one, _) => {
                let what = if one.is_some() { "several calls" } else { "no call" };
                let hosts: Vec<_> = self.hosts.iter().map(ToString::to_string).collect();
                Err(format!(
                    "`{text}` is {what}; write {verb} alone for all, or after it one of {}",
                    hosts.join(", ")
                ))
            }
        }
    }

    pub(super) fn read(&self, verb: &str, rest: &str) -> Result<CallAsk, String> {
        match verb {
            "mute" => nothing(verb, rest, CallAsk::Mute(true)),
            "unmute" => nothing(verb, rest, CallAsk::Mute(false)),
            "hold" if self.of_files => Err(
                "a file that is held would begin anew; quit and call again, or keep the sound by --record".to_owned(),
            ),
            "hold" => Ok(CallAsk::Hold(true, self.which(verb, rest)?)),
            "resume" => Ok(CallAsk::Hold(false, self.which(verb, rest)?)),
            "volume" => Ok(CallAsk::Volume(parse(rest)?)),
            "ptime" => match span(rest)? {
                ptime if ptime < PTIME_RANGE.0 || ptime > PTIME_RANGE.1 => Err(format!(
                    "packets carry {} to {}; write ptime 5ms or the like", PTIME_RANGE.0, PTIME_RANGE.1
                )),
                ptime => Ok(CallAsk::Ptime(ptime)),
            },
            "format" if rest == "auto" => Ok(CallAsk::AutoFormat),
            "bitrate" => Ok(CallAsk::Bitrate(bitrate(rest)?)),
            "transport" => TransportFlag::from_str(rest, true).map(CallAsk::Transport).map_err(|_| {
                format!("`{rest}` is no transport of calls; write udp, tcp or auto")
            }),
            "format" => Ok(CallAsk::Format(coding_in_line(rest, "auto, ")?)),
            "latency" => match latency(rest)? {
                LatencyRule::Chosen(asked) if asked > LONGEST_LINK_OFFSET => Err(format!(
                    "no latency is longer than {LONGEST_LINK_OFFSET}; write latency {LONGEST_LINK_OFFSET} or less"
                )),
                rule => Ok(CallAsk::Latency(latency_by(rule))),
            },
            "status" => nothing(verb, rest, CallAsk::Status),
            _ => Err("this cannot be changed in a call; write mute, unmute, hold, resume, volume, latency, ptime, format, \
                bitrate, transport, status or quit"
                .into()),
        }
    }
}

/// That no change is taken, and when it is.
fn no_line() -> CannotChange {
    CannotChange::Said(
        "the control connection is lost; say it again once the call goes on".to_owned(),
    )
}

/// That there are none longer, or shorter, to go to.
fn no_next(terms: &CallTerms, way: Ordering) -> CannotChange {
    let what = if way == Ordering::Greater { "longer" } else { "shorter" };
    let StreamTerms { coding, ptime, .. } = terms.there;
    CannotChange::Said(format!(
        "{} has no {what} packets than {ptime}; choose another format for others",
        coding.name()
    ))
}

fn by_packets_of(terms: &mut CallTerms, ptime: Span) -> Changed {
    (terms.there.ptime, terms.back.ptime) = (ptime, ptime);
    Changed::Ptime(ptime)
}

/// What is kept by now of what is heard, and the longest that there is room for.
fn heard_latency(end: &CallEnd) -> Result<(Span, Span), CannotChange> {
    let standing = match end.recv.ask(RecvChange::Status)? {
        Changed::Receiving(standing) => standing.streams.into_iter().next(),
        _ => None,
    };
    Ok(standing.map_or((Span::ZERO, Span::ZERO), |stream| (stream.latency, stream.longest)))
}

/// How one direction is coded.
fn coded(terms: &StreamTerms) -> String {
    let StreamTerms { coding, ptime, .. } = *terms;
    format!("{}{} in packets of {ptime}", coding.name(), bits_in_words(coding))
}

impl Calling<'_> {
    /// Makes a change that was asked for.
    pub(super) fn change(&mut self, ask: CallAsk) -> Result<Changed, CannotChange> {
        match ask {
            CallAsk::Mute(muted) => self.mute(muted),
            CallAsk::Hold(held, _) => self.ask_to_hold(held),
            CallAsk::Volume(gain) => self.sounding()?.recv.ask(RecvChange::Volume(None, gain)),
            CallAsk::Status => self.status(),
            CallAsk::Ptime(ptime) => self.in_packets_of(ptime),
            CallAsk::PtimeBy(way) => {
                let terms = self.wanted()?;
                let next = terms.next_ptime(way).ok_or_else(|| no_next(&terms, way))?;
                self.in_packets_of(next)
            }
            CallAsk::Format(coding) => {
                let changed = self.code_by(|terms| {
                    let of = |terms: StreamTerms| terms.coded(coding.usual_for(terms.channels));
                    (terms.there, terms.back) = (of(terms.there), of(terms.back));
                    Changed::Format(coding)
                })?;
                self.bitrate = None;
                Ok(changed)
            }
            CallAsk::AutoFormat => {
                let terms = self.wanted()?;
                let adapting = Adapting::new(&terms, self.watched.clone(), now());
                let adapting = adapting.ok_or_else(|| {
                    let why =
                        "of such a stream there are no codings to choose from; say format with one";
                    CannotChange::Said(why.to_owned())
                })?;
                (self.adapting, self.auto, self.bitrate) = (Some(adapting), true, None);
                Ok(Changed::Said("format auto".to_owned()))
            }
            CallAsk::Bitrate(bits) => {
                let terms = self.wanted()?;
                if terms.there.coding.bitrate().or(terms.back.coding.bitrate()).is_none() {
                    let coding = terms.there.coding.name();
                    return Err(CannotChange::Said(format!(
                        "{coding} takes what its sound takes; say format opus first"
                    )));
                }
                let changed = self.code_by(|terms| {
                    (terms.there, terms.back) =
                        (terms.there.at_bitrate(bits), terms.back.at_bitrate(bits));
                    Changed::Said(format!("bitrate {bits}"))
                })?;
                self.bitrate = Some(bits);
                Ok(changed)
            }
            CallAsk::Transport(way) => {
                let paths = way.paths();
                let wanted = self.wanted()?;
                if !wanted.sound() {
                    return Err(CannotChange::Said("held; say resume".to_owned()));
                }
                let terms = CallTerms { paths: paths.clone(), ..wanted };
                let changed = Changed::Said(format!("transport {}", way.name()));
                let changed = self.change_to(terms, changed)?;
                self.paths = paths;
                Ok(changed)
            }
            CallAsk::Latency(latency) => {
                let terms = CallTerms { latency, ..self.wanted()? };
                self.change_to(terms, Changed::Latency(latency.rule()))
            }
            CallAsk::LatencyBy(packets) => {
                let wanted = self.wanted()?;
                let ptime = wanted.back.ptime;
                let now = match wanted.latency {
                    CallLatency::Kept(latency) => latency,
                    CallLatency::Auto { .. } => heard_latency(self.sounding()?)?.0,
                };
                let latency = CallLatency::Kept((now + ptime.times(packets)).max(ptime));
                let changed = Changed::Latency(latency.rule());
                self.change_to(CallTerms { latency, ..wanted }, changed)
            }
        }
    }

    /// The end that sounds.
    fn sounding(&self) -> Result<&CallEnd, CannotChange> {
        self.end.as_ref().ok_or_else(|| {
            let why = match self.caller.call() {
                Some(_) => "held; say resume",
                None => "there is no call yet; say it again once there is one",
            };
            CannotChange::Said(why.to_owned())
        })
    }

    /// How it stands with what is heard, and by what both directions go.
    fn status(&mut self) -> Answer {
        if self.standing() == CallStanding::Held {
            return Ok(Changed::Said("status held; say resume".to_owned()));
        }
        let standing = self.sounding()?.recv.ask(RecvChange::Status)?;
        let mut words = crate::words::changed(&standing);
        if let Some(AgreedCall { terms: CallTerms { there, back, .. }, .. }) = self.caller.call() {
            words += &format!(", sends {}, hears {}", coded(there), coded(back));
        }
        if let Some((path, _)) = self.transports.as_ref().map(Transports::now) {
            words += &format!(", by {}", path.name());
        }
        words += if self.is_open() { ", open" } else { ", muted" };
        let heard = self.seen[1].newest().and_then(|newest| newest.streams.into_iter().next());
        if let Some(stream) = heard {
            let count = |name: &str| stream.counters.get(name).copied().unwrap_or(0);
            let (lost, came) = (count("lost"), count("packets_received"));
            self.lost = Some([lost, lost.saturating_add(came)]);
        }
        if let Some([lost, due]) = self.lost {
            words += &format!(", lost {lost} of {due} packets");
        }
        Ok(Changed::Said(words))
    }

    /// The terms of sound that there is: those that were asked for before, even where that is not answered yet.
    fn wanted(&self) -> Result<CallTerms, CannotChange> {
        self.sounding()?;
        let call = self.caller.call().ok_or(CannotChange::Busy)?;
        Ok(self.caller.asked().unwrap_or(&call.terms).clone())
    }

    /// Asks for another coding or other packets: who chooses is who asked last.
    fn code_by(
        &mut self,
        change: impl FnOnce(&mut CallTerms) -> Changed,
    ) -> Result<Changed, CannotChange> {
        let mut terms = self.wanted()?;
        let changed = change(&mut terms);
        let changed = self.change_to(terms, changed)?;
        self.adapting = None;
        if core::mem::take(&mut self.auto) {
            self.tell("the coding is kept from now on, whatever the network carries; say format auto to have it follow again");
        }
        Ok(changed)
    }

    /// Asks for other packets, in which a coding that follows the network goes on where it is tried in them.
    fn in_packets_of(&mut self, ptime: Span) -> Result<Changed, CannotChange> {
        let auto = self.auto;
        let follows = self.adapting.as_mut().filter(|_| auto);
        if !follows.is_some_and(|adapting| adapting.tries(ptime)) {
            return self.code_by(|terms| by_packets_of(terms, ptime));
        }
        let mut terms = self.wanted()?;
        let changed = by_packets_of(&mut terms, ptime);
        let changed = self.change_to(terms, changed)?;
        self.adapting.iter_mut().for_each(|adapting| adapting.asks_for(ptime));
        Ok(changed)
    }

    fn change_to(&mut self, terms: CallTerms, changed: Changed) -> Result<Changed, CannotChange> {
        self.takes(&terms)?;
        self.ask_for(terms)?;
        self.asked = Some(crate::words::changed(&changed));
        Ok(changed)
    }

    /// Sends silence from now on, or not: whoever is not in a call yet begins it so.
    fn mute(&mut self, muted: bool) -> Result<Changed, CannotChange> {
        self.microphone.mute(muted);
        self.open = !muted;
        match &self.end {
            Some(end) => end.send.ask(SendChange::Mute(muted)),
            None => Ok(Changed::Volume(Fader { gain: Gain::UNITY, muted })),
        }
    }

    /// Whether the device here can play by these terms: the other end is not asked for what cannot be.
    fn takes(&self, terms: &CallTerms) -> Result<(), CannotChange> {
        let room = heard_latency(self.sounding()?)?.1;
        if let Some(asked) = terms.latency.beyond(room) {
            return Err(CannotChange::Said(format!(
                "a latency of {asked} is more than the {room} that this call has room for since it began; hang up and \
                 call with --latency {}",
                terms.latency
            )));
        }
        let Some(asked) = terms.latency.kept() else { return Ok(()) };
        let Some(format) = terms.back.format(0) else { return Ok(()) };
        let chosen = LatencyRule::Chosen(asked);
        let kept = lay::kept(chosen, None, &format, &self.devices.playback);
        kept.map(|_| ()).map_err(|short| CannotChange::Latency {
            address: self.host.to_string(),
            refused: LatencyRefused::TooShort { asked, least: enough_latency(short.least) },
        })
    }

    pub(super) fn ask_for(&mut self, terms: CallTerms) -> Result<(), CannotChange> {
        let sound = terms.sound();
        self.caller.change(terms).map_err(|not| match not {
            NotAsked::NoLine => no_line(),
            NotAsked::NoPackets(why) => CannotChange::Said(why.to_string()),
            NotAsked::Older => CannotChange::Said(
                "the taut there has no auto:TIME; say latency auto, or update it".to_owned(),
            ),
        })?;
        self.counts(sound);
        Ok(())
    }

    /// Terms were asked for.
    pub(super) fn counts(&mut self, sound: bool) {
        if let (true, None, Some(made)) = (sound, &self.end, &mut self.made) {
            made.asked = made.asked.saturating_add(1);
        }
    }
}
