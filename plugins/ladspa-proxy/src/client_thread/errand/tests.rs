use tautline_trial::snapshot;

use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Sender, channel};

use tautline_api::v1::StreamRequest;
use tautline_engine::offload::offloaded::{Far, Offloaded, OffloadedConfig};
use tautline_engine::offload::sound_set::SoundSet;
use tautline_io::clock::now;
use tautline_io::link::direct::DirectLink;
use tautline_io::udp::UdpOptions;
use tautline_proto::units::Rate;

use super::*;

const SET: SoundSet = SoundSet {
    inputs: 1,
    outputs: 1,
    controls_in: 0,
    controls_out: 0,
    max_frames: 64,
    onward: 0,
    earlier: 0,
};

#[derive(Default)]
struct Script {
    openings: VecDeque<Opening>,
    lives: VecDeque<Alive>,
    requested: Vec<&'static str>,
}

impl WorkerCalls for Script {
    fn open(&mut self, _order: &StreamOrder) -> Opening {
        self.requested.push("open");
        self.openings.pop_front().expect("an opening in the script")
    }

    fn look(&mut self, _id: u32) -> Alive {
        self.requested.push("look");
        self.lives.pop_front().expect("a life in the script")
    }

    fn close(&mut self, _id: u32) {
        self.requested.push("close");
    }
}

fn order() -> StreamOrder {
    let request = StreamRequest { history: 64, ..StreamRequest::of("a:b", 48_000, 64) };
    StreamOrder { request, ports: [1, 1, 0, 0], behind: Vec::new() }
}

fn errand() -> (Offloaded, Arc<ClientStanding>, StreamErrand) {
    let (offloaded, attendant) =
        Offloaded::new(OffloadedConfig::new(SET, Rate::HZ_48000, 1)).unwrap();
    let standing = Arc::new(ClientStanding::new(attendant));
    standing.set_seen_to(Which::Worker);
    let errand = StreamErrand::new(Which::Worker, order(), Arc::clone(&standing));
    (offloaded, standing, errand)
}

fn opened(id: u32) -> Opening {
    let nowhere = UdpOptions::sender(vec!["127.0.0.1:9".parse().unwrap()]);
    let link = Box::new(DirectLink::open(&nowhere).unwrap());
    Opening::Opened { id, far: Far::new(link, id) }
}

fn at(millis: i64) -> LocalTime {
    LocalTime::ZERO + Span::from_secs(1) + Span::from_millis(millis)
}

fn see_to(errand: &mut StreamErrand, script: &mut Script, millis: core::ops::Range<i64>) -> bool {
    millis.step_by(20).all(|millis| errand.see_to(script, at(millis), &mut false))
}

#[test]
fn absent_worker_is_retried_often_refusing_one_rarely() {
    let (_offloaded, standing, mut errand) = errand();
    let away = || Opening::Away("the worker is absent".into());
    let mut script = Script { openings: (0..20).map(|_| away()).collect(), ..Script::default() };
    see_to(&mut errand, &mut script, 0..400);
    assert_eq!(script.requested.len(), 20);
    assert_eq!(standing.notes(), ["the worker is absent"], "once");
    script.openings = [Opening::Refused("it has gone".into()), opened(1)].into();
    script.requested.clear();
    see_to(&mut errand, &mut script, 400..1400);
    assert_eq!(script.requested, ["open"]);
    see_to(&mut errand, &mut script, 1400..1500);
    assert_eq!((script.requested, standing.opened(Which::Worker)), (vec!["open"; 2], 1));
}

fn answer(mut stream: TcpStream, slow: &str, held: &Sender<TcpStream>) {
    let (mut text, mut room) = (Vec::new(), [0; 4096]);
    while !text.ends_with(b"}") {
        match stream.read(&mut room) {
            Ok(len @ 1..) => text.extend_from_slice(&room[..len]),
            _ => return,
        }
    }
    if String::from_utf8_lossy(&text).contains(slow) {
        let _ = held.send(stream);
        return;
    }
    let body = r#"{"error":"there is none"}"#;
    let head = "HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length";
    let _ = write!(stream, "{head}: {}\r\n\r\n{body}", body.len());
}

#[test]
fn a_plugin_that_is_long_in_opening_holds_up_no_other() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (hold, held) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let hold = hold.clone();
            std::thread::spawn(move || answer(stream, "slow:one", &hold));
        }
    });
    let of = |plugin: &str| {
        let (offloaded, standing, mut errand) = errand();
        errand.order.request.plugin = plugin.into();
        crate::client_thread::leave(&address, errand);
        (offloaded, standing)
    };
    let timeout = core::time::Duration::from_secs(10);
    let (_first, slow) = of("slow:one");
    let requested = held.recv_timeout(timeout).unwrap();
    let (_second, quick) = of("quick:one");
    quick.await_tried(timeout);
    assert!(!quick.notes().is_empty(), "it was not asked for");
    assert!(slow.notes().is_empty(), "{:?}", slow.notes());
    drop(requested);
    slow.end();
    quick.end();
}

