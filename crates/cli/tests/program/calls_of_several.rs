//! `taut serve` with several callers: each hears the others, but not itself.

use std::path::Path;

use crate::calls::CalledMachine;
use crate::common::host::alongside;
use crate::common::messages;
use crate::common::program::{Ended, Running, taut, words};
use crate::common::sound::{Shape, Sound};
use crate::common::{Folder, PATIENT, grows};

/// Amplitude of a tone in dBFS (Goertzel 1958). Tones with whole periods per second do not leak
/// into each other.
pub(crate) fn level(second: &[i32], hertz: f64) -> f64 {
    let turn = std::f64::consts::TAU * hertz / f64::from(Shape::STEREO_24.rate);
    let (mut one, mut before) = (0.0, 0.0);
    for sample in second.iter().step_by(2) {
        let next = f64::from(*sample) / f64::from(1 << 23) + 2.0 * turn.cos() * one - before;
        (before, one) = (one, next);
    }
    let power = one * one + before * before - 2.0 * turn.cos() * one * before;
    20.0 * (2.0 * power.max(0.0).sqrt() / (second.len() / 2) as f64).log10()
}

fn levels(path: &Path, tones: &[f64]) -> Vec<f64> {
    let sound = Sound::read(path);
    let seconds = || sound.samples.chunks_exact(96_000);
    let loudest =
        |tone: &f64| seconds().map(|second| level(second, *tone)).fold(f64::MIN, f64::max);
    tones.iter().map(loudest).collect()
}

fn caller(called: &CalledMachine, home: &Folder, tone: u32, received: &str) -> Running {
    let options = format!("--input tone:{tone} --output file:{received}");
    called.call(home.path(), &options).controlled().start().wait_for(messages::IN_A_CALL)
}

/// Tones play at 18 dB below full scale.
pub(crate) const SOUNDS: std::ops::Range<f64> = -18.5..-17.5;
pub(crate) const NOT_RECEIVED: f64 = -70.0;

