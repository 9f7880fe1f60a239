//! A simulated day of a call with lost lines, changes and holds. Memory use does not grow.

use std::collections::VecDeque;

use tautline_dsp::format::SampleFormat;
use tautline_proto::call::CallId;
use tautline_proto::call::answering::{Answering, AnsweringStep, ConnectionId};
use tautline_proto::call::caller::{CallerEnd, CallerStep};
use tautline_proto::call::message::{CALL_VERSION, CallMessage};
use tautline_proto::call::terms::{CallOffer, CallPath};
use tautline_proto::time::{LocalTime, Span};
use tautline_proto::units::Rate;
use tautline_trial::live_bytes;

use crate::offers;

const WAY: Span = Span::from_millis(40);
const PAUSES: [Span; 5] = [
    Span::from_millis(3_100),
    Span::from_millis(700),
    Span::from_millis(9_300),
    Span::from_millis(35),
    Span::from_millis(1_700),
];

fn offer() -> CallOffer {
    offers::offer(&[SampleFormat::L24, SampleFormat::L16])
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    begun: u32,
    away: u32,
    resumed: u32,
    changed: u32,
    held: u32,
    kept: u32,
    again: u32,
    dropped: u32,
    paths: u32,
    pongs: u32,
    ended: u32,
}

type OnTheWay = VecDeque<(LocalTime, CallMessage)>;

fn due(way: &mut OnTheWay, now: LocalTime) -> Option<CallMessage> {
    let (due, _) = way.front()?;
    if *due > now {
        return None;
    }
    way.pop_front().map(|(_, message)| message)
}

struct Talk {
    now: LocalTime,
    caller: CallerEnd,
    answering: Answering,
    line: Option<ConnectionId>,
    lines: u64,
    there: OnTheWay,
    back: OnTheWay,
    /// Whether the network delivers; otherwise messages in flight are lost.
    up: bool,
    tally: Tally,
}

impl Talk {
    fn new() -> Self {
        let now = LocalTime::ZERO + Span::from_secs(1);
        Self {
            now,
            caller: CallerEnd::new(offer(), now),
            answering: Answering::new(offer(), vec![7_000]),
            line: None,
            lines: 0,
            there: VecDeque::new(),
            back: VecDeque::new(),
            up: true,
            tally: Tally::default(),
        }
    }

    fn run(&mut self, span: Span) {
        let until = self.now + span;
        loop {
            let on_the_way = [&self.there, &self.back].map(|way| way.front().map(|(due, _)| *due));
            let own = [self.caller.deadline(), self.answering.deadline()];
            let next = own.into_iter().chain(on_the_way.into_iter().flatten()).min();
            self.now = next.unwrap_or(until).max(self.now).min(until);
            self.turn();
            if self.now == until {
                return;
            }
        }
    }

    fn turn(&mut self) {
        let now = self.now;
        while let Some(message) = due(&mut self.back, now) {
            self.tally.pongs += u32::from(message == CallMessage::Pong);
            self.caller.handle_message(message, now);
        }
        while let Some(message) = due(&mut self.there, now) {
            if let Some(line) = self.line {
                self.answering.handle_message(line, message, CallId([7; 16]), now);
            }
        }
        self.caller.poll(now);
        self.answering.poll(now);
        while let Some(step) = self.caller.step() {
            self.calling(step);
        }
        while let Some(step) = self.answering.step() {
            self.answer(step);
        }
        while let Some(step) = self.caller.step() {
            self.calling(step);
        }
    }

    fn calling(&mut self, step: CallerStep) {
        let (now, tally) = (self.now, &mut self.tally);
        match step {
            CallerStep::Dial if self.up => {
                self.lines += 1;
                self.line = Some(ConnectionId(self.lines));
                self.answering.arrived(ConnectionId(self.lines), [1; 32], now);
                self.caller.connected(CALL_VERSION, now);
            }
            CallerStep::Dial => self.caller.line_lost(now),
            CallerStep::Say(message) if self.up && self.line.is_some() => {
                self.there.push_back((now + WAY, message));
            }
            CallerStep::Say(_) => {}
            CallerStep::Close => {
                self.there.clear();
                self.back.clear();
                if let Some(line) = self.line.take().filter(|_| self.up) {
                    self.answering.gone(line, now);
                }
            }
            CallerStep::Begin(_) => tally.begun += 1,
            CallerStep::Away => tally.away += 1,
            CallerStep::Resumed => tally.resumed += 1,
            CallerStep::Change(terms) if terms.sound() => tally.changed += 1,
            CallerStep::Change(_) => tally.held += 1,
            CallerStep::Kept(_) => tally.kept += 1,
            CallerStep::Again(_) => tally.again += 1,
            CallerStep::Dropped(_) => tally.dropped += 1,
            CallerStep::NotReceived(_) => panic!("sound was received but reported as missing"),
            CallerStep::TurnedAway(_) | CallerStep::Over(_) => tally.ended += 1,
        }
    }