#[test]
fn client_threads_of_an_absent_worker_share_one_retry() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (notify, tried) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            drop(stream);
            let _ = notify.send(now());
        }
    });
    let of = |plugin: usize| {
        let (offloaded, standing, mut errand) = errand();
        errand.order.request.plugin = format!("a:{plugin}");
        crate::client_thread::leave(&address, errand);
        (offloaded, standing)
    };
    let all: Vec<_> = (0..20).map(of).collect();
    let attempts: Vec<LocalTime> = tried.iter().take(60).collect();
    all.iter().for_each(|(_, standing)| standing.end());
    // Each thread may have tried once.
    let rest = &attempts[20..];
    let spent = rest[rest.len() - 1] - rest[0];
    assert!(spent > Span::from_millis(150), "{spent} for {} attempts", rest.len());
}

#[test]
fn notes_are_reported_once_and_the_last_one_always() {
    let (_offloaded, standing, _errand) = errand();
    for _ in 0..100 {
        standing.emit("the worker is away".into());
        standing.emit("the spare is away".into());
    }
    assert_eq!(standing.notes(), ["the worker is away", "the spare is away"]);
    (0..100).for_each(|n| standing.emit(n.to_string()));
    let many = standing.notes().len();
    assert!(many < 100, "{many}");
    standing.conclude("3 frames are not the plugin's".into());
    snapshot!(standing.notes().last().unwrap());
}

#[test]
fn failed_address_is_not_tried_again() {
    let (_offloaded, standing, mut errand) = errand();
    let mut script = Script::default();
    assert!(errand.see_to(&mut script, at(0), &mut true));
    assert!(script.requested.is_empty());
    standing.await_tried(core::time::Duration::MAX);
}

#[test]
fn closed_stream_is_reopened() {
    let (_offloaded, standing, mut errand) = errand();
    let mut script = Script { openings: [opened(1), opened(2)].into(), ..Script::default() };
    script.lives = [Alive::No].into();
    see_to(&mut errand, &mut script, 0..20);
    // A host that does not run expects no answers.
    see_to(&mut errand, &mut script, 20..1000);
    assert_eq!(script.requested, ["open"]);
    for look in 50..57 {
        standing.begin_run();
        standing.end_run();
        see_to(&mut errand, &mut script, 20 * look..20 * look + 1);
    }
    assert_eq!(script.requested, ["open", "look", "open"]);
}

#[test]
fn failed_stream_is_reported_and_reopened_after_1_s() {
    let (_offloaded, standing, mut errand) = errand();
    let mut script = Script { openings: [opened(1), opened(2)].into(), ..Script::default() };
    script.lives = [Alive::Abandoned("it crashed".into())].into();
    see_to(&mut errand, &mut script, 0..20);
    standing.begin_run();
    see_to(&mut errand, &mut script, 20..100);
    assert_eq!(
        (script.requested.clone(), standing.notes()),
        (vec!["open", "look", "close"], vec!["it crashed".into()])
    );
    see_to(&mut errand, &mut script, 1000..1080);
    assert_eq!(script.requested, ["open", "look", "close", "open"]);
}

#[test]
fn first_differing_frame_is_reported_once() {
    let (_offloaded, standing, mut errand) = errand();
    let mut script = Script { openings: [opened(1)].into(), ..Script::default() };
    standing.tell_difference(0);
    see_to(&mut errand, &mut script, 0..100);
    assert_eq!(standing.notes().len(), 1);
    snapshot!(standing.notes()[0]);
}

#[test]
fn blocks_longer_than_the_delay_are_reported_once() {
    let (_offloaded, standing, mut errand) = errand();
    let mut script = Script { openings: [opened(1)].into(), ..Script::default() };
    for look in 0..5 {
        standing.tell_short(512);
        see_to(&mut errand, &mut script, 20 * look..20 * look + 1);
        standing.emit(format!("something else, {look}"));
    }
    let short = standing.notes().iter().filter(|said| said.contains("have 512 frames")).count();
    assert_eq!(short, 1, "{:?}", standing.notes());
}

#[test]
fn lost_and_returned_worker_is_reported_with_frames() {
    let (_offloaded, _standing, errand) = errand();
    let errand = errand.at("studio:17230");
    let silent = Span::from_millis(2012);
    snapshot!(errand.silence_sentence(SilenceNews::Lost(silent)));
    snapshot!(errand.silence_sentence(SilenceNews::Back { silent, replaced: 96_576 }));
    snapshot!(late_sentence("studio:17230", 256));
}

#[test]
fn a_worker_that_is_stopped_keeps_its_stream() {
    let (_offloaded, standing, mut errand) = errand();
    let mut script = Script { openings: [opened(1)].into(), ..Script::default() };
    script.lives = [Alive::Unknown, Alive::Yes].into();
    see_to(&mut errand, &mut script, 0..20);
    standing.begin_run();
    see_to(&mut errand, &mut script, 20..120);
    assert_eq!(script.requested, ["open", "look", "look"]);
    assert_eq!(standing.opened(Which::Worker), 1);
}

#[test]
fn finished_stream_is_closed_once() {
    let (_offloaded, standing, mut errand) = errand();
    let mut script = Script { openings: [opened(1)].into(), ..Script::default() };
    see_to(&mut errand, &mut script, 0..20);
    standing.end();
    assert!(!errand.see_to(&mut script, at(20), &mut false));
    assert_eq!(script.requested, ["open", "close"]);
    standing.await_closed(core::time::Duration::MAX);
}
