//! `taut call`: sound both ways with a machine on which `taut serve` runs.

mod asks;
mod keys;
mod status;
mod talk;
mod transports;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tautline_api::call::{CallLine, DialError, LineEnd};
use tautline_api::seal::SECRET_BYTES;
use tautline_api::trust::TrustStore;
use tautline_engine::control::{CannotChange, Changed, Requests, SendChange, requests};
use tautline_io::clock::{now, sleep_until};
use tautline_io::control::wait;
use tautline_proto::call::caller::{AgreedCall, CallOver, CallerEnd, CallerStep};
use tautline_proto::call::message::{CallMessage, CallReason};
use tautline_proto::call::terms::{CallTerms, StreamTerms};
use tautline_proto::device::Stop;
use tautline_proto::time::{LocalTime, Span};

use super::call_end::{
    CallEnd, CallSide, EndDevices, EndSetup, devices, directions, offer, rule, tell_reports,
};
use super::stop_on_signals;
use crate::control;
use crate::failure::Failure;
use crate::flags::CallFlags;
use crate::report_file::ReportFiles;
use crate::voice::Voice;
use asks::{CallAsk, CallLines};
use keys::{PressedKey, PressedKeys};
use status::CallStatus;
use talk::Microphone;
use transports::Transports;

/// From one look at everything to the next.
const BEAT: Span = Span::from_millis(20);
/// From the end of a file that was sent to that of the call: as long as the longest latency of a call that follows its
/// packets, and more.
const LAST_WORDS: Span = Span::from_secs(1);
/// For connection and handshake.
const DIAL_LIMIT: Duration = Duration::from_secs(5);

pub(crate) fn run(flags: &CallFlags) -> Result<(), Failure> {
    flags.end.running.refuse_a_ledger_of_few()?;
    let stop = stop_on_signals()?;
    let trust = TrustStore::usual()?;
    let devices = devices(&flags.end, &flags.input, &flags.output)?;
    let files = ReportFiles::create(&flags.end.running.report_file)?;
    let offer = offer(&flags.end, &devices, CallSide::Caller, flags.transport.paths());
    let mut status = CallStatus::on_terminal(flags.end.running.voice());
    // Keys and lines cannot both be had of standard input, and who presses one sees what comes of it.
    let (mut asked, mut keys) = (None, None);
    if flags.end.running.control {
        asked = Some(take_changes(&status, &stop)?);
    } else if status.onlookers().is_some() {
        keys = PressedKeys::listen(stop.clone())?;
        keys.iter().for_each(|_| status.with_keys());
    }
    let mut calling = Calling {
        flags,
        voice: flags.end.running.voice(),
        caller: CallerEnd::new(offer, now()),
        trust,
        devices,
        line: None,
        end: None,
        transports: None,
        failed: None,
        why_lost: None,
        asked: None,
        told: None,
        microphone: Microphone::new(flags.mute),
        open: !flags.mute,
        status,
        keys,
    };
    let over = calling.go_on(&stop, asked.as_ref());
    if over.is_err() {
        calling.abandon();
    }
    calling.finish(over?, files)
}

fn take_changes(status: &CallStatus, stop: &Stop) -> Result<Requests<CallAsk>, Failure> {
    let (asker, asked) = requests();
    let answers = status.answers();
    control::listen(asker, answers, stop.clone(), move |verb, rest| CallLines.read(verb, rest))?;
    Ok(asked)
}

struct Calling<'a> {
    flags: &'a CallFlags,
    voice: Voice,
    caller: CallerEnd,
    trust: Arc<TrustStore>,
    devices: EndDevices,
    line: Option<CallLine>,
    end: Option<CallEnd>,
    transports: Option<Transports>,
    /// Why the last line was not made.
    failed: Option<DialError>,
    /// Why the line is lost, if that is known.
    why_lost: Option<String>,
    /// The terms that were asked for and not answered yet.
    asked: Option<CallTerms>,
    /// What was told last of the line: it fails again and again.
    told: Option<String>,
    microphone: Microphone,
    /// Whether the engine sends what is captured.
    open: bool,
    status: CallStatus,
    keys: Option<PressedKeys>,
}

