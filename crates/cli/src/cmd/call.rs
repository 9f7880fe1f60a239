//! `taut call`: sound both ways with a machine on which `taut serve` runs.

mod adapting;
mod asks;
mod connecting;
mod dialling;
mod ending;
mod holding;
mod keys;
mod made;
mod several;
mod share;
mod shared;
mod talk;
mod transports;
mod trusting;
mod usual;

use std::sync::Arc;

use tautline_api::call::{CallAddress, CallLine, DialError, LineEnd};
use tautline_api::trust::TrustStore;
use tautline_engine::control::{Requests, SendChange, requests};
use tautline_engine::watching::observers::Onlooker;
use tautline_io::clock::{now, sleep_until};
use tautline_io::control::wait;
use tautline_proto::call::caller::{AgreedCall, CallOver, CallerEnd, CallerStep};
use tautline_proto::call::message::{CallMessage, CallReason};
use tautline_proto::call::path::SilentWay;
use tautline_proto::call::terms::{CallOffer, CallPath};
use tautline_proto::device::Stop;
use tautline_proto::stream::Coding;
use tautline_proto::time::{LocalTime, Span};
use tautline_report::Report;

use super::call_end::{
    CallEnd, CallSide, CallStatus, DeviceChoice, EndDevices, EndedSound, FarStatus, PressedKeys,
    devices, in_words, offer, raised, tell_reports,
};
use super::stop_on_signals;
use crate::control;
use crate::failure::Failure;
use crate::flags::CallFlags;
use crate::voice::Voice;
use adapting::{Adapting, begin_with_few_bits};
use asks::{CallAsk, CallLines};
use dialling::Dialling;
use keys::{KEYS, PressedKey};
use made::CallMade;
use several::{Several, refuse_twice};
use share::{CallShare, CallStanding};
use talk::Microphone;
use transports::Transports;
use trusting::HostTrust;
use usual::choose_devices;

/// From one look at everything to the next.
const BEAT: Span = Span::from_millis(20);
/// From the end of a file that was sent to that of the call: as long as the longest latency of a call that follows its
/// packets, and more.
const LAST_WORDS: Span = Span::from_secs(1);

/// A call of which nothing was heard for so long lasts from then on as long as it is to (`--duration`).
const BEGUN_UNHEARD: Span = Span::from_secs(5);

pub(crate) fn run(flags: &mut CallFlags) -> Result<(), Failure> {
    flags.end.running.refuse_a_ledger_of_few()?;
    refuse_twice(&flags.hosts)?;
    if flags.bitrate.is_some() && flags.end.format.and_then(Coding::bitrate).is_none() {
        return Err(Failure::usage(
            "--bitrate is of Opus; give --format opus or --format opus-voice too, or leave --bitrate out",
        ));
    }
    choose_devices(flags)?;
    let flags = &*flags;
    let stop = stop_on_signals()?;
    let trust = TrustStore::usual()?;
    let specs = (&flags.input, &flags.output);
    // Several calls share devices, which run at one rate before all have answered.
    let choice = match &flags.hosts[..] {
        [_] => DeviceChoice::of(&flags.end, specs.0, specs.1)?,
        _ => DeviceChoice::alone(devices(&flags.end, specs.0, specs.1)?),
    };
    let files = flags.end.running.report_files()?;
    let mut status = CallStatus::on_terminal(flags.end.running.voice());
    // Keys and lines cannot both be had of standard input, and who presses one sees what comes of it.
    let (mut asked, mut keys) = (None, None);
    if flags.end.running.control {
        asked = Some(take_changes(&status, &stop, CallLines::of(flags))?);
    } else if status.are_seen() {
        keys = PressedKeys::listen(stop.clone(), PressedKey::of)?;
        keys.iter().for_each(|_| status.with_keys(KEYS));
    }
    if flags.bridge && flags.hosts.len() == 1 {
        let mend = "call several hosts, or leave --bridge out";
        return Err(Failure::usage(format!("one host alone hears no others; {mend}")));
    }
    let [host] = &flags.hosts[..] else {
        let all = Several { flags, trust: &trust, devices: *choice.first(), stop: &stop };
        return all.run((asked, keys), status, files);
    };
    let far = FarStatus::default();
    let onlookers = status.are_seen().then(|| far.onlookers());
    let front = CallFront { status, far, keys };
    let mut calling = Calling::new((flags, host), trust, choice, onlookers, Some(front));
    let done = calling.go_through(&stop, asked.as_ref());
    // Nothing is drawn over a report.
    calling.front.iter_mut().for_each(|front| front.status.end());
    let (reports, over) = done?;
    tell_reports("call", &reports, files, &flags.end.running)?;
    over
}

