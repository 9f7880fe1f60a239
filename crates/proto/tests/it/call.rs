//! A call from dial to goodbye over a line that can be cut, in virtual time.

use tautline_trial::snapshot;

use crate::offers;

use std::collections::VecDeque;

use tautline_dsp::format::SampleFormat;
use tautline_proto::call::answering::{Answering, AnsweringStep, ConnectionId};
use tautline_proto::call::caller::{CallOver, CallerEnd, CallerStep, NotAsked};
use tautline_proto::call::message::{CALL_VERSION, CallMessage, CallReason};
use tautline_proto::call::terms::{CallAdaptation, CallLatency, CallOffer, CallTerms, StreamTerms};
use tautline_proto::call::{CALL_KEPT, CallId, LINE_DEAD};
use tautline_proto::stream::Coding;
use tautline_proto::time::{LocalTime, Span};
use tautline_proto::units::Rate;

const BEAT: Span = Span::from_millis(20);
const WAY: Span = Span::from_millis(40);

fn offer() -> CallOffer {
    offers::offer(&[SampleFormat::L24, SampleFormat::L16])
}

type Said = Vec<(i64, String)>;

struct CallingEnd {
    caller: CallerEnd,
    peer: [u8; 32],
    line: Option<ConnectionId>,
    there: VecDeque<(LocalTime, CallMessage)>,
    back: VecDeque<(LocalTime, CallMessage)>,
    did: Said,
}

struct World {
    now: LocalTime,
    answering: Answering,
    ends: Vec<CallingEnd>,
    lines: u64,
    calls: u8,
    /// Whether the network delivers; otherwise messages in flight are lost.
    up: bool,
    did: Said,
}

impl World {
    fn new(callers: usize, places: u16) -> Self {
        let now = LocalTime::ZERO + Span::from_secs(1);
        let end = |number| CallingEnd {
            caller: CallerEnd::new(offer(), now),
            peer: [number as u8; 32],
            line: None,
            there: VecDeque::new(),
            back: VecDeque::new(),
            did: Vec::new(),
        };
        let answering = Answering::new(offer(), (0..places).map(|place| 7_000 + place).collect());
        let ends = (0..callers).map(end).collect();
        Self { now, answering, ends, lines: 0, calls: 0, up: true, did: Vec::new() }
    }

    fn millis(&self) -> i64 {
        (self.now - LocalTime::ZERO).as_nanos() / 1_000_000
    }

    fn run(&mut self, span: Span) {
        let until = self.now + span;
        while self.now < until {
            self.now += BEAT;
            self.turn();
        }
    }

    fn turn(&mut self) {
        let (now, at) = (self.now, self.millis());
        for number in 0..self.ends.len() {
            self.turn_end(number);
        }
        self.answering.poll(now);
        while let Some(step) = self.answering.step() {
            match step {
                AnsweringStep::Say(line, message) => {
                    let end = self.ends.iter_mut().find(|end| end.line == Some(line));
                    if let (Some(end), true) = (end, self.up) {
                        end.back.push_back((now + WAY, message));
                    }
                }
                AnsweringStep::Close(line) => {
                    let end = self.ends.iter_mut().find(|end| end.line == Some(line));
                    if let (Some(end), true) = (end, self.up) {
                        end.line = None;
                        while let Some((_, message)) = end.back.pop_front() {
                            end.caller.handle_message(message, now);
                        }
                        end.caller.line_lost(now);
                    }
                }
                AnsweringStep::Begin { place, .. } => self.did.push((at, format!("begin {place}"))),
                AnsweringStep::Resumed { place, .. } => {
                    self.did.push((at, format!("resumed {place}")))
                }
                AnsweringStep::Change { place, terms, .. } => {
                    self.did.push((at, format!("change {place} to {}", terms.there.ptime)));
                }
                AnsweringStep::Path { place, path, .. } => {
                    self.did.push((at, format!("path {place} {path:?}")))
                }
                AnsweringStep::Send { .. } => {}
                AnsweringStep::Away { place } => self.did.push((at, format!("away {place}"))),
                AnsweringStep::End { place, why } => {
                    self.did.push((at, format!("end {place}: {}", why.as_str())))
                }
                AnsweringStep::Refused { why, .. } => {
                    self.did.push((at, format!("refused: {}", why.as_str())))
                }
            }
        }
    }

