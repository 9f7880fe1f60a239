//! `taut serve`: this machine's sound for whoever calls and is trusted.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tautline_api::call::{CallKeys, MediaTicket, PROBE_BYTES, PathProbes, ProbeWay, fresh_call};
use tautline_api::seal::SECRET_BYTES;
use tautline_api::trust::TrustStore;
use tautline_io::clock::now;
use tautline_io::link::muxed::FarAddress;
use tautline_proto::call::CallId;
use tautline_proto::call::answering::{Answering, AnsweringStep, LineId};
use tautline_proto::call::message::CallReason;
use tautline_proto::call::terms::{CallPath, CallTerms};
use tautline_proto::device::Stop;
use tautline_proto::time::{LocalTime, Span};
use tautline_serving::{CalledLine, LineEvent, Listening, serve_calls};

use super::call::in_words;
use super::call_end::{
    CallEnd, CallSide, EndSetup, bind, deaf_line, devices, directions, offer, tcp_line,
    tell_reports, udp_line,
};
use super::stop_on_signals;
use super::work::log::WorkLog;
use super::work::{locked, say};
use crate::failure::Failure;
use crate::flags::ServeFlags;
use crate::report_file::ReportFiles;
use crate::screen;
use crate::voice::Voice;

/// From one look at everything to the next.
const BEAT: Span = Span::from_millis(20);
/// Events of control connections that wait: seconds of all that may be there.
const EVENTS: usize = 4096;

pub(crate) fn run(flags: &ServeFlags) -> Result<(), Failure> {
    flags.end.running.refuse_a_ledger_of_few()?;
    let stop = stop_on_signals()?;
    let voice = flags.end.running.voice();
    let trust = TrustStore::usual()?;
    let devices = devices(&flags.end, &flags.input, &flags.output)?;
    let files = ReportFiles::create(&flags.end.running.report_file)?;
    let offer = offer(&flags.end, &devices, CallSide::Called, vec![CallPath::Udp, CallPath::Tcp]);
    // Before anybody calls, the sound is as it would be with a caller that wants what is usual here.
    let usual = offer.choose(&offer).map_err(|error| Failure::usage(error.to_string()))?;
    let (sent, heard) = directions(&usual, CallSide::Called);
    let setup = EndSetup {
        name: "serve",
        far: "callers".to_owned(),
        flags: &flags.end,
        input: &flags.input,
        output: &flags.output,
        devices,
        sent,
        heard,
        latency: usual.latency,
        muted: false,
        in_call: false,
        onlookers: None,
    };
    let (events, happened) = sync_channel(EVENTS);
    let listening = Listening { address: flags.listen, trust: Some(Arc::clone(&trust)) };
    let log = Arc::new(Mutex::new(WorkLog::new(voice)));
    let served = Arc::clone(&log);
    let server = serve_calls(&listening, events, move |news| locked(&served).served(news, now()));
    let server = server.map_err(|error| Failure::open(error.to_string()))?;
    let address = server.address();
    // Callers are heard at the port by which they call, so that one opening in a firewall is enough.
    let socket = bind(address)?;
    let blocking = |error: std::io::Error| Failure::running(format!("{error}; try again"));
    socket.set_nonblocking(true).map_err(blocking)?;
    let (end, ()) = CallEnd::begin(&setup, &stop, |_| Ok(()))?;
    let answering = Answering::new(offer, vec![address.port()]);
    let mut serving = Serving {
        voice,
        log,
        socket,
        answering,
        end,
        lines: BTreeMap::new(),
        transport: None,
        strangers_told: LocalTime::ZERO,
    };
    serving.nobody()?;
    screen::say(&format!("listening for calls at {address}"));
    serving.go_on(&stop, &happened, flags.end.running.duration)?;
    server.stop();
    say(voice, &serving.log, LocalTime::NEVER);
    let (reports, recorded) = serving.end.end()?;
    tell_reports(&reports, files, &flags.end.running)?;
    recorded
}

struct Serving {
    voice: Voice,
    /// Of whom was turned away.
    log: Arc<Mutex<WorkLog>>,
    /// By which all calls sound, one after the other.
    socket: UdpSocket,
    answering: Answering,
    end: CallEnd,
    lines: BTreeMap<LineId, CalledLine>,
    /// Of the call that there is.
    transport: Option<CalledTransport>,
    /// When a connection that belongs to no call is told of again.
    strangers_told: LocalTime,
}

