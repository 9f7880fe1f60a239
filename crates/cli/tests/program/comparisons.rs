//! Two reports against each other: what became worse on the way is found though the latency is the same, and
//! the exit status says so.

use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tautline_trial::snapshot;

use serde_json::Value;

use crate::common::program::{Call, Ended, Running, taut, words};
use crate::common::{Folder, executable, free_udp_ports, shared};

/// The program itself, as the agent's script runs it.
const TAUT: &str = env!("CARGO_BIN_EXE_taut");

/// A run of `stages` with buffers that a busy host does not empty, to a host that this script is.
fn stages(folder: &Folder, name: &str, script: &str) -> Call {
    let programs = folder.file(name);
    std::fs::create_dir(&programs).unwrap();
    executable(&programs.join("ssh"), &format!("#!/bin/sh\n{script}\n"));
    let path = std::env::var("PATH").unwrap_or_default();
    let line = format!(
        "lab stages --with ssh:x --at 127.0.0.1 --settle 1s --duration 10s --latency 400ms --period 240 \
         --report none --report-file {name}.json"
    );
    taut(words(&line))
        .in_folder(folder.path())
        .with("PATH", format!("{}:{path}", programs.display()))
}

fn compare(folder: &Folder, line: &str) -> Ended {
    taut(words("lab compare")).and(words(line)).in_folder(folder.path()).run()
}

/// The one row's figure of this part and key.
fn figure<'a>(compared: &'a Value, part: &str, key: &str) -> &'a Value {
    let figures = compared["rows"][0]["figures"].as_array().unwrap();
    let is = |one: &&Value| one["part"].as_str().unwrap_or("") == part && one["key"] == key;
    figures.iter().find(is).unwrap_or_else(|| panic!("no {part} {key} in {compared:#}"))
}

/// Packets of sound take so long more from here to there; control packets go both ways at once, with the clock
/// that both ends share, which `taut lab impair` hides: a network that is slower in one direction alone is seen
/// only by one clock.
struct SlowNetwork {
    from: u16,
    to: u16,
    threads: Vec<JoinHandle<()>>,
}

impl SlowNetwork {
    fn of(delay: Duration) -> Self {
        let (from, to) = (free_udp_ports(), free_udp_ports());
        let (sound, control) = (bound(from), bound(from + 1));
        let (entered, waiting) = mpsc::channel::<(Instant, Vec<u8>)>();
        let out = sound.try_clone().unwrap();
        let threads = vec![
            thread::spawn(move || {
                datagrams(&sound, |datagram, _| {
                    entered.send((Instant::now(), datagram.to_vec())).unwrap();
                });
            }),
            thread::spawn(move || {
                for (entered, datagram) in waiting {
                    thread::sleep((entered + delay).saturating_duration_since(Instant::now()));
                    // Before the receiver is there nobody hears it.
                    let _ = out.send_to(&datagram, local(to));
                }
            }),
            thread::spawn(move || {
                let mut sender = None;
                datagrams(&control, |datagram, source| {
                    let there = if source == local(to + 1) {
                        sender
                    } else {
                        sender = Some(source);
                        Some(local(to + 1))
                    };
                    let _ = there.map(|there| control.send_to(datagram, there));
                });
            }),
        ];
        Self { from, to, threads }
    }
}

impl Drop for SlowNetwork {
    fn drop(&mut self) {
        let end = UdpSocket::bind(local(0)).unwrap();
        for port in [self.from, self.from + 1] {
            end.send_to(&[], local(port)).unwrap();
        }
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
    }
}

fn local(port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)
}

fn bound(port: u16) -> UdpSocket {
    UdpSocket::bind(local(port)).unwrap()
}

/// Until an empty one. That nobody listens where one was sent is told by the next call, and no end.
fn datagrams(socket: &UdpSocket, mut each: impl FnMut(&[u8], SocketAddrV4)) {
    let mut room = [0; 2048];
    loop {
        match socket.recv_from(&mut room) {
            Ok((0, _)) => return,
            Ok((length, std::net::SocketAddr::V4(source))) => each(&room[..length], source),
            Ok(_) | Err(_) => {}
        }
    }
}