    fn turn_end(&mut self, number: usize) {
        let (now, at, up) = (self.now, self.millis(), self.up);
        let end = &mut self.ends[number];
        while end.back.front().is_some_and(|(due, _)| *due <= now) {
            let (_, message) = end.back.pop_front().expect("it is there");
            end.caller.handle_message(message, now);
        }
        while end.there.front().is_some_and(|(due, _)| *due <= now) {
            let (_, message) = end.there.pop_front().expect("it is there");
            if let Some(line) = end.line {
                self.calls = self.calls.wrapping_add(1);
                self.answering.handle_message(line, message, CallId([self.calls; 16]), now);
            }
        }
        end.caller.poll(now);
        while let Some(step) = end.caller.step() {
            match step {
                CallerStep::Dial if up => {
                    self.lines += 1;
                    end.line = Some(ConnectionId(self.lines));
                    self.answering.arrived(ConnectionId(self.lines), end.peer, now);
                    end.caller.connected(CALL_VERSION, now);
                }
                CallerStep::Dial => end.caller.line_lost(now),
                CallerStep::Say(message) if up && end.line.is_some() => {
                    end.there.push_back((now + WAY, message))
                }
                CallerStep::Say(_) => {}
                CallerStep::Close => {
                    if let (Some(line), true) = (end.line.take(), up) {
                        while let Some((_, message)) = end.there.pop_front() {
                            self.answering.handle_message(line, message, CallId([0; 16]), now);
                        }
                        self.answering.gone(line, now);
                    }
                    end.there.clear();
                    end.back.clear();
                }
                CallerStep::Begin(_) => end.did.push((at, "begin".to_owned())),
                CallerStep::Away => end.did.push((at, "away".to_owned())),
                CallerStep::Resumed => end.did.push((at, "resumed".to_owned())),
                CallerStep::Change(terms) => {
                    end.did.push((at, format!("change to {}", terms.there.ptime)))
                }
                CallerStep::Again(terms) => {
                    end.did.push((at, format!("again {}", terms.there.ptime)))
                }
                CallerStep::Dropped(terms) => {
                    end.did.push((at, format!("dropped {}", terms.there.ptime)))
                }
                CallerStep::TurnedAway(why) => {
                    end.did.push((at, format!("turned away: {}", why.as_str())))
                }
                CallerStep::NotReceived(number) => {
                    end.did.push((at, format!("unheard by {number}")))
                }
                CallerStep::Kept(why) => end.did.push((at, format!("kept: {}", why.as_str()))),
                CallerStep::Over(over) => end.did.push((at, format!("{over:?}"))),
            }
        }
    }

    fn cut(&mut self) {
        self.up = false;
        for end in &mut self.ends {
            end.there.clear();
            end.back.clear();
        }
    }
}

fn words(said: &Said) -> Vec<&str> {
    said.iter().map(|(_, word)| word.as_str()).collect()
}

#[test]
fn a_call_begins_one_round_trip_after_its_line() {
    let mut world = World::new(1, 1);
    world.run(Span::from_secs(1));
    assert_eq!(words(&world.ends[0].did), ["begin"]);
    assert_eq!(world.ends[0].did[0].0, 1_000 + 20 + 80, "dialled at 1020");
    assert_eq!(words(&world.did), ["begin 0"]);
}

#[test]
fn a_quiet_day_of_talk_is_pings_on_one_line() {
    let mut world = World::new(1, 1);
    world.run(Span::from_secs(86_400));
    assert_eq!(words(&world.ends[0].did), ["begin"]);
    assert_eq!(words(&world.did), ["begin 0"]);
    assert!(world.ends[0].caller.has_line());
}

#[test]
fn after_five_seconds_without_a_network_the_same_call_goes_on() {
    let mut world = World::new(1, 1);
    world.run(Span::from_secs(10));
    world.cut();
    world.run(Span::from_secs(5));
    world.up = true;
    let back = world.millis();
    world.run(Span::from_secs(5));
    assert_eq!(words(&world.ends[0].did), ["begin", "away", "resumed"]);
    assert_eq!(words(&world.did), ["begin 0", "away 0", "resumed 0"]);
    let resumed = world.ends[0].did[2].0 - back;
    assert!(resumed <= 2_200, "{resumed} ms: the longest pause and a round trip");
}