/// By what the sound of a call goes.
struct CalledTransport {
    secret: [u8; SECRET_BYTES],
    call: CallId,
    /// Of the one that is used: later ones have higher numbers.
    number: u32,
    path: CallPath,
    probes: PathProbes,
    /// Those of the next connections.
    tickets: Vec<(u32, MediaTicket)>,
}

impl CalledTransport {
    /// That of a call which begins, by UDP.
    fn of(secret: [u8; SECRET_BYTES], call: CallId) -> Self {
        let probes = PathProbes::new(&CallKeys::of(&secret, call, 0).probe);
        let path = CallPath::Udp;
        let mut first = Self { secret, call, number: 0, path, probes, tickets: Vec::new() };
        first.go_to(0, path);
        first
    }

    /// The one of that number is used from now on.
    fn go_to(&mut self, number: u32, path: CallPath) {
        (self.number, self.path) = (number, path);
        let next = (1..=MOST_AHEAD).filter_map(|ahead| number.checked_add(ahead));
        let ticket = |number| (number, MediaTicket::of(&self.secret, self.call, number));
        self.tickets = next.map(ticket).collect();
    }

    fn keys(&self) -> CallKeys {
        CallKeys::of(&self.secret, self.call, self.number)
    }

    /// The number of the connection with this ticket.
    fn of_ticket(&self, ticket: &MediaTicket) -> Option<u32> {
        let found = self.tickets.iter().find(|(_, expected)| expected.is(ticket));
        found.map(|(number, _)| *number)
    }
}

/// Connections that were made and came to nothing since one was used.
const MOST_AHEAD: u32 = 8;
/// The most that a caller moves on by at once: more is nothing that taut says.
const MOST_MOVED: u32 = 1 << 16;
/// Between two lines about connections that belong to no call.
const STRANGERS_TOLD: Span = Span::from_secs(60);
/// For lines to be closed by what was said last.
const FAREWELL: Span = Span::from_millis(500);
/// Probes that are answered in one beat.
const MOST_PROBES: usize = 16;

