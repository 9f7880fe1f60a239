//! Two hosts that exchange reports while sound flows in one direction.

use std::collections::BTreeMap;

use tautline_proto::clock::Exchange;
use tautline_proto::time::{LocalTime, Span, WallTime};
use tautline_proto::units::Ppm;
use tautline_proto::wire::ntp::CompactSpan;
use tautline_sim::clock::{ClockError, SimClock, TrueTime};
use tautline_sim::link::{Path, PathModel};

enum Event {
    Sound,
    Report,
    Request,
    Question(LocalTime),
    /// Times of the request, of its receipt, and of the reply.
    Answer(LocalTime, WallTime, WallTime),
}

pub(crate) struct Talk {
    events: BTreeMap<(TrueTime, u64), Event>,
    order: u64,
    sender: SimClock,
    listener: SimClock,
    there: Path,
    back: Path,
    question: Option<(LocalTime, WallTime)>,
    reports: i64,
    questions: i64,
}

const REPORT: usize = 200;
const SOUND: usize = 330;

impl Talk {
    /// The sender is 50 ppm slow, the listener 50 ppm fast. Both wander by `wander` ppm per √s.
    pub(crate) fn new(path: PathModel, wander: f64, seed: u64) -> Self {
        let clock = |start, ppm, seed| {
            let start = LocalTime::from_nanos(start);
            let error =
                ClockError { start, rate: Ppm::from_f64(ppm), wander: Ppm::from_f64(wander) };
            SimClock::new(error, Vec::new(), seed)
        };
        let mut talk = Self {
            events: BTreeMap::new(),
            order: 0,
            sender: clock(1_700_000_000_000_000_000, -50.0, 4 * seed),
            listener: clock(77_000_000_000, 50.0, 4 * seed + 1),
            there: Path::new(path.clone(), 4 * seed + 2),
            back: Path::new(path, 4 * seed + 3),
            question: None,
            reports: 0,
            questions: 0,
        };
        for event in [Event::Sound, Event::Report, Event::Request] {
            talk.at(TrueTime::ZERO, event);
        }
        talk
    }

    pub(crate) fn clocks(&mut self, at: TrueTime) -> (LocalTime, WallTime) {
        let wall = WallTime::from_unix_nanos(self.sender.reading(at).as_nanos());
        (self.listener.reading(at), wall)
    }

    pub(crate) fn run(&mut self, until: TrueTime, mut notify: impl FnMut(Exchange)) {
        while let Some(entry) = self.events.first_entry() {
            if entry.key().0 > until {
                break;
            }
            let ((now, _), event) = entry.remove_entry();
            self.happen(now, event, &mut notify);
        }
    }

    fn at(&mut self, when: TrueTime, event: Event) {
        self.order += 1;
        self.events.insert((when, self.order), event);
    }

    fn happen(&mut self, now: TrueTime, event: Event, notify: &mut impl FnMut(Exchange)) {
        let (local, wall) = self.clocks(now);
        match event {
            Event::Sound => {
                self.there.carry(SOUND, now, |_| {});
                self.at(now.after(Span::from_millis(1)), Event::Sound);
            }
            Event::Request => {
                let mut arrives = None;
                self.back.carry(REPORT, now, |at| arrives = Some(at));
                if let Some(arrives) = arrives {
                    self.at(arrives, Event::Question(local));
                }
                self.questions += 1;
                self.at(now.after(interval(self.questions, 450)), Event::Request);
            }
            Event::Question(requested) => {
                self.question = Some((requested, wall));
                if self.questions <= 8 {
                    self.answer(now, wall);
                }
            }
            Event::Report => {
                self.answer(now, wall);
                self.reports += 1;
                self.at(now.after(interval(self.reports, 430)), Event::Report);
            }
            Event::Answer(requested, received, left) => {
                // As in DLRR, the wait is rounded, and the request time is computed from the reply.
                let wait = CompactSpan::from_span(left - received).to_span();
                let reading_error = Span::from_nanos(7_633);
                let peer_received = left + -wait;
                notify(Exchange {
                    requested,
                    peer_received,
                    peer_answered: left,
                    answered: local,
                    reading_error,
                });
            }
        }
    }

    fn answer(&mut self, now: TrueTime, left: WallTime) {
        let mut arrives = None;
        self.there.carry(REPORT, now, |at| arrives = Some(at));
        if let (Some(arrives), Some((requested, received))) = (arrives, self.question) {
            self.at(arrives, Event::Answer(requested, received, left));
        }
    }
}

fn interval(number: i64, millis: i64) -> Span {
    if number <= 10 { Span::from_millis(20) } else { Span::from_millis(millis + number % 7 * 11) }
}