#[test]
fn silent_caller_frees_its_place() {
    let mut world = World::new(2, 1);
    world.ends[1].caller = CallerEnd::new(offer(), world.now + Span::from_secs(200));
    world.run(Span::from_secs(10));
    world.cut();
    let cut = world.millis();
    world.run(CALL_KEPT + LINE_DEAD + Span::from_secs(2));
    let Some((at, last)) = world.did.last() else { panic!("nothing") };
    snapshot!(last);
    let kept = Span::from_millis(at - cut);
    let wanted = CALL_KEPT + LINE_DEAD;
    assert!((wanted - Span::from_secs(2)..=wanted + BEAT).contains(&kept), "{kept}");
    assert_eq!(world.answering.calls(), 0);
    // Too late: the peer's call is over, and the caller dials again.
    world.up = true;
    world.run(Span::from_secs(10));
    let did = words(&world.ends[0].did);
    assert_eq!((did[..2].as_ref(), did[3]), (["begin", "away"].as_ref(), "begin"), "{did:?}");
    snapshot!(did[2]);
}

#[test]
fn a_program_that_died_and_calls_again_takes_its_place_at_once() {
    let mut world = World::new(2, 1);
    world.ends[1].peer = world.ends[0].peer;
    world.ends[1].caller = CallerEnd::new(offer(), world.now + Span::from_secs(10));
    world.run(Span::from_secs(5));
    // The kernel closes sockets of a dead process.
    let line = world.ends[0].line.take().unwrap();
    world.answering.gone(line, world.now);
    world.ends.remove(0);
    world.run(Span::from_secs(10));
    assert_eq!(words(&world.ends[0].did), ["begin"]);
    let did = words(&world.did);
    assert_eq!((did[..2].as_ref(), did[3]), (["begin 0", "away 0"].as_ref(), "begin 0"), "{did:?}");
    snapshot!(did[2]);
}

#[test]
fn one_too_many_is_refused_in_a_sentence_and_the_others_go_on() {
    let mut world = World::new(3, 2);
    world.run(Span::from_secs(2));
    let refused: Vec<_> =
        world.ends.iter().flat_map(|end| words(&end.did)).filter(|did| *did != "begin").collect();
    assert_eq!(refused.len(), 1, "{refused:?}");
    snapshot!(refused[0]);
    assert_eq!(world.answering.calls(), 2);
}

#[test]
fn failed_call_ends_others_continue() {
    let mut world = World::new(2, 2);
    world.run(Span::from_secs(2));
    world.answering.hang_up_at(1, &CallReason::new("no card"));
    world.answering.hang_up_at(9, &CallReason::new("there is no such place"));
    world.run(Span::from_secs(1));
    assert_eq!(words(&world.did), ["begin 0", "begin 1", "end 1: no card"]);
    assert_eq!(words(&world.ends[0].did), ["begin"]);
    let over = CallOver::Ended(CallReason::new("no card"));
    assert_eq!(world.ends[1].did.last().map(|(_, did)| did.clone()), Some(format!("{over:?}")));
}

#[test]
fn hanging_up_ends_the_call_at_both_ends() {
    let mut world = World::new(1, 1);
    world.run(Span::from_secs(2));
    world.ends[0].caller.hang_up(CallReason::new("good night"));
    world.run(Span::from_secs(1));
    assert_eq!(words(&world.ends[0].did), ["begin", "HungUp"]);
    assert_eq!(words(&world.did), ["begin 0", "end 0: good night"]);

    let mut world = World::new(1, 1);
    world.run(Span::from_secs(2));
    world.answering.hang_up(&CallReason::new("closing time"));
    world.run(Span::from_secs(1));
    assert_eq!(words(&world.did), ["begin 0", "end 0: closing time"]);
    let over = CallOver::Ended(CallReason::new("closing time"));
    assert_eq!(world.ends[0].did.last().map(|(_, did)| did.clone()), Some(format!("{over:?}")));
}

