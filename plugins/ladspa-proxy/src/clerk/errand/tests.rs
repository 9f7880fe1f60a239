use std::collections::VecDeque;

use tautline_api::v1::{DescribedOrder, VERSION};
use tautline_engine::offload::offloaded::{Far, Offloaded, OffloadedConfig};
use tautline_io::link::direct::DirectLink;
use tautline_io::udp::UdpOptions;
use tautline_proto::units::Rate;

use super::*;

const SET: SoundSet =
    SoundSet { inputs: 1, outputs: 1, controls_in: 0, controls_out: 0, most_frames: 64 };

/// A worker by script: what it answers, and what it was asked.
#[derive(Default)]
struct Script {
    openings: VecDeque<Opening>,
    lives: VecDeque<Alive>,
    asked: Vec<&'static str>,
}

impl WorkerCalls for Script {
    fn open(&mut self, _request: &StreamRequest, _set: SoundSet) -> Opening {
        self.asked.push("open");
        self.openings.pop_front().expect("an opening in the script")
    }

    fn look(&mut self, _id: u32) -> Alive {
        self.asked.push("look");
        self.lives.pop_front().expect("a life in the script")
    }

    fn close(&mut self, _id: u32) {
        self.asked.push("close");
    }
}

fn request() -> StreamRequest {
    StreamRequest {
        version: VERSION,
        plugin: "a:b".into(),
        hash: None,
        rate: 48_000,
        most_frames: 64,
        byte_order: DescribedOrder::NATIVE,
        datagram_bytes: 1400,
        period_ns: None,
        history: 64,
        copies: 0,
        memory_frames: None,
        cleartext: false,
    }
}

/// An instance that never runs, and what a clerk does for it.
fn errand() -> (Offloaded, Arc<ClerkStanding>, StreamErrand) {
    let (offloaded, attendant) =
        Offloaded::new(OffloadedConfig::new(SET, Rate::HZ_48000, 1)).unwrap();
    let standing = Arc::new(ClerkStanding::new(attendant));
    standing.set_seen_to(Which::Worker);
    let errand = StreamErrand::new(Which::Worker, request(), SET, Arc::clone(&standing));
    (offloaded, standing, errand)
}

fn opened(id: u32) -> Opening {
    let nowhere = UdpOptions::sender(vec!["127.0.0.1:9".parse().unwrap()]);
    let link = Box::new(DirectLink::open(&nowhere).unwrap());
    Opening::Opened { id, far: Far { link, stream: id } }
}

fn at(millis: i64) -> LocalTime {
    LocalTime::ZERO + Span::from_secs(1) + Span::from_millis(millis)
}

/// Sees to it every 20 ms from then until then; whether there is more to do.
fn see_to(errand: &mut StreamErrand, script: &mut Script, millis: core::ops::Range<i64>) -> bool {
    millis.step_by(20).all(|millis| errand.see_to(script, at(millis), &mut false))
}

#[test]
fn a_worker_that_is_away_is_asked_often_and_one_that_refuses_seldom() {
    let (_offloaded, standing, mut errand) = errand();
    let away = || Opening::Away("nobody is there".into());
    let mut script = Script { openings: (0..20).map(|_| away()).collect(), ..Script::default() };
    see_to(&mut errand, &mut script, 0..400);
    assert_eq!(script.asked.len(), 10);
    assert_eq!(standing.said(), ["nobody is there"], "once");
    script.openings = [Opening::Refused("it has gone".into()), opened(1)].into();
    script.asked.clear();
    see_to(&mut errand, &mut script, 400..1400);
    assert_eq!(script.asked, ["open"]);
    see_to(&mut errand, &mut script, 1400..1500);
    assert_eq!((script.asked, standing.opened(Which::Worker)), (vec!["open"; 2], 1));
}

#[test]
fn what_one_errand_found_out_no_other_tries() {
    let (_offloaded, standing, mut errand) = errand();
    let mut script = Script::default();
    assert!(errand.see_to(&mut script, at(0), &mut true));
    assert!(script.asked.is_empty());
    // Whoever waits for the first attempt waits for no other.
    standing.await_tried(core::time::Duration::MAX);
}

#[test]
fn a_stream_that_is_not_there_any_more_is_opened_anew() {
    let (_offloaded, standing, mut errand) = errand();
    let mut script = Script { openings: [opened(1), opened(2)].into(), ..Script::default() };
    script.lives = [Alive::No].into();
    see_to(&mut errand, &mut script, 0..20);
    // A host that does not run expects no answers.
    see_to(&mut errand, &mut script, 20..1000);
    assert_eq!(script.asked, ["open"]);
    for look in 50..57 {
        standing.begin_run();
        standing.end_run();
        see_to(&mut errand, &mut script, 20 * look..20 * look + 1);
    }
    assert_eq!(script.asked, ["open", "look", "open"]);
}

#[test]
fn a_worker_that_is_stopped_keeps_its_stream() {
    let (_offloaded, standing, mut errand) = errand();
    let mut script = Script { openings: [opened(1)].into(), ..Script::default() };
    script.lives = [Alive::Unknown, Alive::Yes].into();
    see_to(&mut errand, &mut script, 0..20);
    // A render waits within one run.
    standing.begin_run();
    see_to(&mut errand, &mut script, 20..120);
    assert_eq!(script.asked, ["open", "look", "look"]);
    assert_eq!(standing.opened(Which::Worker), 1);
}

#[test]
fn what_is_over_is_closed_once() {
    let (_offloaded, standing, mut errand) = errand();
    let mut script = Script { openings: [opened(1)].into(), ..Script::default() };
    see_to(&mut errand, &mut script, 0..20);
    standing.end();
    assert!(!errand.see_to(&mut script, at(20), &mut false));
    assert_eq!(script.asked, ["open", "close"]);
    standing.await_closed(core::time::Duration::MAX);
}