#[test]
fn two_callers_hear_each_other_and_the_server() {
    let _turn = alongside();
    let home = Folder::new();
    let called = CalledMachine::at_home(home.path(), "--report-file report.json");
    let calls =
        [caller(&called, &home, 1000, "one.wav"), caller(&called, &home, 2500, "other.wav")];
    grows(&called.folder.file("other.wav"), 4000);
    calls.into_iter().for_each(|call| drop(call.enter("quit").end().well()));
    let (_, folder) = called.ends();
    let report = std::fs::read_to_string(folder.file("report.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["directions"].as_array().map(Vec::len), Some(4), "two of each call");
    let received = |name: &str| levels(&folder.file(name), &[440.0, 1000.0, 2500.0]);
    let [one, other, server] = ["one.wav", "other.wav", "caller.wav"].map(received);
    println!("one {one:.1?}, other {other:.1?}, server {server:.1?}");
    for (who, levels, own) in [("one", one, 1), ("other", other, 2), ("server", server, 0)] {
        for (tone, level) in levels.iter().enumerate() {
            match tone == own {
                true => assert!(*level < NOT_RECEIVED, "{who} hears itself: {levels:.1?}"),
                false => assert!(SOUNDS.contains(level), "{who}: {levels:.1?}"),
            }
        }
    }
}

#[test]
fn callers_of_a_private_server_are_separate() {
    let _turn = alongside();
    let home = Folder::new();
    let called = CalledMachine::at_home(home.path(), "--private");
    let calls =
        [caller(&called, &home, 1000, "one.wav"), caller(&called, &home, 2500, "other.wav")];
    grows(&called.folder.file("other.wav"), 2000);
    calls.into_iter().for_each(|call| drop(call.enter("quit").end().well()));
    let (_, folder) = called.ends();
    let received = levels(&folder.file("one.wav"), &[440.0, 2500.0]);
    assert!(SOUNDS.contains(&received[0]) && received[1] < NOT_RECEIVED, "{received:.1?}");
}

#[test]
fn caller_that_leaves_or_moves_to_tcp_leaves_no_gap_for_others() {
    let _turn = alongside();
    let home = Folder::new();
    let mut called = CalledMachine::at_home(home.path(), "");
    let stays = caller(&called, &home, 1000, "stays.wav");
    let leaves = caller(&called, &home, 2500, "leaves.wav");
    grows(&called.folder.file("stays.wav"), 3000);
    leaves.enter("quit").end().well();
    called.running = called.running.wait_for(messages::CALL_OVER);
    let options = "--input tone:3000 --output null: --transport tcp";
    let moves = called.call(home.path(), options).controlled().start();
    let moves = moves.wait_for(messages::IN_A_CALL);
    called.running = called.running.wait_for(messages::BY_TCP);
    grows(&called.folder.file("stays.wav"), 3000);
    moves.enter("quit").end().well();
    grows(&called.folder.file("stays.wav"), 1000);
    stays.enter("quit").end().well();
    let (_, folder) = called.ends();
    for name in ["stays.wav", "caller.wav"] {
        let received = Sound::read(&folder.file(name));
        let begins = received.begins().expect("sound");
        let last = received.samples.iter().rposition(|sample| *sample != 0).expect("sound");
        let mut windows = received.samples[2 * begins..last].chunks_exact(2 * 960);
        let silent = windows.position(|window| window.iter().all(|sample| *sample == 0));
        assert_eq!(silent, None, "{name}: 20 ms of silence");
    }
    let received = levels(&folder.file("stays.wav"), &[440.0, 2500.0, 3000.0]);
    assert!(received.iter().all(|level| SOUNDS.contains(level)), "{received:.1?}");
}

#[test]
fn caller_of_two_servers_hears_both_unbridged() {
    let _turn = alongside();
    let home = Folder::new();
    let [one, other] = [440, 1200].map(|tone| CalledMachine::with_tone(home.path(), tone, ""));
    let folder = Folder::new();
    let line = format!(
        "call {} {} --report none --input tone:2500 --output file:heard.wav --record kept",
        one.address, other.address
    );
    let call = taut(words(&line)).and(PATIENT).with("TAUT_HOME", home.path());
    let call = call.in_folder(folder.path()).controlled().start();
    let in_calls =
        [&one, &other].map(|called| format!("{}{}", messages::IN_A_CALL, called.address));
    let mut call = call.wait_for_each(&in_calls);
    grows(&folder.file("heard.wav"), 3000);
    for request in ["mute", "unmute"] {
        call = call.request(request, "ok ");
        for called in [&one, &other] {
            grows(&called.folder.file("caller.wav"), 1000);
        }
    }
    let call = call.request("ptime 5ms", "ok ").refuses("hold");
    call.enter("quit").end().well();
    let received = levels(&folder.file("heard.wav"), &[440.0, 1200.0, 2500.0]);
    assert!(SOUNDS.contains(&received[0]) && SOUNDS.contains(&received[1]), "{received:.1?}");
    assert!(received[2] < NOT_RECEIVED, "itself: {received:.1?}");
    let names = folder.file("kept").read_dir().unwrap().count();
    assert_eq!(names, 4, "of each call two files");
    for (called, others) in [(one, 1200.0), (other, 440.0)] {
        let (ended, folder) = called.ends();
        assert!(ended.messages.iter().any(|line| line.contains("5ms per packet")), "{ended:#?}");
        let path = folder.file("caller.wav");
        let received = levels(&path, &[2500.0, others]);
        assert!(SOUNDS.contains(&received[0]) && received[1] < NOT_RECEIVED, "{received:.1?}");
        assert!(!Sound::read(&path).silences(24_000).is_empty(), "never muted");
    }
}

#[test]
fn unreachable_host_is_reported_and_the_other_call_continues() {
    let _turn = alongside();
    let home = Folder::new();
    let called = CalledMachine::at_home(home.path(), "");
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let options = format!("{nobody} --input tone:1000 --output null: --duration 3s");
    let ended = called.call(home.path(), &options).run();
    assert_eq!(ended.status, Some(3), "{ended:#?}");
    let (_, folder) = called.ends();
    let received = levels(&folder.file("caller.wav"), &[1000.0]);
    assert!(received[0] > -30.0, "{received:.1?}");
}

fn mute_host() -> (std::net::TcpListener, String) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

#[test]
fn lines_are_answered_while_a_silent_host_is_dialled() {
    let _turn = alongside();
    let home = Folder::new();
    let called = CalledMachine::at_home(home.path(), "");
    let (_mute, address) = mute_host();
    let line =
        format!("call {address} {} --report none --input tone:1000 --output null:", called.address);
    let call = taut(words(&line)).and(PATIENT).with("TAUT_HOME", home.path());
    let call = call.controlled().start().wait_for(messages::IN_A_CALL);
    let call = call.request("ptime 5ms", "ok ").request("mute", "ok ").request("hold", "ok hold");
    let call = call.wait_for(messages::CALL_SILENT);
    answered_first(&call.enter("quit").end());
    called.ends();

    let alone = taut(words(&format!("call {address} --report none --input null: --output null:")));
    let alone = alone.and(PATIENT).with("TAUT_HOME", home.path()).controlled().start();
    answered_first(&alone.request("mute", "ok ").enter("quit").end().well());
}

/// Lines were answered before the silent host's timeout.
fn answered_first(ended: &Ended) {
    let answered = ended.messages.iter().rposition(|line| line.starts_with("ok "));
    let before = &ended.messages[..answered.expect("an answer")];
    assert!(!before.iter().any(|line| line.contains(messages::NO_ANSWER)), "{ended:#?}");
}