#[test]
fn terms_change_mid_call_and_rejected_changes_keep_the_old() {
    let mut world = World::new(1, 1);
    world.run(Span::from_secs(2));
    let terms = world.ends[0].caller.call().unwrap().terms.clone();
    let mut longer = terms.clone();
    longer.there.ptime = Span::from_millis(5);
    world.ends[0].caller.change(longer.clone()).unwrap();
    world.run(Span::from_secs(1));
    assert_eq!(words(&world.ends[0].did), ["begin", "change to 5ms"]);
    assert_eq!(words(&world.did), ["begin 0", "change 0 to 5ms"]);
    let mut other_rate = longer;
    other_rate.back.rate = Rate::HZ_44100;
    world.ends[0].caller.change(other_rate).unwrap();
    world.run(Span::from_secs(1));
    snapshot!(words(&world.ends[0].did).last().unwrap());
    assert_eq!(world.did.len(), 2, "nothing changed there");
}

#[test]
fn request_without_a_line_is_sent_when_the_call_resumes() {
    let mut world = World::new(1, 1);
    world.run(Span::from_secs(2));
    world.cut();
    world.run(LINE_DEAD + Span::from_secs(1));
    let mut longer = world.ends[0].caller.call().unwrap().terms.clone();
    longer.there.ptime = Span::from_millis(5);
    world.ends[0].caller.change(longer).unwrap();
    assert_eq!(words(&world.ends[0].did), ["begin", "away"]);
    world.up = true;
    world.run(Span::from_secs(30));
    let did = words(&world.ends[0].did);
    assert_eq!(did, ["begin", "away", "resumed", "again 5ms", "change to 5ms"]);
}

#[test]
fn request_lost_with_its_line_is_retried_once() {
    let mut world = World::new(1, 1);
    world.run(Span::from_secs(2));
    let terms = world.ends[0].caller.call().unwrap().terms.clone();
    let longer = CallTerms {
        there: StreamTerms { ptime: Span::from_millis(5), ..terms.there },
        ..terms.clone()
    };
    for lost in ["again 5ms", "dropped 5ms"] {
        if lost == "again 5ms" {
            world.ends[0].caller.change(longer.clone()).unwrap();
        }
        world.turn();
        world.cut();
        world.run(LINE_DEAD + Span::from_secs(1));
        world.up = true;
        // No message has arrived on the new line yet.
        while world.ends[0].did.last().is_none_or(|(_, word)| word != lost) {
            world.run(BEAT);
            assert!(world.millis() < 60_000, "{:?}", world.ends[0].did);
        }
    }
    assert_eq!(world.ends[0].caller.requested(), None);
    world.run(Span::from_secs(30));
    let did = words(&world.ends[0].did);
    assert_eq!(did, ["begin", "away", "resumed", "again 5ms", "away", "resumed", "dropped 5ms"]);
    assert_eq!(world.ends[0].caller.call().unwrap().terms, terms);
    world.ends[0].caller.change(longer).unwrap();
    world.run(Span::from_secs(1));
    assert_eq!(words(&world.ends[0].did).last(), Some(&"change to 5ms"));
}

#[test]
fn terms_without_packets_are_not_requested() {
    let mut world = World::new(1, 1);
    world.run(Span::from_secs(2));
    let caller = &mut world.ends[0].caller;
    let terms = caller.call().unwrap().terms.clone();
    let there = StreamTerms { coding: Coding::OPUS, ..terms.there };
    let refused = caller.change(CallTerms { there, ..terms });
    assert!(matches!(refused, Err(NotAsked::NoPackets(_))), "{refused:?}");
    assert_eq!(caller.requested(), None);
    assert_eq!(caller.step(), None);
}

#[test]
fn caller_learns_that_it_is_not_received_if_supported() {
    let mut world = World::new(1, 1);
    world.run(Span::from_secs(2));
    world.answering.not_received(0, 3);
    world.answering.not_received(7, 3);
    world.run(Span::from_secs(1));
    assert_eq!(words(&world.ends[0].did), ["begin", "unheard by 3"]);
    let (mut answering, now) = by_hand();
    let call = CallMessage::Call { version: 3, offer: offer(), resumes: None };
    answering.handle_message(ConnectionId(1), call, CallId([1; 16]), now);
    steps(&mut answering);
    answering.not_received(0, 0);
    assert_eq!(steps(&mut answering), [], "its version has no such message");
}