impl Calling<'_> {
    fn go_on(
        &mut self,
        stop: &Stop,
        asked: Option<&Requests<CallAsk>>,
    ) -> Result<CallOver, Failure> {
        let until = self.flags.end.running.duration;
        let mut ends = LocalTime::NEVER;
        loop {
            self.caller.poll(now());
            if let Some(over) = self.take_steps(stop)? {
                return Ok(over);
            }
            let sounds = self.end.as_ref().is_some_and(|end| end.link.heard() > 0);
            if let (Some(until), true) = (until, sounds && ends == LocalTime::NEVER) {
                ends = now() + until;
            }
            let ended = self.end.as_ref().is_some_and(CallEnd::is_over);
            if ends == LocalTime::NEVER && self.end.as_ref().is_some_and(CallEnd::has_sent_all) {
                // What was sent last is still to be heard there.
                ends = now() + LAST_WORDS;
            }
            if stop.is_requested() || ended || now() >= ends {
                self.caller.hang_up(CallReason::new("the caller hung up"));
                continue;
            }
            if let Some(asked) = asked {
                asked.serve(|ask| self.change(ask));
            }
            self.turn_transports()?;
            self.turn_microphone();
            if let Some(path) = self.transports.as_ref().map(|transports| transports.now().0) {
                self.status.show(self.microphone.word(now()), path);
            }
            if let Some(recordings) = self.end.as_mut().and_then(|end| end.recordings.as_mut()) {
                recordings.turn();
            }
            self.listen();
        }
    }

    /// Does what was pressed, and opens or mutes the microphone as it is to be by now.
    fn turn_microphone(&mut self) {
        let now = now();
        for key in self.keys.iter().flat_map(PressedKeys::pressed) {
            match key {
                PressedKey::Talk => self.microphone.talk(now),
                PressedKey::Mute => self.microphone.mute(!self.microphone.muted),
                PressedKey::HangUp => {}
            }
        }
        let is_open = self.microphone.is_open(now);
        let Some(end) = self.end.as_ref().filter(|_| is_open != self.open) else { return };
        self.open = is_open;
        if let Err(why) = end.send.ask(SendChange::Mute(!is_open)) {
            self.voice.tell(&crate::words::cannot_change(&why));
        }
    }

    /// Something failed here: the other end is told, so that its place is free for others.
    fn abandon(&mut self) {
        self.caller.hang_up(CallReason::new("it failed at the caller"));
        while let Some(step) = self.caller.step() {
            if let CallerStep::Say(message) = step {
                self.say(&message);
            }
        }
        if let Some(line) = self.line.take() {
            line.close();
        }
        // What failed first is what is told.
        let _ = self.end.take().map(CallEnd::end);
    }

    /// Waits for what comes by the line, no longer than a beat.
    fn listen(&mut self) {
        let until = (now() + BEAT).min(self.caller.deadline());
        let Some(line) = &mut self.line else { return sleep_until(until) };
        if !wait(&[&*line], until) {
            return;
        }
        let caller = &mut self.caller;
        let heard = line.hear(&mut |message| caller.said(message, now()));
        if let Err(ended) = heard {
            self.lost(ended);
        }
    }

    fn lost(&mut self, why: LineEnd) {
        self.line = None;
        self.why_lost = Some(why.to_string());
        if let LineEnd::Refused(error) = why {
            self.failed = Some(error);
        }
        self.caller.line_lost(now());
    }

    fn tell_once(&mut self, what: &str) {
        if self.told.as_deref() != Some(what) {
            self.voice.tell(what);
            self.told = Some(what.to_owned());
        }
    }

    /// Does what is to be done; why the call is over, if it is.
    fn take_steps(&mut self, stop: &Stop) -> Result<Option<CallOver>, Failure> {
        while let Some(step) = self.caller.step() {
            match step {
                CallerStep::Dial => self.dial(),
                CallerStep::Say(message) => self.say(&message),
                CallerStep::Close => {
                    if let Some(line) = self.line.take() {
                        line.close();
                    }
                }
                CallerStep::Away => {
                    let why = self.why_lost.take();
                    let why = why.unwrap_or_else(|| {
                        "the control connection is lost: nothing comes by it".to_owned()
                    });
                    self.voice.tell(&format!(
                        "{why}; the sound goes on as long as it comes, and the call is taken up again"
                    ));
                }
                CallerStep::Begin(call) => self.begin(&call, stop)?,
                CallerStep::Resumed => {
                    self.told = None;
                    self.voice.tell("the call goes on");
                    self.tell_path();
                }
                CallerStep::Change(terms) => {
                    self.answered(&terms);
                    self.adopt(&terms);
                }
                CallerStep::Kept(why) => {
                    self.asked = None;
                    self.voice.tell(&format!(
                        "{} keeps to what was: {}",
                        self.flags.host,
                        why.as_str()
                    ));
                }
                CallerStep::TurnedAway(why) => {
                    self.transports = None;
                    let host = &self.flags.host;
                    self.tell_once(&format!(
                        "{host}: {}; it is tried again and again",
                        why.as_str()
                    ));
                }
                CallerStep::Over(over) => return Ok(Some(over)),
            }
        }
        Ok(None)
    }

    fn dial(&mut self) {
        match CallLine::dial(&self.flags.host, &self.trust, DIAL_LIMIT) {
            Ok(line) => {
                self.line = Some(line);
                self.caller.connected(now());
            }
            Err(error) => {
                if self.caller.call().is_some() {
                    self.tell_once(&format!("{error}; it is tried again and again"));
                }
                self.failed = Some(error);
                self.caller.line_lost(now());
            }
        }
    }

    fn say(&mut self, message: &CallMessage) {
        if let Some(Err(ended)) = self.line.as_mut().map(|line| line.say(message)) {
            self.lost(ended);
        }
    }

    fn begin(&mut self, call: &AgreedCall, stop: &Stop) -> Result<(), Failure> {
        let Some(line) = &self.line else { return Ok(()) };
        let (secret, called) = (*line.secret(), line.peer());
        match &mut self.end {
            Some(end) => {
                self.transports = Some(Transports::begin(&mut end.link, call, secret, called)?);
                self.adopt(&call.terms);
            }
            None => self.open(call, stop, (secret, called))?,
        }
        self.told = None;
        self.voice.tell(&format!("in a call with {}: {}", self.flags.host, in_words(&call.terms)));
        self.tell_path();
        Ok(())
    }

    /// Moves the sound to another transport, where the one it goes by does not carry.
    fn turn_transports(&mut self) -> Result<(), Failure> {
        let (Some(transports), Some(end)) = (&mut self.transports, &mut self.end) else {
            return Ok(());
        };
        let before = transports.now();
        let moved = transports.turn(&mut end.link)?;
        if moved && before.0 != transports.now().0 {
            let by = transports.now().0.name().to_uppercase();
            self.voice.tell(&format!("the sound goes by {by} from now on"));
        }
        if moved {
            self.tell_path();
        }
        Ok(())
    }

    /// Tells the other end by what the sound goes. One that goes by a connection is known by its ticket, too.
    fn tell_path(&mut self) {
        if let Some((path, number)) = self.transports.as_ref().map(Transports::now) {
            self.caller.go_by(path, number);
        }
    }

    /// Begins with a transport that is there before the first packet: of a file not a frame is to be missed.
    fn open(
        &mut self,
        call: &AgreedCall,
        stop: &Stop,
        (secret, called): ([u8; SECRET_BYTES], SocketAddr),
    ) -> Result<(), Failure> {
        let (sent, heard) = directions(&call.terms, CallSide::Caller);
        let setup = EndSetup {
            name: "call",
            far: self.flags.host.to_string(),
            flags: &self.flags.end,
            input: &self.flags.input,
            output: &self.flags.output,
            devices: self.devices,
            sent,
            heard,
            latency: call.terms.latency,
            muted: self.flags.mute,
            in_call: true,
            recorded_before: 0,
            onlookers: self.status.onlookers(),
        };
        let (end, mut transports) = CallEnd::begin(&setup, None, stop, |link| {
            Transports::begin(link, call, secret, called)
        })?;
        transports.begun();
        (self.end, self.transports) = (Some(end), Some(transports));
        Ok(())
    }

    fn adopt(&self, terms: &CallTerms) {
        let Some(end) = &self.end else { return };
        let (sent, _) = directions(terms, CallSide::Caller);
        if let Err(why) = end.adopt(sent, terms.latency) {
            self.voice.tell(&crate::words::cannot_change(&why));
        }
    }

    /// Makes a change that was asked for.
    fn change(&mut self, ask: CallAsk) -> Result<Changed, CannotChange> {
        let Some(end) = &self.end else { return Err(CannotChange::Busy) };
        let Some(call) = self.caller.call() else { return Err(CannotChange::Busy) };
        // Of what was asked for before, even where that is not answered yet.
        let mut terms = self.asked.clone().unwrap_or_else(|| call.terms.clone());
        let changed = match ask {
            CallAsk::Mute(muted) => {
                self.microphone.mute(muted);
                self.open = !muted;
                return end.send.ask(SendChange::Mute(muted));
            }
            CallAsk::Hear(change) => return end.recv.ask(change),
            CallAsk::Ptime(ptime) => {
                (terms.there.ptime, terms.back.ptime) = (ptime, ptime);
                Changed::Ptime(ptime)
            }
            CallAsk::Format(coding) => {
                (terms.there, terms.back) = (terms.there.coded(coding), terms.back.coded(coding));
                Changed::Format(coding)
            }
            CallAsk::Latency(latency) => {
                terms.latency = latency;
                Changed::Latency(rule(latency))
            }
        };
        if self.ask_for(terms) { Ok(changed) } else { Err(CannotChange::Busy) }
    }

    fn ask_for(&mut self, terms: CallTerms) -> bool {
        let asked = self.caller.change(terms.clone());
        self.asked = asked.then_some(terms);
        asked
    }

    fn answered(&mut self, terms: &CallTerms) {
        self.asked.take_if(|asked| asked == terms);
    }

    fn finish(&mut self, over: CallOver, files: ReportFiles) -> Result<(), Failure> {
        let host = &self.flags.host;
        // What was said last leaves before the line goes.
        if let Some(line) = self.line.take() {
            line.close();
        }
        let ended = self.end.take().map(CallEnd::end).transpose()?;
        // Nothing is drawn over a report.
        self.status.end();
        let (reports, recorded) = ended.unwrap_or((Vec::new(), Ok(())));
        tell_reports(&reports, files, &self.flags.end.running)?;
        match over {
            CallOver::HungUp => recorded,
            CallOver::Ended(why) => {
                self.voice.tell(&format!("{host} hung up: {}", why.as_str()));
                recorded
            }
            CallOver::Refused(why) => Err(Failure::open(format!("{host}: {}", why.as_str()))),
            CallOver::NotReached => Err(match self.failed.take() {
                Some(DialError::Trust(error)) => error.into(),
                Some(error) => Failure::open(error.to_string()),
                None => {
                    Failure::open(format!("{host} closed the connection; see what it says there"))
                }
            }),
        }
    }
}

/// What was agreed on.
pub(super) fn in_words(terms: &CallTerms) -> String {
    let stream = |terms: &StreamTerms| {
        format!(
            "{} {}, {} channels, {} per packet",
            terms.coding.name(),
            terms.rate,
            terms.channels,
            terms.ptime
        )
    };
    let latency = terms.latency.map_or("auto".to_owned(), |latency| latency.to_string());
    if terms.there == terms.back {
        return format!("{} both ways, latency {latency}", stream(&terms.there));
    }
    format!("there {}; back {}; latency {latency}", stream(&terms.there), stream(&terms.back))
}