impl Serving {
    fn go_on(
        &mut self,
        stop: &Stop,
        happened: &Receiver<LineEvent>,
        duration: Option<Span>,
    ) -> Result<(), Failure> {
        let ends = duration.map(|duration| now() + duration);
        while !stop.is_requested() && !self.end.is_over() && ends.is_none_or(|ends| now() < ends) {
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
            self.take_steps();
            self.answer_probes();
            say(self.voice, &self.log, now());
            if let Some(recordings) = &mut self.end.recordings {
                recordings.turn();
            }
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
                AnsweringStep::Begin { line, call, terms, .. } => {
                    let begun = self.begin(line, call, &terms);
                    self.told(begun);
                }
                AnsweringStep::Resumed { line, .. } => {
                    self.lines.get(&line).iter().for_each(|line| {
                        self.voice.tell(&format!("{} is back: the call goes on", who(line)));
                    });
                }
                AnsweringStep::Change { terms, .. } => {
                    self.adopt(&terms);
                    self.voice.tell(&format!("the call is now {}", in_words(&terms)));
                }
                AnsweringStep::Path { path, transport, .. } => {
                    let moved = self.go_by(path, transport);
                    self.told(moved);
                }
                AnsweringStep::Away { .. } => {
                    self.voice.tell("the caller's control connection is lost; its sound goes on as long as it comes");
                }
                AnsweringStep::End { why, .. } => {
                    self.voice.tell(&format!("the call is over: {}", why.as_str()));
                    let over = self.nobody();
                    self.told(over);
                }
                AnsweringStep::Refused { line, why } => {
                    let whose = self.lines.get(&line).map_or("a caller".to_owned(), who);
                    self.voice.tell(&format!("{whose} was refused: {}", why.as_str()));
                }
            }
        }
        self.end.link.switch.collect();
    }

    /// What fails for one call ends nobody else's, nor this program.
    fn told(&self, done: Result<(), Failure>) {
        if let Err(failure) = done {
            self.voice.tell(&failure.to_string());
        }
    }

    fn begin(&mut self, line: LineId, call: CallId, terms: &CallTerms) -> Result<(), Failure> {
        let Some(line) = self.lines.get(&line) else { return Ok(()) };
        self.transport = Some(CalledTransport::of(line.secret, call));
        let words = format!("{} calls: {}", who(line), in_words(terms));
        self.adopt(terms);
        self.use_udp()?;
        if let Some(recordings) = &mut self.end.recordings {
            recordings.begin();
        }
        self.voice.tell(&words);
        Ok(())
    }

    /// Hears the call by UDP, and sends to where it is heard from.
    fn use_udp(&mut self) -> Result<(), Failure> {
        let Some(transport) = &self.transport else { return Ok(()) };
        let keys = transport.keys();
        let line = udp_line(
            self.socket()?,
            &self.end.link.udp,
            FarAddress::Newest,
            (&keys, CallSide::Called),
        )?;
        self.end.link.switch.exchange(line);
        Ok(())
    }

    /// The caller says by what the sound goes. One that goes by a connection begins as that comes.
    fn go_by(&mut self, path: CallPath, number: u32) -> Result<(), Failure> {
        let Some(transport) = &mut self.transport else { return Ok(()) };
        let moved = number.checked_sub(transport.number);
        match (path, moved.filter(|moved| (1..=MOST_MOVED).contains(moved))) {
            (_, None) => Ok(()),
            (CallPath::Udp, Some(_)) => {
                transport.go_to(number, path);
                self.voice.tell("the sound goes by UDP from now on");
                self.use_udp()
            }
            // Those between came to nothing, and this one comes.
            (CallPath::Tcp, Some(_)) => {
                let by = transport.path;
                transport.go_to(number - 1, by);
                Ok(())
            }
        }
    }

    /// A connection that is to carry the sound, if its ticket is one of this call that was not shown yet.
    fn take_connection(&mut self, ticket: &MediaTicket, stream: TcpStream, from: SocketAddr) {
        let found = self.transport.as_mut().and_then(|transport| {
            let number = transport.of_ticket(ticket)?;
            transport.go_to(number, CallPath::Tcp);
            Some(transport.keys())
        });
        let Some(keys) = found else {
            if now() >= self.strangers_told {
                self.strangers_told = now() + STRANGERS_TOLD;
                let from = from.ip().to_canonical();
                let what = "was turned away: its connection belongs to no call";
                self.voice.tell(&format!("{from} {what}"));
            }
            return;
        };
        // One that is gone already is followed by another.
        if let Ok((line, _)) = tcp_line(stream, &self.end.link, (&keys, CallSide::Called)) {
            self.end.link.switch.exchange(line);
            self.voice.tell("the sound goes by TCP from now on");
        }
    }

    /// Sends back what asks whether UDP carries, while the sound goes by TCP.
    fn answer_probes(&self) {
        let Some(transport) = &self.transport else { return };
        if transport.path == CallPath::Udp {
            return;
        }
        let mut probe = [0; PROBE_BYTES + 1];
        // As many as there may be: one in half a second is sent.
        for _ in 0..MOST_PROBES {
            let Ok((count, from)) = self.socket.recv_from(&mut probe) else { return };
            if let Some(count) = transport.probes.read(ProbeWay::There, &probe[..count]) {
                let _ = self.socket.send_to(&transport.probes.written(ProbeWay::Back, count), from);
            }
        }
    }

    fn adopt(&self, terms: &CallTerms) {
        let (sent, _) = directions(terms, CallSide::Called);
        if let Err(why) = self.end.adopt(sent, terms.latency) {
            self.voice.tell(&crate::words::cannot_change(&why));
        }
    }

    /// Nobody is sent to, and nobody heard.
    fn nobody(&mut self) -> Result<(), Failure> {
        self.transport = None;
        if let Some(recordings) = &mut self.end.recordings {
            recordings.end();
        }
        self.end.link.switch.exchange(deaf_line(self.socket()?, &self.end.link.udp)?);
        Ok(())
    }

    fn socket(&self) -> Result<UdpSocket, Failure> {
        self.socket.try_clone().map_err(|error| {
            Failure::running(format!("opening the UDP socket once more: {error}; raise ulimit -n"))
        })
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
