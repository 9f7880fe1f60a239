//! `taut serve`: this machine's sound for whoever calls and is trusted.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
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
use tautline_proto::time::Span;
use tautline_serving::{CalledLine, LineEvent, Listening, ServingNews, serve_calls};

use super::call::in_words;
use super::call_end::{
    CallEnd, CallSide, EndSetup, bind, deaf_line, devices, directions, offer, tcp_line,
    tell_reports, udp_line,
};
use super::stop_on_signals;
use crate::failure::Failure;
use crate::flags::ServeFlags;
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
    let trust = TrustStore::usual().map_err(Failure::from)?;
    let devices = devices(&flags.end, &flags.input, &flags.output)?;
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
    };
    let (events, happened) = sync_channel(EVENTS);
    let listening = Listening { address: flags.listen, trust: Some(Arc::clone(&trust)) };
    let server = serve_calls(&listening, events, move |news| tell_news(voice, news));
    let server = server.map_err(|error| Failure::open(error.to_string()))?;
    let address = server.address();
    // Callers are heard at the port by which they call, so that one opening in a firewall is enough.
    let socket = bind(address)?;
    let blocking = |error: std::io::Error| Failure::running(format!("{error}; try again"));
    socket.set_nonblocking(true).map_err(blocking)?;
    let (end, ()) = CallEnd::begin(&setup, &stop, |_| Ok(()))?;
    let answering = Answering::new(offer, vec![address.port()]);
    let mut serving =
        Serving { voice, socket, answering, end, lines: BTreeMap::new(), transport: None };
    serving.nobody()?;
    screen::say(&format!("listening for calls at {address}"));
    serving.go_on(&stop, &happened, flags.end.running.duration)?;
    server.stop();
    let reports = serving.end.end()?;
    tell_reports(&reports, &flags.end.running)
}

fn tell_news(voice: Voice, news: &ServingNews) {
    if let ServingNews::TurnedAway { address, why } = news {
        voice.tell(&format!("{} was turned away: {why}", address.to_canonical()));
    }
}

struct Serving {
    voice: Voice,
    /// By which all calls sound, one after the other.
    socket: UdpSocket,
    answering: Answering,
    end: CallEnd,
    lines: BTreeMap<LineId, CalledLine>,
    /// Of the call that there is.
    transport: Option<CalledTransport>,
}

/// By what the sound of a call goes.
struct CalledTransport {
    secret: [u8; SECRET_BYTES],
    call: CallId,
    /// Of the one that is used: later ones have higher numbers.
    number: u32,
    path: CallPath,
    probes: PathProbes,
}

impl CalledTransport {
    fn keys(&self, number: u32) -> CallKeys {
        CallKeys::of(&self.secret, self.call, number)
    }

    /// The keys of the connection with this ticket, which is the one that is used from now on.
    fn of_ticket(&mut self, ticket: &MediaTicket) -> Option<CallKeys> {
        let next = self.number + 1..=self.number.saturating_add(MOST_AHEAD);
        let (number, keys) = next
            .map(|number| (number, self.keys(number)))
            .find(|(_, keys)| keys.ticket.is(ticket))?;
        (self.number, self.path) = (number, CallPath::Tcp);
        Some(keys)
    }
}

/// Connections that a caller made in vain since one came.
const MOST_AHEAD: u32 = 64;
/// PathProbes that are answered in one beat.
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
            let left = (until - now()).max(Span::ZERO).as_nanos().unsigned_abs();
            match happened.recv_timeout(Duration::from_nanos(left)) {
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
            self.take_steps()?;
            self.answer_probes();
        }
        self.answering.hang_up(&CallReason::new("taut serve ended there"));
        self.take_steps()
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
            LineEvent::Media { ticket, stream, from } => {
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
        self.take_steps()
    }

    fn take_steps(&mut self) -> Result<(), Failure> {
        while let Some(step) = self.answering.step() {
            match step {
                AnsweringStep::Say(line, message) => {
                    // One that takes nothing is gone, or will be found dead.
                    self.lines.get(&line).map(|line| line.teller.say(message));
                }
                AnsweringStep::Close(line) => drop(self.lines.remove(&line)),
                AnsweringStep::Begin { line, call, terms, .. } => self.begin(line, call, &terms)?,
                AnsweringStep::Resumed { line, .. } => {
                    self.lines.get(&line).iter().for_each(|line| {
                        self.voice.tell(&format!("{} is back: the call goes on", who(line)));
                    });
                }
                AnsweringStep::Change { terms, .. } => {
                    self.adopt(&terms);
                    self.voice.tell(&format!("the call is now {}", in_words(&terms)));
                }
                AnsweringStep::Path { path, transport, .. } => self.go_by(path, transport)?,
                AnsweringStep::Away { .. } => {
                    self.voice.tell("the caller's control connection is lost; its sound goes on as long as it comes");
                }
                AnsweringStep::End { why, .. } => {
                    self.voice.tell(&format!("the call is over: {}", why.as_str()));
                    self.nobody()?;
                }
                AnsweringStep::Refused { line, why } => {
                    let whose = self.lines.get(&line).map_or("a caller".to_owned(), who);
                    self.voice.tell(&format!("{whose} was refused: {}", why.as_str()));
                }
            }
        }
        self.end.link.switch.collect();
        Ok(())
    }

    fn begin(&mut self, line: LineId, call: CallId, terms: &CallTerms) -> Result<(), Failure> {
        let Some(line) = self.lines.get(&line) else { return Ok(()) };
        self.transport = Some(CalledTransport {
            secret: line.secret,
            call,
            number: 0,
            path: CallPath::Udp,
            probes: PathProbes::new(&CallKeys::of(&line.secret, call, 0).probe),
        });
        let words = format!("{} calls: {}", who(line), in_words(terms));
        self.adopt(terms);
        self.use_udp()?;
        self.voice.tell(&words);
        Ok(())
    }

    /// Hears the call by UDP, and sends to where it is heard from.
    fn use_udp(&mut self) -> Result<(), Failure> {
        let Some(transport) = &self.transport else { return Ok(()) };
        let keys = transport.keys(transport.number);
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
        if path == CallPath::Udp && number > transport.number {
            (transport.number, transport.path) = (number, path);
            self.voice.tell("the sound goes by UDP from now on");
            self.use_udp()?;
        }
        Ok(())
    }

    /// A connection that is to carry the sound, if its ticket is one of this call that was not shown yet.
    fn take_connection(&mut self, ticket: &MediaTicket, stream: TcpStream, from: SocketAddr) {
        let found = self.transport.as_mut().and_then(|transport| transport.of_ticket(ticket));
        let Some(keys) = found else {
            let from = from.ip().to_canonical();
            return self
                .voice
                .tell(&format!("{from} was turned away: its connection belongs to no call"));
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
        self.end.link.switch.exchange(deaf_line(self.socket()?, &self.end.link.udp)?);
        Ok(())
    }

    fn socket(&self) -> Result<UdpSocket, Failure> {
        self.socket.try_clone().map_err(|error| {
            Failure::running(format!("opening the UDP socket once more: {error}; raise ulimit -n"))
        })
    }
}

/// Whose a line is.
fn who(line: &CalledLine) -> String {
    let address = line.from.ip().to_canonical();
    match &line.name {
        Some(name) => format!("{name} ({address})"),
        None => format!("this machine ({address})"),
    }
}
