//! `taut serve`: this machine's sound for whoever calls and is trusted.

mod front;
mod seats;
mod transport;
mod trusting;

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tautline_api::call::{MediaTicket, fresh_call};
use tautline_api::trust::TrustStore;
use tautline_io::clock::now;
use tautline_proto::call::CallId;
use tautline_proto::call::answering::{Answering, AnsweringStep, CallLimits, LineId};
use tautline_proto::call::message::CallReason;
use tautline_proto::call::terms::{CallPath, CallTerms};
use tautline_proto::device::Stop;
use tautline_proto::time::{LocalTime, Span};
use tautline_serving::{CalledLine, LineEvent, Listening, serve_calls};

use super::call_end::{
    CallSide, DeviceChoice, EndDevices, EndSetup, SharedSound, SoundSharing, devices, directions,
    in_words, offer, tell_reports, without_echo,
};
use super::stop_on_signals;
use super::work::log::WorkLog;
use super::work::{locked, say};
use crate::failure::Failure;
use crate::flags::{ReportKind, ServeFlags};
use crate::screen;
use crate::voice::Voice;
use front::ServeFront;
use seats::CallSeats;
use transport::CalledTransport;
use trusting::CallersTrust;

/// From one look at everything to the next.
const BEAT: Span = Span::from_millis(20);
/// Calls that have sound at a time, of all that there may be: each takes threads, and memory for the devices to call it.
const MOST_SOUNDING: u16 = 32;
/// Events of control connections that wait: seconds of all that may be there.
const EVENTS: usize = 4096;

pub(crate) fn run(flags: &ServeFlags) -> Result<(), Failure> {
    flags.end.running.refuse_a_ledger_of_few()?;
    if flags.end.running.control {
        let mend = "give them to taut call, which changes both ends, or leave --control out";
        return Err(Failure::usage(format!("taut serve takes no lines; {mend}")));
    }
    let stop = stop_on_signals()?;
    let voice = flags.end.running.voice();
    let trust = TrustStore::usual()?;
    let devices = devices(&flags.end, &flags.input, &flags.output)?;
    let files = flags.end.running.report_files()?;
    // They run for all that call, before anybody does.
    let choice = DeviceChoice::alone(devices);
    let offer = offer(&flags.end, &choice, CallSide::Called, vec![CallPath::Udp, CallPath::Tcp]);
    // Before anybody calls, the sound is as it would be with a caller that wants what is usual here.
    let usual = offer.choose(&offer).map_err(|error| Failure::usage(error.to_string()))?;
    let (sent, heard) = directions(&usual, CallSide::Called);
    let (events, happened) = sync_channel(EVENTS);
    let listening = Listening { address: flags.listen, trust: Some(Arc::clone(&trust)) };
    let log = Arc::new(Mutex::new(WorkLog::new(voice)));
    let served = Arc::clone(&log);
    let server = serve_calls(&listening, events, move |news| locked(&served).served(news, now()));
    let server = server.map_err(|error| Failure::open(error.to_string()))?;
    let address = server.address();
    // The first caller is heard at the port by which it calls, so that one opening in a firewall is enough for it.
    let asked = flags.listen.port() != 0;
    let mut seats = CallSeats::bind(address, asked, flags.callers, voice)?;
    let sounding = usize::from(flags.callers.min(MOST_SOUNDING));
    let limits =
        CallLimits::of(flags.callers.into(), sounding, Some(trust.identity().key().bytes()));
    let limits = limits.each(flags.callers_each.map(usize::from));
    let answering = Answering::new(offer, seats.ports()?).limited(limits);
    let sharing = SoundSharing {
        devices,
        calls: sounding,
        bridged: !flags.private,
        formats: [sent.coding.sample, heard.coding.sample],
    };
    // Before the devices end, the calls do.
    let sounds = Stop::default();
    let specs = (&flags.input, &flags.output);
    let echo = without_echo(flags.echo, specs, &devices, voice)?;
    let mut sound = SharedSound::open(&flags.end, specs, &sharing, echo)?;
    sound.run(&sounds)?;
    if !flags.private && flags.callers > 1 && !sound.are_bridged() {
        voice.tell("the two devices differ in rate or channels: callers do not hear one another");
    }
    let front = ServeFront::new(voice, (address, flags.callers), &stop)?;
    seats.are_seen(front.is_seen());
    let mut serving = Serving {
        flags,
        devices,
        voice,
        log,
        answering,
        seats,
        sound,
        sounds,
        lines: BTreeMap::new(),
        strangers_told: LocalTime::ZERO,
        front,
        trust: CallersTrust::new(trust),
    };
    let listens = format!("listening for calls at {address}\n");
    match flags.end.running.report() {
        // Standard output is for the report alone.
        ReportKind::Json | ReportKind::Html => screen::print_aside(&listens),
        ReportKind::Text | ReportKind::None => screen::print(&listens),
    }
    let served = serving.go_on(&stop, &happened, flags.end.running.duration);
    // Nothing is drawn over a report, nor over what failed.
    serving.front.end();
    served?;
    server.stop();
    say(voice, &serving.log, LocalTime::NEVER);
    let (reports, done) = serving.seats.finish();
    serving.sounds.request();
    if let [realigned, missed] = serving.sound.end()?
        && realigned + missed > 0
    {
        voice.detail(&format!(
            "callers heard one another from another place {realigned} times, and not for {missed} periods"
        ));
    }
    tell_reports("serve", &reports, files, &flags.end.running)?;
    done
}