    fn answer(&mut self, step: AnsweringStep) {
        let (now, tally) = (self.now, &mut self.tally);
        match step {
            AnsweringStep::Say(line, message) => {
                if self.up && self.line == Some(line) {
                    self.back.push_back((now + WAY, message));
                }
            }
            AnsweringStep::Close(line) => {
                if self.up && self.line == Some(line) {
                    self.line = None;
                    self.caller.line_lost(now);
                }
            }
            AnsweringStep::Path { .. } => tally.paths += 1,
            AnsweringStep::End { .. } | AnsweringStep::Refused { .. } => tally.ended += 1,
            AnsweringStep::Begin { .. }
            | AnsweringStep::Resumed { .. }
            | AnsweringStep::Change { .. }
            | AnsweringStep::Away { .. }
            | AnsweringStep::Send { .. } => {}
        }
    }

    /// Both ends notice immediately if `reported`, otherwise after a timeout.
    fn cut(&mut self, reported: bool, span: Span) {
        self.up = false;
        self.there.clear();
        self.back.clear();
        if reported && let Some(line) = self.line.take() {
            self.answering.gone(line, self.now);
            self.caller.line_lost(self.now);
        }
        self.run(span);
        self.up = true;
    }

    fn talk(&mut self, span: Span) {
        let until = self.now + span;
        let mut pauses = PAUSES.into_iter().cycle();
        for number in 0_u32.. {
            if self.now >= until {
                break;
            }
            let Some(terms) = self.caller.call().map(|call| call.terms.clone()) else {
                self.run(Span::from_secs(1));
                continue;
            };
            let mut wanted = terms.clone();
            match number % 23 {
                2 | 9 => wanted.paths.clear(),
                3 | 14 => wanted.paths = vec![CallPath::Udp, CallPath::Tcp],
                5 => wanted.back.rate = Rate::HZ_44100,
                6 => self.cut(number % 2 == 0, Span::from_millis(400)),
                10 => self.cut(number % 2 == 0, Span::from_secs(i64::from(number % 50))),
                _ => wanted.there.ptime = Span::from_millis(1 + i64::from(number % 9)),
            }
            if number % 7 == 0 {
                self.caller.go_by(CallPath::Tcp, number);
            }
            drop(self.caller.change(wanted));
            self.run(pauses.next().unwrap_or(WAY));
        }
        while !self.caller.has_line() || !self.there.is_empty() || !self.back.is_empty() {
            self.run(Span::from_millis(10));
        }
    }
}

#[test]
fn count_includes_memory_in_use() {
    let before = live_bytes();
    let held = std::hint::black_box(vec![1_u8; 100]);
    assert_eq!(live_bytes() - before, 100);
    drop(held);
    assert_eq!(live_bytes(), before);
}

#[test]
fn day_of_calls_does_not_grow_memory() {
    const HOURS: usize = 24;
    let mut talk = Talk::new();
    let mut after = [0; HOURS];
    for hour in &mut after {
        talk.talk(Span::from_secs(3_600));
        *hour = live_bytes();
    }
    let reported = format!("{after:?} bytes after each hour; {:?}", talk.tally);
    println!("{reported}");
    assert!(after.iter().all(|hour| *hour <= after[0]), "{reported}");
    let Tally { begun, away, resumed, changed, held, kept, paths, pongs, ended, .. } = talk.tally;
    assert_eq!((begun, ended, away), (1, 0, resumed), "one call: {reported}");
    let often = [resumed, held, kept, paths].map(|count| count > 25 * HOURS as u32);
    assert_eq!(often, [true; 4], "{reported}");
    assert!(changed > 400 * HOURS as u32 && pongs > 2_000 * HOURS as u32, "{reported}");
}

#[test]
fn hold_with_a_lost_answer_removes_no_sound_later() {
    let mut talk = Talk::new();
    talk.run(Span::from_secs(1));
    let sounding = talk.caller.call().unwrap().terms.clone();
    let mut held = sounding.clone();
    held.paths.clear();
    assert_eq!(talk.caller.change(held.clone()), Ok(()));
    talk.cut(true, Span::from_secs(1));
    talk.run(Span::from_secs(5));
    assert_eq!(talk.caller.change(sounding), Ok(()));
    talk.run(Span::from_secs(1));
    assert_eq!((talk.tally.resumed, talk.tally.held), (1, 1), "{:?}", talk.tally);
    talk.back.push_back((talk.now, CallMessage::Changed(held)));
    talk.run(Span::from_secs(1));
    assert_eq!((talk.tally.held, talk.tally.ended), (1, 1), "{:?}", talk.tally);
}