fn by_hand() -> (Answering, LocalTime) {
    let mut answering = Answering::new(offer(), vec![7_000]);
    let now = LocalTime::ZERO + Span::from_secs(1);
    answering.arrived(ConnectionId(1), [1; 32], now);
    (answering, now)
}

fn steps(answering: &mut Answering) -> Vec<AnsweringStep> {
    core::iter::from_fn(|| answering.step()).collect()
}

#[test]
fn flooding_caller_is_closed_others_continue() {
    let (mut answering, now) = by_hand();
    let call = CallMessage::Call { version: CALL_VERSION, offer: offer(), resumes: None };
    answering.handle_message(ConnectionId(1), call, CallId([1; 16]), now);
    steps(&mut answering);
    for _ in 0..1_000 {
        answering.handle_message(ConnectionId(1), CallMessage::Ping, CallId([2; 16]), now);
    }
    let steps = steps(&mut answering);
    let pongs = steps
        .iter()
        .filter(|step| matches!(step, AnsweringStep::Say(_, CallMessage::Pong)))
        .count();
    assert_eq!(pongs, 31, "the maximum burst, minus the call itself");
    assert!(steps.contains(&AnsweringStep::Close(ConnectionId(1))));
    assert!(steps.len() < 40, "nothing grows: {}", steps.len());
}

#[test]
fn silent_caller_is_sent_nothing_until_it_is_heard() {
    let (mut answering, now) = by_hand();
    let at = |millis| now + Span::from_millis(millis);
    let call = CallMessage::Call { version: CALL_VERSION, offer: offer(), resumes: None };
    answering.handle_message(ConnectionId(1), call, CallId([1; 16]), now);
    let sends = |answering: &mut Answering, millis| -> Vec<bool> {
        answering.poll(at(millis));
        let steps = steps(answering).into_iter();
        steps
            .filter_map(|step| match step {
                AnsweringStep::Send { place: 0, sends } => Some(sends),
                _ => None,
            })
            .collect()
    };
    // Packets, then only messages, then nothing; the line is dead after 4 s.
    answering.received(0, 1, at(3_000));
    answering.handle_message(ConnectionId(1), CallMessage::Ping, CallId([2; 16]), at(6_000));
    assert_eq!(sends(&mut answering, 7_999), []);
    answering.received(0, 2, at(8_000));
    assert_eq!(sends(&mut answering, 12_999), []);
    assert_eq!(answering.deadline(), at(13_000));
    assert_eq!(sends(&mut answering, 13_000), [false]);
    assert_eq!(sends(&mut answering, 30_000), [], "once");
    answering.received(0, 3, at(30_100));
    assert_eq!(sends(&mut answering, 30_100), [true]);
}

#[test]
fn silent_connection_is_closed() {
    let (mut answering, now) = by_hand();
    answering.poll(now + Span::from_millis(4_900));
    assert_eq!(steps(&mut answering), []);
    answering.handle_message(
        ConnectionId(1),
        CallMessage::Ping,
        CallId([2; 16]),
        now + Span::from_millis(4_900),
    );
    answering.poll(now + Span::from_millis(5_000));
    assert!(steps(&mut answering).contains(&AnsweringStep::Close(ConnectionId(1))));
}

#[test]
fn an_id_without_the_key_that_began_the_call_resumes_nothing() {
    let (mut answering, now) = by_hand();
    let call = |resumes| CallMessage::Call { version: CALL_VERSION, offer: offer(), resumes };
    answering.handle_message(ConnectionId(1), call(None), CallId([9; 16]), now);
    steps(&mut answering);
    answering.arrived(ConnectionId(2), [2; 32], now);
    answering.handle_message(ConnectionId(2), call(Some(CallId([9; 16]))), CallId([3; 16]), now);
    let answer = steps(&mut answering);
    assert!(
        matches!(answer[0], AnsweringStep::Say(ConnectionId(2), CallMessage::Refused(_))),
        "{answer:?}"
    );
    assert_eq!(answering.calls(), 1, "the other caller's call continues");
}