struct Serving<'a> {
    flags: &'a ServeFlags,
    devices: EndDevices,
    voice: Voice,
    /// Of whom was turned away.
    log: Arc<Mutex<WorkLog>>,
    answering: Answering,
    seats: CallSeats,
    sound: SharedSound,
    sounds: Stop,
    lines: BTreeMap<LineId, CalledLine>,
    /// When a connection that belongs to no call is told of again.
    strangers_told: LocalTime,
    front: ServeFront,
    trust: CallersTrust,
}

/// Between two lines about connections that belong to no call.
const STRANGERS_TOLD: Span = Span::from_secs(60);
/// For lines to be closed by what was said last.
const FAREWELL: Span = Span::from_millis(500);

impl Serving<'_> {
    fn go_on(
        &mut self,
        stop: &Stop,
        happened: &Receiver<LineEvent>,
        duration: Option<Span>,
    ) -> Result<(), Failure> {
        let ends = duration.map(|duration| now() + duration);
        while !stop.is_requested() && !self.sound.is_over() && ends.is_none_or(|ends| now() < ends)
        {
            let until = (now() + BEAT).min(self.answering.deadline());
            match happened.recv_timeout(left(until)) {
                Ok(event) => {
                    self.take(event)?;
                    // As many as are there: the machine is asked once.
                    for event in happened.try_iter().take(EVENTS) {
                        self.take(event)?;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.answering.poll(now());
            if let Some(unreadable) = self.trust.keep(&mut self.answering, now()) {
                self.voice.tell(&unreadable);
            }
            for (place, transport) in self.seats.unheard() {
                self.answering.unheard(place, transport);
            }
            self.take_steps();
            self.seats.turn();
            self.sound.turn();
            if let Some(muted) = self.front.turn() {
                self.sound.mute(muted);
            }
            self.front.show(&mut self.seats);
            say(self.voice, &self.log, now());
        }
        // A line is closed at its other side once that has said the last word.
        let lines = self.lines.len();
        self.answering.hang_up(&CallReason::new("taut serve ended there"));
        self.take_steps();
        self.lines.clear();
        let (mut gone, until) = (0, now() + FAREWELL);
        while gone < lines && now() < until {
            match happened.recv_timeout(left(until)) {
                Ok(event) => gone += usize::from(matches!(event, LineEvent::Gone(..))),
                Err(_) => break,
            }
        }
        Ok(())
    }

    fn take(&mut self, event: LineEvent) -> Result<(), Failure> {
        match event {
            LineEvent::Came(line) => {
                self.answering.came(line.id, line.peer.bytes(), now());
                self.lines.insert(line.id, line);
            }
            LineEvent::Said(line, message) => {
                let fresh = fresh_call().ok_or_else(|| {
                    Failure::running(
                        "the system gives no random bytes; see whether getrandom is allowed here",
                    )
                })?;
                self.answering.said(line, message, fresh, now());
            }
            LineEvent::Media { ticket, stream, from, place: _ } => {
                self.take_connection(&ticket, stream, from)
            }
            LineEvent::Gone(line, why) => {
                if let (Some(why), Some(whose)) = (why, self.lines.get(&line)) {
                    self.voice.tell(&format!("{}: {why}", who(whose)));
                }
                self.answering.gone(line, now());
                self.lines.remove(&line);
            }
        }
        self.take_steps();
        Ok(())
    }

    fn take_steps(&mut self) {
        while let Some(step) = self.answering.step() {
            match step {
                AnsweringStep::Say(line, message) => {
                    // One that takes nothing is gone, or will be found dead.
                    self.lines.get(&line).map(|line| line.teller.say(message));
                }
                AnsweringStep::Close(line) => drop(self.lines.remove(&line)),
                AnsweringStep::Begin { place, line, call, terms } => {
                    let begun = self.begin(place, line, call, &terms);
                    if let Err(failure) = begun {
                        self.answering.hang_up_at(place, &CallReason::new(failure.to_string()));
                        self.told(Err(failure));
                    }
                }
                AnsweringStep::Resumed { line, .. } => {
                    self.lines.get(&line).iter().for_each(|line| {
                        self.voice.tell(&format!("{} is back: the call goes on", who(line)));
                    });
                }
                AnsweringStep::Change { place, terms } => {
                    if let Err(failure) = self.change(place, &terms) {
                        self.answering.hang_up_at(place, &CallReason::new(failure.to_string()));
                        self.told(Err(failure));
                    }
                }
                AnsweringStep::Path { place, path, transport } => {
                    let moved = self.seats.go_by(place, path, transport);
                    self.told(moved);
                }
                AnsweringStep::Away { place } => {
                    let who = self.seats.who(place);
                    self.voice.tell(&format!(
                        "{who}: the control connection is lost; the sound goes on as long as it comes"
                    ));
                }
                AnsweringStep::End { place, why } => {
                    let who = self.seats.who(place);
                    self.voice.tell(&format!("{who}: the call is over: {}", why.as_str()));
                    self.seats.end(place);
                }
                AnsweringStep::Refused { line, why } => {
                    let whose = self.lines.get(&line).map_or("a caller".to_owned(), who);
                    self.voice.tell(&format!("{whose} was refused: {}", why.as_str()));
                }
            }
        }
    }

    /// What fails for one call ends nobody else's, nor this program.
    fn told(&self, done: Result<(), Failure>) {
        if let Err(failure) = done {
            self.voice.tell(&failure.to_string());
        }
    }

    fn begin(
        &mut self,
        place: usize,
        line: LineId,
        call: CallId,
        terms: &CallTerms,
    ) -> Result<(), Failure> {
        let Some(line) = self.lines.get(&line) else { return Ok(()) };
        let (who, transport) = (who(line), CalledTransport::of(line.secret, call));
        self.seats.begin(place, who.clone(), transport);
        let sound = match terms.sound() {
            true => {
                self.sound(place, terms)?;
                in_words(terms)
            }
            false => "without sound".to_owned(),
        };
        self.voice.tell(&format!("{who} calls: {sound}"));
        Ok(())
    }

    /// The call at this place has other terms, or sound from now on, or none.
    fn change(&mut self, place: usize, terms: &CallTerms) -> Result<(), Failure> {
        let what = match (self.seats.sounds(place), terms.sound()) {
            (true, true) => {
                self.seats.adopt(place, terms);
                format!("the call is now {}", in_words(terms))
            }
            (false, true) => {
                self.sound(place, terms)?;
                format!("the call has sound: {}", in_words(terms))
            }
            (_, false) => {
                self.seats.hold(place);
                "the call is without sound".to_owned()
            }
        };
        self.voice.tell(&format!("{}: {what}", self.seats.who(place)));
        Ok(())
    }

    fn sound(&mut self, place: usize, terms: &CallTerms) -> Result<(), Failure> {
        let (sent, heard) = directions(terms, CallSide::Called);
        let setup = EndSetup {
            name: "serve",
            far: self.seats.who(place).to_owned(),
            flags: &self.flags.end,
            input: &self.flags.input,
            output: &self.flags.output,
            devices: self.devices,
            sent,
            heard,
            latency: terms.latency,
            muted: false,
            in_call: true,
            witness: true,
            sounding: 1,
            recorded_before: 0,
            onlookers: Vec::new(),
        };
        self.seats.sound(place, setup, &mut self.sound, &self.sounds)
    }

    /// A connection that is to carry the sound of a call.
    fn take_connection(&mut self, ticket: &MediaTicket, stream: TcpStream, from: SocketAddr) {
        if !self.seats.take_connection(ticket, stream) && now() >= self.strangers_told {
            self.strangers_told = now() + STRANGERS_TOLD;
            let from = from.ip().to_canonical();
            let what = "was turned away: its connection belongs to no call";
            self.voice.tell(&format!("{from} {what}"));
        }
    }
}

/// How long it is until then.
fn left(until: LocalTime) -> Duration {
    Duration::from_nanos((until - now()).max(Span::ZERO).as_nanos().unsigned_abs())
}

/// Whose a line is.
fn who(line: &CalledLine) -> String {
    let address = line.from.ip().to_canonical();
    match &line.name {
        Some(name) => format!("{name} ({address})"),
        None => format!("this machine ({address})"),
    }
}
