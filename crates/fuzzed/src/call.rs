use tautline_api::call::{LineBuffer, MAX_LINE, read, written};
use tautline_dsp::format::SampleFormat;
use tautline_proto::call::CallId;
use tautline_proto::call::answering::{Answering, AnsweringStep, CallLimits, ConnectionId};
use tautline_proto::call::caller::{CallerEnd, CallerStep};
use tautline_proto::call::message::{CALL_VERSION, CallMessage, CallReason};
use tautline_proto::call::terms::{CallOffer, CallPath, CallTerms, StreamAbilities};
use tautline_proto::stream::Coding;
use tautline_proto::time::{LocalTime, Span};
use tautline_proto::units::{Channels, Rate};

fn offer(first: Coding) -> CallOffer {
    let plain = [SampleFormat::L24, SampleFormat::L16, SampleFormat::F32, SampleFormat::L32];
    let all = plain.into_iter().map(Coding::from).chain(Coding::compressed());
    let abilities = StreamAbilities {
        rates: vec![Rate::HZ_48000],
        channels: vec![Channels::STEREO],
        codings: core::iter::once(first).chain(all).collect(),
        ptimes: (Span::from_millis(1), Span::from_millis(20)),
        takes: None,
    };
    let paths = vec![CallPath::Udp, CallPath::Tcp];
    CallOffer {
        there: abilities.clone(),
        back: abilities,
        paths,
        latency: None,
        adapts: None,
        redundancy: None,
    }
}

/// Fuzzed ones are below.
const HONEST_LINES: u64 = 100;
const MAX_STEPS: usize = 64;

struct Honest {
    caller: CallerEnd,
    lines: u64,
    line: Option<ConnectionId>,
    there: Option<(usize, CallTerms)>,
}

impl Honest {
    fn settle(&mut self, answering: &mut Answering, now: LocalTime) {
        self.caller.poll(now);
        answering.poll(now);
        for _ in 0..MAX_STEPS {
            let said = self.caller.step();
            let answered = answering.step();
            if said.is_none() && answered.is_none() {
                return self.check_terms();
            }
            if let Some(step) = said {
                self.on_step(step, answering, now);
            }
            if let Some(step) = answered {
                self.on_answer(step, now);
            }
        }
        panic!("both ends have steps after {MAX_STEPS} rounds");
    }

    fn on_step(&mut self, step: CallerStep, answering: &mut Answering, now: LocalTime) {
        match (step, self.line) {
            (CallerStep::Dial, _) => {
                self.lines += 1;
                let line = ConnectionId(HONEST_LINES + self.lines);
                answering.arrived(line, [9; 32], now);
                self.line = Some(line);
                self.caller.connected(CALL_VERSION, now);
            }
            (CallerStep::Say(message), Some(line)) => {
                let fresh = CallId([self.lines as u8 ^ 0xAA; 16]);
                answering.handle_message(line, message, fresh, now);
            }
            (CallerStep::Close, Some(line)) => {
                self.line = None;
                answering.gone(line, now);
            }
            _ => {}
        }
    }

    fn on_answer(&mut self, step: AnsweringStep, now: LocalTime) {
        match step {
            AnsweringStep::Say(line, message) if self.line == Some(line) => {
                self.caller.handle_message(message, now);
            }
            AnsweringStep::Close(line) if self.line == Some(line) => {
                self.line = None;
                self.caller.line_lost(now);
            }
            AnsweringStep::Begin { place, line, terms, .. } if self.line == Some(line) => {
                self.there = Some((place, terms));
            }
            AnsweringStep::Change { place, terms, .. } => {
                let own = self.there.iter_mut().filter(|(own, _)| *own == place);
                own.for_each(|(_, agreed)| *agreed = terms.clone());
            }
            AnsweringStep::End { place, .. } => {
                self.there.take_if(|(own, _)| *own == place);
            }
            _ => {}
        }
    }

    fn check_terms(&self) {
        if let (true, Some(call), Some((_, there))) =
            (self.caller.has_line(), self.caller.call(), &self.there)
        {
            assert_eq!(call.terms, *there);
        }
    }

    fn request(&mut self, message: &CallMessage) {
        match message {
            CallMessage::Change(terms) => {
                drop(self.caller.change(terms.clone()));
            }
            CallMessage::Path { path, transport } => {
                self.caller.go_by(*path, *transport);
            }
            CallMessage::Bye(why) => self.caller.hang_up(why.clone()),
            _ => {}
        }
    }
}

/// Each valid message survives a round trip.
///
/// A called end receives them, next to an honest caller that requests the same changes. The called
/// end keeps its limits; both ends of the honest call agree on the terms.
pub fn call(bytes: &[u8]) {
    let mut messages = Vec::new();
    let mut lines = LineBuffer::default();
    let taken = lines.take(bytes, |line| {
        assert!(line.len() <= MAX_LINE);
        if let Ok(message) = read(line) {
            let again = written(&message);
            assert_eq!(read(&again[..again.len() - 1]), Ok(message.clone()));
            messages.push(message);
        }
    });
    assert!(taken.is_ok() || bytes.len() > MAX_LINE);
    let start = LocalTime::ZERO + Span::from_secs(1);
    let here = offer(SampleFormat::L24.into());
    let held = bytes.len() % 2 == 1;
    let limits = CallLimits { sounding: 3, of_a_peer: 1, sounding_of_a_peer: 1, own: None };
    let mut answering = Answering::new(here, vec![7_000, 7_001, 7_002]).limited(limits);
    let caller = CallerEnd::new(offer(Coding::OPUS), start).held(held);
    let mut honest = Honest { caller, lines: 0, line: None, there: None };
    honest.settle(&mut answering, start);
    // The second starts on hold.
    let mut callers = [false, true].map(|held| {
        let mut caller = CallerEnd::new(offer(Coding::OPUS_VOICE), start).held(held);
        caller.poll(start);
        caller.connected(CALL_VERSION, start);
        caller
    });
    for (number, message) in messages.into_iter().enumerate() {
        let now = start + Span::from_millis(number as i64 * 37);
        let line = ConnectionId(number as u64 % 3);
        if number < 3 {
            answering.arrived(line, [number as u8 % 2; 32], now);
        }
        honest.request(&message);
        honest.settle(&mut answering, now);
        answering.handle_message(line, message.clone(), CallId([number as u8; 16]), now);
        answering.poll(now);
        let answers =
            core::iter::from_fn(|| answering.step()).map(|step| honest.on_answer(step, now));
        assert!(answers.count() < 16 && answering.calls() <= 3);
        if number % 5 == 4 {
            answering.gone(line, now);
        }
        if number % 16 == 15 {
            answering.keep_trusted(
                |peer| peer != [1; 32],
                &CallReason::new("trusted no more"),
                now,
            );
        }
        honest.settle(&mut answering, now);
        for caller in &mut callers {
            if let CallMessage::Change(terms) = &message {
                drop(caller.change(terms.clone()));
            }
            caller.handle_message(message.clone(), now);
            caller.poll(now);
            assert!(core::iter::from_fn(|| caller.step()).count() < 8);
        }
    }
}