#[test]
fn a_latency_that_the_devices_do_not_keep_is_taken_by_no_change() {
    let ms = Span::from_millis;
    let takes = |takes: Span| {
        let mut offer = offer();
        (offer.there.takes, offer.back.takes) = (Some(takes), Some(takes));
        offer
    };
    let mut answering = Answering::new(takes(ms(20)), vec![7_000]);
    let now = LocalTime::ZERO + Span::from_secs(1);
    answering.arrived(ConnectionId(1), [1; 32], now);
    let offer = CallOffer { latency: Some(CallLatency::Kept(ms(5))), ..takes(ms(5)) };
    let mut said = |message| {
        answering.handle_message(ConnectionId(1), message, CallId([1; 16]), now);
        let said = steps(&mut answering).into_iter().find_map(|step| match step {
            AnsweringStep::Say(_, message) => Some(message),
            _ => None,
        });
        said.expect("an answer")
    };
    let answer = said(CallMessage::Call { version: CALL_VERSION, offer, resumes: None });
    let CallMessage::Accepted { terms, .. } = answer else { panic!("{answer:?}") };
    // 1 ms packets of 5 ms periods are 5 ms old and play 20 ms later; 1 ms for the path.
    assert_eq!(terms.latency, CallLatency::Kept(ms(26)));
    let less = CallTerms { latency: CallLatency::Kept(ms(25)), ..terms.clone() };
    let answer = said(CallMessage::Change(less));
    let CallMessage::Kept(why) = &answer else { panic!("{answer:?}") };
    snapshot!(why.as_str());
    // Initial latency plus a sixteenth of a second.
    let room = ms(26) + Span::from_micros(62_500);
    let maximum = CallTerms { latency: CallLatency::Kept(room), ..terms.clone() };
    assert_eq!(said(CallMessage::Change(maximum.clone())), CallMessage::Changed(maximum));
    for beyond in [CallLatency::Kept(ms(89)), CallLatency::Auto { maximum: ms(300) }] {
        let beyond = CallTerms { latency: beyond, ..terms.clone() };
        let answer = said(CallMessage::Change(beyond));
        let CallMessage::Kept(why) = &answer else { panic!("{answer:?}") };
        snapshot!(why.as_str());
    }
    let usual = CallTerms { latency: CallLatency::AUTO, ..terms.clone() };
    assert_eq!(said(CallMessage::Change(usual.clone())), CallMessage::Changed(usual));
    let more = CallTerms { latency: CallLatency::Kept(ms(30)), ..terms };
    assert_eq!(said(CallMessage::Change(more.clone())), CallMessage::Changed(more));
}

#[test]
fn other_version_is_refused_with_a_hint() {
    let (mut answering, now) = by_hand();
    let call = CallMessage::Call { version: CALL_VERSION + 1, offer: offer(), resumes: None };
    answering.handle_message(ConnectionId(1), call, CallId([1; 16]), now);
    let AnsweringStep::Say(_, CallMessage::Refused(why)) = &steps(&mut answering)[0] else {
        panic!()
    };
    snapshot!(why.as_str());
}

#[test]
fn a_caller_hangs_up_on_an_answer_that_was_not_offered() {
    let now = LocalTime::ZERO + Span::from_secs(1);
    let mut caller = CallerEnd::new(offer(), now);
    caller.poll(now);
    caller.connected(CALL_VERSION, now);
    let mut terms = offer().choose(&offer()).expect("the same");
    terms.there.rate = Rate::new(96_000).expect("it is a rate");
    let (call, udp_port) = (CallId([1; 16]), 7_000);
    caller.handle_message(CallMessage::Accepted { call, terms, udp_port }, now);
    let steps: Vec<_> = core::iter::from_fn(|| caller.step()).collect();
    assert!(matches!(steps.last(), Some(CallerStep::Over(CallOver::Refused(_)))), "{steps:?}");
    assert!(!steps.iter().any(|step| matches!(step, CallerStep::Begin(_))));
}