fn take_changes(
    status: &CallStatus,
    stop: &Stop,
    lines: CallLines,
) -> Result<Requests<CallAsk>, Failure> {
    let (asker, asked) = requests();
    let answers = status.answers();
    control::listen(asker, answers, stop.clone(), move |verb, rest| lines.read(verb, rest))?;
    Ok(asked)
}

/// What is offered with devices of this choice.
fn offer_of(flags: &CallFlags, choice: &DeviceChoice) -> CallOffer {
    let mut offer = offer(&flags.end, choice, CallSide::Caller, flags.transport.paths());
    if flags.codec.is_some() {
        begin_with_few_bits(&mut offer);
    }
    offer
}

/// What people have before them.
struct CallFront {
    status: CallStatus,
    far: FarStatus,
    keys: Option<PressedKeys<PressedKey>>,
}

struct Calling<'a> {
    flags: &'a CallFlags,
    host: &'a CallAddress,
    voice: Voice,
    caller: CallerEnd,
    trust: Arc<TrustStore>,
    /// Whether the host that is called is trusted still.
    host_trust: HostTrust,
    /// What the devices can be opened as while there is no sound,
    choice: DeviceChoice,
    /// and as what they are, or would best be.
    devices: EndDevices,
    line: Option<CallLine>,
    /// The one that is being made.
    dialling: Option<Dialling>,
    end: Option<CallEnd>,
    transports: Option<Transports>,
    /// By what those of the call are made.
    made: Option<CallMade>,
    /// Whether anything was heard, of sound that is over.
    heard: bool,
    /// Of sound that is over, while the call is not.
    ended: EndedSound,
    /// Why the last line was not made.
    failed: Option<DialError>,
    /// Why the line is lost, if that is known.
    why_lost: Option<String>,
    /// What people asked for last and was not answered yet, in their words.
    asked: Option<String>,
    /// What was told last of the line: it fails again and again.
    told: Option<String>,
    microphone: Microphone,
    /// Whether the engine sends what is captured.
    open: bool,
    onlookers: Option<[Onlooker; 2]>,
    /// Of the only call that there is.
    front: Option<CallFront>,
    /// Of one call of several.
    share: Option<CallShare<'a>>,
    /// Where the coding, or its bit rate, follows what the network carries;
    adapting: Option<Adapting>,
    /// whether that was asked for; the most bits per second that were; and by what the sound may go.
    auto: bool,
    bitrate: Option<u32>,
    paths: Vec<CallPath>,
    /// by what this is told.
    watched: [Onlooker; 2],
    /// By what people are, who ask; and packets lost of those that were due, as was told last.
    seen: [Onlooker; 2],
    lost: Option<[u64; 2]>,
}

impl<'a> Calling<'a> {
    fn new(
        (flags, host): (&'a CallFlags, &'a CallAddress),
        trust: Arc<TrustStore>,
        choice: DeviceChoice,
        onlookers: Option<[Onlooker; 2]>,
        front: Option<CallFront>,
    ) -> Self {
        let (offer, devices) = (offer_of(flags, &choice), *choice.first());
        Self {
            flags,
            host,
            voice: flags.end.running.voice(),
            caller: CallerEnd::new(offer, now()).held(flags.hold),
            trust,
            host_trust: HostTrust::default(),
            choice,
            devices,
            line: None,
            dialling: None,
            end: None,
            transports: None,
            made: None,
            heard: false,
            ended: EndedSound::default(),
            failed: None,
            why_lost: None,
            asked: None,
            told: None,
            microphone: Microphone::new(flags.mute),
            open: !flags.mute,
            onlookers,
            front,
            share: None,
            adapting: None,
            auto: flags.codec.is_some(),
            bitrate: flags.bitrate,
            paths: flags.transport.paths(),
            watched: Default::default(),
            seen: Default::default(),
            lost: None,
        }
    }