#[test]
fn a_slower_network_is_a_regression_though_the_latency_is_the_same_and_two_of_the_same_are_none() {
    shared(|| {
        let folder = Folder::new();
        let straight = format!("exec {TAUT} lab agent");
        // The sender is told another UDP port, at which a slow network begins, and the receiver where it ends.
        let slow = SlowNetwork::of(Duration::from_millis(20));
        let (from, to) = (slow.from, slow.to);
        let script = format!(
            "sed -u 's/:{from}/:{to}/g' | {TAUT} lab agent | sed -u 's/\"ports\":[0-9]*/\"ports\":{from}/'"
        );
        // All at once, so that what the host does meanwhile is done to all of them.
        let runs = [("one", &straight), ("other", &straight), ("slower", &script)]
            .map(|(name, script)| stages(&folder, name, script).start());
        runs.into_iter().map(Running::end).for_each(|ended| drop(ended.well()));
        drop(slow);

        let same = compare(&folder, "one.json one.json");
        assert_eq!(same.status, Some(0), "{same:#?}");
        assert!(same.out.lines().last().unwrap().starts_with("verdict: "), "{same:#?}");
        // What a busy host makes either of two runs miss is more than noise, and no time that is longer.
        let other = compare(&folder, "one.json other.json --threshold 10ms --report json");
        let other: Value = serde_json::from_str(&other.out).unwrap();
        let figures = other["rows"][0]["figures"].as_array().unwrap();
        let times: Vec<_> =
            figures.iter().filter(|figure| figure["threshold_ns"].is_number()).collect();
        let judged = times.iter().filter(|time| time["verdict"] == "none").count();
        let differ = |time: &&&Value| time["verdict"] == "less" || time["verdict"] == "more";
        assert_eq!(times.iter().find(differ), None, "{other:#}");
        assert!(judged > 10, "{other:#}");

        let slower = compare(&folder, "one.json slower.json --threshold 10ms --report json");
        assert_eq!(slower.status, Some(1), "{slower:#?}");
        let why = "slower.json is worse than one.json: 400ms in packets of 1ms: ";
        assert!(slower.said[0].contains(why) && slower.said[0].contains("wire p50"), "{slower:#?}");
        let compared: Value = serde_json::from_str(&slower.out).unwrap();
        assert_eq!(compared["outcome"], "worse", "{compared:#}");
        let wire = figure(&compared, "wire", "p50_ns");
        assert_eq!(wire["verdict"], "more", "{wire:#}");
        let [from, to] = [0, 1].map(|at| wire["interval"][at].as_f64().unwrap());
        // Handing on takes a moment more.
        assert!(from > 15_000_000.0 && to < 40_000_000.0, "{wire:#}");
        assert_eq!(figure(&compared, "", "p50_ns")["verdict"], "none", "{compared:#}");
        // Each stage is listed, whether it is judged or not.
        let stages = compared["rows"][0]["stages"].as_array().unwrap();
        let wire = stages.iter().find(|stage| stage["name"] == "wire").unwrap();
        assert!(wire["difference_ns"].as_i64() > Some(15_000_000), "{wire:#}");
        // The buffer is what is left, and that is no reason.
        assert_eq!(figure(&compared, "buffer", "p50_ns")["verdict"], "follows", "{compared:#}");
    });
}

#[test]
fn a_file_that_is_no_report_is_wrong_usage_and_told_in_one_sentence() {
    let folder = Folder::new();
    let file = |name: &str, bytes: &[u8]| std::fs::write(folder.file(name), bytes).unwrap();
    file("sound.wav", b"RIFF\xff\xff\xff\xffWAVEfmt ");
    file("nothing.json", b"");
    file("half.json", b"{ \"schema\": 1, \"experiment\": \"sta");
    std::fs::create_dir(folder.file("folder")).unwrap();
    for (name, status) in [
        ("sound.wav", 2),
        ("nothing.json", 2),
        ("half.json", 2),
        ("folder", 2),
        ("missing.json", 3),
    ] {
        let refused = compare(&folder, &format!("{name} {name}"));
        assert_eq!(refused.status, Some(status), "{refused:#?}");
        snapshot!(format!("{name:?} {status:?}"), refused.said[0]);
        assert_eq!((refused.said.len(), refused.out.as_str()), (1, ""), "{refused:#?}");
    }
}

#[test]
fn what_cannot_all_be_compared_ends_with_a_status_of_its_own() {
    let folder = Folder::new();
    let second = |at: u32| {
        format!(
            "{{\"at_ns\": {at}, \"count\": 9, \"min_ns\": 1, \"p50_ns\": 1, \"p99_ns\": 1, \"max_ns\": 1}}"
        )
    };
    let report = |seconds: u32| {
        let seconds: Vec<_> = (0..seconds).map(second).collect();
        format!(
            "{{\"schema\": 1, \"experiment\": \"delay\", \"rows\": [{{\"name\": \"a\", \"intervals\": [{}], \
             \"missed\": {{\"due\": 9, \"missed\": 0, \"at_most\": 0.3}}}}]}}",
            seconds.join(", ")
        )
    };
    std::fs::write(folder.file("long.json"), report(8)).unwrap();
    std::fs::write(folder.file("short.json"), report(7)).unwrap();
    assert_eq!(compare(&folder, "long.json long.json").status, Some(0));
    let open = compare(&folder, "long.json short.json");
    assert_eq!(open.status, Some(5), "{open:#?}");
    assert!(open.out.lines().last().unwrap().starts_with("verdict: UNDECIDED: "), "{open:#?}");
    snapshot!(open.said[0]);
    // The help says so.
    let help = taut(words("lab compare --help")).run().well().out;
    assert!(help.lines().any(|line| line.contains("5 if ")), "{help}");
}