#[test]
fn resumed_call_offers_only_its_running_device_settings() {
    let now = LocalTime::ZERO + Span::from_secs(1);
    let of = |rates: &[u32]| {
        let mut offer = offer();
        for stream in [&mut offer.there, &mut offer.back] {
            stream.rates = rates.iter().map(|hertz| Rate::new(*hertz).expect("a rate")).collect();
        }
        offer
    };
    let steps = |caller: &mut CallerEnd| core::iter::from_fn(|| caller.step()).collect::<Vec<_>>();
    let offered = |caller: &mut CallerEnd, now| {
        caller.poll(now);
        caller.connected(CALL_VERSION, now);
        steps(caller).into_iter().find_map(|step| match step {
            CallerStep::Say(CallMessage::Call { offer, .. }) => Some(offer.there.rates),
            _ => None,
        })
    };
    let (wide, run) = (of(&[48_000, 44_100, 16_000]), of(&[44_100]));
    let mut caller = CallerEnd::new(wide.clone(), now);
    assert_eq!(offered(&mut caller, now), Some(wide.there.rates.clone()));
    let accepted = |call, offer: &CallOffer| {
        let terms = wide.choose(offer).expect("a common rate");
        CallMessage::Accepted { call: CallId([call; 16]), terms, udp_port: 7_000 }
    };
    caller.handle_message(accepted(1, &run), now);
    assert!(steps(&mut caller).iter().any(|step| matches!(step, CallerStep::Begin(_))));
    caller.offers(run.clone());
    caller.line_lost(now);
    let now = now + Span::from_secs(1);
    assert_eq!(offered(&mut caller, now), Some(run.there.rates));
    caller.handle_message(accepted(2, &of(&[16_000])), now);
    let steps = steps(&mut caller);
    assert!(matches!(steps.last(), Some(CallerStep::Over(CallOver::Refused(_)))), "{steps:?}");
}

#[test]
fn line_cut_before_an_answer_is_dialled_again_for_half_a_minute() {
    for connects in [false, true] {
        let now = LocalTime::ZERO;
        let (mut caller, mut at, mut dials) = (CallerEnd::new(offer(), now), now, Vec::new());
        let over = loop {
            caller.poll(at);
            match caller.step() {
                Some(CallerStep::Dial) => {
                    dials.push((at - now).as_nanos() / 1_000_000);
                    if connects {
                        caller.connected(CALL_VERSION, at);
                    }
                    caller.cut_off(at);
                }
                Some(CallerStep::Say(CallMessage::Call { .. })) => {}
                Some(step) => break step,
                None => at = caller.deadline(),
            }
        };
        assert_eq!(dials[..6], [0, 250, 750, 1_750, 3_750, 5_750], "{connects}");
        assert_eq!((dials.len(), dials[16]), (17, 27_750), "{connects}");
        assert_eq!(over, CallerStep::Over(CallOver::NotReached), "{connects}");
    }
}

fn dialled(caller: &mut CallerEnd, now: LocalTime) -> CallOffer {
    caller.poll(now);
    loop {
        match caller.step() {
            Some(CallerStep::Dial) => caller.connected(CALL_VERSION, now),
            Some(CallerStep::Say(CallMessage::Call { offer, .. })) => break offer,
            step => assert!(step.is_some(), "nothing is offered"),
        }
    }
}

#[test]
fn adaptive_coding_persists_in_the_next_call() {
    let now = LocalTime::ZERO;
    let mut caller = CallerEnd::new(offer(), now);
    let first = dialled(&mut caller, now);
    assert_eq!(first.adapts, None);
    let terms = offer().choose(&first).unwrap();
    let agreed = CallMessage::Accepted { call: CallId([1; 16]), terms, udp_port: 7_000 };
    caller.handle_message(agreed.clone(), now);
    let codings = vec![SampleFormat::L24.into(), Coding::OPUS];
    let adapts = Some(CallAdaptation { codings, ..CallAdaptation::default() });
    let CallMessage::Accepted { terms, .. } = agreed else { unreachable!() };
    caller.handle_message(CallMessage::Changed(CallTerms { adapts: adapts.clone(), ..terms }), now);
    caller.line_lost(now);
    let at = caller.deadline();
    let next = dialled(&mut caller, at);
    assert_eq!(next.adapts, adapts);
    assert_eq!(next.there.codings.first(), Some(&Coding::OPUS));
    assert_eq!(next.back.codings.first(), Some(&Coding::OPUS));
}