    /// The whole call: its reports, and whether it went well.
    fn go_through(
        &mut self,
        stop: &Stop,
        asked: Option<&Requests<CallAsk>>,
    ) -> Result<(Vec<Report>, Result<(), Failure>), Failure> {
        let over = self.go_on(stop, asked);
        if over.is_err() {
            self.abandon();
        }
        self.finish(over?)
    }

    /// Tells something of this call, by its name where there are several.
    fn tell(&self, what: &str) {
        match &self.share {
            Some(_) => self.voice.tell(&format!("{}: {what}", self.host)),
            None => self.voice.tell(what),
        }
    }

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
            let sounds = self.end.as_ref().is_some_and(|end| end.link.heard() > 0)
                || self.is_unheard_for(BEGUN_UNHEARD);
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
            self.turn_trust();
            self.turn_microphone();
            self.turn_coding();
            let standing = self.standing();
            if let Some(front) = &mut self.front {
                front.status.show(match standing {
                    CallStanding::None => Vec::new(),
                    CallStanding::By(path) => front.far.page(self.microphone.word(now()), path),
                    CallStanding::Held => front.far.quiet(),
                });
            }
            self.share.iter().for_each(|share| share.stands(standing));
            if let Some(recordings) = self.end.as_mut().and_then(|end| end.recordings.as_mut()) {
                recordings.turn();
            }
            self.listen();
        }
    }

    /// Does what was pressed, and opens or mutes the microphone as it is to be by now.
    fn turn_microphone(&mut self) {
        let now = now();
        let keys = self.front.as_ref().and_then(|front| front.keys.as_ref());
        let pressed: Vec<_> = keys.iter().flat_map(|keys| keys.pressed()).collect();
        for key in pressed {
            self.microphone.take(key, now);
            if let PressedKey::Change(ask) = key
                && let Err(why) = self.change(ask)
            {
                self.tell(&crate::words::cannot_change(&why));
            }
        }
        let is_open = self.is_open();
        let Some(end) = self.end.as_ref().filter(|_| is_open != self.open) else { return };
        self.open = is_open;
        if let Err(why) = end.send.ask(SendChange::Mute(!is_open)) {
            self.tell(&crate::words::cannot_change(&why));
        }
    }

    /// Whether the microphone is to be heard now.
    fn is_open(&self) -> bool {
        match &self.share {
            Some(share) => share.is_open(),
            None => self.microphone.is_open(now()),
        }
    }

    /// Waits for what comes by the line, no longer than a beat.
    fn listen(&mut self) {
        let until = (now() + BEAT).min(self.caller.deadline());
        if self.await_line(until) {
            return;
        }
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
                CallerStep::Dial => self.dial()?,
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
                    self.tell(&format!(
                        "{why}; the sound goes on as long as it comes, and the call is taken up again"
                    ));
                }
                CallerStep::Begin(call) => self.begin(&call, stop)?,
                CallerStep::Resumed => {
                    self.told = None;
                    self.tell("the call goes on");
                    self.tell_path();
                }
                CallerStep::Again(terms) => self.counts(terms.sound()),
                CallerStep::Dropped(terms) => {
                    if !self.adapting.as_mut().is_some_and(Adapting::dropped) {
                        let terms = in_words(&terms);
                        self.tell(&format!(
                            "the control connection was lost twice as this was asked for, and it is not asked for \
                             again: {terms}; say it again if it is still wanted"
                        ));
                    }
                }
                CallerStep::Change(terms) => {
                    if self.caller.asked().is_none() {
                        self.asked = None;
                    }
                    self.adopt(&terms, stop)?;
                    if let Some(transports) = &mut self.transports {
                        transports.allow(&terms.paths);
                    }
                    self.adapts(&terms);
                    let adapting = self.adapting.as_mut();
                    if adapting.is_some_and(|adapting| adapting.answered(&terms)) {
                        self.tell(&format!("as the network carries it: {}", in_words(&terms)));
                    }
                }
                CallerStep::Kept(why) => {
                    // What is chosen here is tried until something is taken.
                    if !self.adapting.as_mut().is_some_and(|adapting| adapting.refused(now())) {
                        // What was asked for since is answered yet.
                        let asked = self.asked.take_if(|_| self.caller.asked().is_none());
                        let asked =
                            asked.map_or(String::new(), |asked| format!("refused {asked}: "));
                        let why = why.as_str();
                        self.tell(&format!("{asked}{} keeps to what was: {why}", self.host));
                    }
                    if let Some(call) = self.caller.call().cloned() {
                        self.adapts(&call.terms);
                    }
                }
                CallerStep::Unheard(number) => {
                    self.transports.iter_mut().for_each(|all| all.unheard(number));
                }
                CallerStep::TurnedAway(why) => {
                    self.transports = None;
                    let host = self.host;
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

    fn say(&mut self, message: &CallMessage) {
        if let Some(Err(ended)) = self.line.as_mut().map(|line| line.say(message)) {
            self.lost(ended);
        }
    }

    fn begin(&mut self, call: &AgreedCall, stop: &Stop) -> Result<(), Failure> {
        let Some(line) = &self.line else { return Ok(()) };
        let made = CallMade::new(*line.secret(), line.peer());
        self.made = Some(made);
        raised(&self.flags.end, &call.terms).iter().for_each(|what| self.tell(what));
        match &mut self.end {
            Some(end) if call.terms.sound() => {
                self.transports = Some(Transports::begin_anew(&mut end.link, call, made)?);
                self.adopt(&call.terms, stop)?;
                self.adapting.iter_mut().for_each(|adapting| {
                    adapting.answered(&call.terms);
                });
            }
            None if call.terms.sound() => self.open(call, stop, made)?,
            _ => {
                self.told = None;
                self.adopt(&call.terms, stop)?;
                self.tell(&format!(
                    "in a call with {} without sound; say resume to have some",
                    self.host
                ));
                return Ok(());
            }
        }
        self.told = None;
        self.voice.tell(&format!("in a call with {}: {}", self.host, in_words(&call.terms)));
        let (asked, agreed) = (self.flags.end.ptime, call.terms.there);
        if agreed.coding.coder.is_none() && agreed.ptime > asked {
            self.tell(&format!(
                "packets of {asked} were asked for, and the other end takes none shorter than {}; give taut serve --ptime \
                 there",
                agreed.ptime
            ));
        }
        self.tell_path();
        self.ask_for_bits(&call.terms);
        Ok(())
    }

    /// Moves the sound to another transport, where the one it goes by does not carry.
    fn turn_transports(&mut self) -> Result<(), Failure> {
        let (Some(transports), Some(end)) = (&mut self.transports, &mut self.end) else {
            return Ok(());
        };
        let before = transports.now();
        let moved = transports.turn(&mut end.link)?;
        // Where the line is lost, too, more is amiss than that UDP does not pass.
        let silent = transports.silent().filter(|_| self.caller.has_line());
        if let Some((way, port)) = silent {
            let way = match way {
                SilentWay::There => "to",
                SilentWay::Back => "from",
            };
            self.tell(&format!(
                "no datagram passes {way} {}; open UDP port {port} there, or leave --transport out, so that TCP is used",
                self.host
            ));
        }
        let after = self.transports.as_ref().map(Transports::now);
        if let Some((path, _)) = after.filter(|(path, _)| moved && before.0 != *path) {
            let by = path.name().to_uppercase();
            self.tell(&format!("the sound goes by {by} from now on"));
        }
        if moved {
            self.adapting.iter_mut().for_each(|adapting| adapting.moved(now()));
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
}
