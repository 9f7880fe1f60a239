//! `taut serve` with several callers: a conversation in which each hears the others, and not itself.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::calls::CalledMachine;
use crate::common::Folder;
use crate::common::host::beside;
use crate::common::program::{PATIENCE as MOST, Running};
use crate::common::sound::{Shape, Sound};

/// What is heard of a tone, in dBFS of its amplitude, in a second of sound (Goertzel 1958): of one that has whole turns
/// in it nothing is heard at the frequency of another such.
fn level(second: &[i32], hertz: f64) -> f64 {
    let turn = std::f64::consts::TAU * hertz / f64::from(Shape::STEREO_24.rate);
    let (mut one, mut before) = (0.0, 0.0);
    for sample in second.iter().step_by(2) {
        let next = f64::from(*sample) / f64::from(1 << 23) + 2.0 * turn.cos() * one - before;
        (before, one) = (one, next);
    }
    let power = one * one + before * before - 2.0 * turn.cos() * one * before;
    20.0 * (2.0 * power.max(0.0).sqrt() / (second.len() / 2) as f64).log10()
}

/// The loudest that each tone is in any second of a recording.
fn levels(path: &Path, tones: &[f64]) -> Vec<f64> {
    let sound = Sound::read(path);
    let seconds = || sound.samples.chunks_exact(96_000);
    let loudest =
        |tone: &f64| seconds().map(|second| level(second, *tone)).fold(f64::MIN, f64::max);
    tones.iter().map(loudest).collect()
}

/// A caller with a tone, and what it hears in a file.
fn caller(called: &CalledMachine, home: &Folder, tone: u32, heard: &str) -> Running {
    let options = format!("--input tone:{tone} --output file:{heard}");
    called.call(home.path(), &options).controlled().start().wait_for("in a call with ")
}

/// Returns when a recording has so many seconds more.
fn grows(path: &Path, seconds: u64) {
    let bytes = || path.metadata().map_or(0, |file| file.len());
    let (until, enough) = (Instant::now() + MOST, bytes() + seconds * 48_000 * 6);
    while bytes() < enough {
        assert!(Instant::now() < until, "nothing is recorded: {}", path.display());
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

/// Tones are played 18 dB below full scale: heard as loud as that, or not at all.
const SOUNDS: std::ops::Range<f64> = -18.5..-17.5;
const UNHEARD: f64 = -70.0;

#[test]
fn two_callers_hear_each_other_and_the_server_and_not_themselves() {
    let _turn = beside();
    let home = Folder::new();
    let called = CalledMachine::at_home(home.path(), "");
    let calls =
        [caller(&called, &home, 1000, "one.wav"), caller(&called, &home, 2500, "other.wav")];
    grows(&called.folder.file("other.wav"), 4);
    calls.into_iter().for_each(|call| drop(call.tell("quit").end().well()));
    let (_, folder) = called.ends();
    let heard = |name: &str| levels(&folder.file(name), &[440.0, 1000.0, 2500.0]);
    let [one, other, server] = ["one.wav", "other.wav", "caller.wav"].map(heard);
    println!("one {one:.1?}, other {other:.1?}, server {server:.1?}");
    for (who, levels, own) in [("one", one, 1), ("other", other, 2), ("server", server, 0)] {
        for (tone, level) in levels.iter().enumerate() {
            match tone == own {
                true => assert!(*level < UNHEARD, "{who} hears itself: {levels:.1?}"),
                false => assert!(SOUNDS.contains(level), "{who}: {levels:.1?}"),
            }
        }
    }
}

#[test]
fn callers_of_a_private_server_do_not_hear_one_another() {
    let _turn = beside();
    let home = Folder::new();
    let called = CalledMachine::at_home(home.path(), "--private");
    let calls =
        [caller(&called, &home, 1000, "one.wav"), caller(&called, &home, 2500, "other.wav")];
    grows(&called.folder.file("other.wav"), 2);
    calls.into_iter().for_each(|call| drop(call.tell("quit").end().well()));
    let (_, folder) = called.ends();
    let heard = levels(&folder.file("one.wav"), &[440.0, 2500.0]);
    assert!(SOUNDS.contains(&heard[0]) && heard[1] < UNHEARD, "{heard:.1?}");
}

#[test]
fn one_who_leaves_and_one_whose_sound_moves_to_tcp_leave_the_others_without_a_gap() {
    let _turn = beside();
    let home = Folder::new();
    let mut called = CalledMachine::at_home(home.path(), "");
    let stays = caller(&called, &home, 1000, "stays.wav");
    let leaves = caller(&called, &home, 2500, "leaves.wav");
    grows(&called.folder.file("stays.wav"), 3);
    leaves.tell("quit").end().well();
    called.running = called.running.wait_for("the call is over: ");
    let options = "--input tone:3000 --output null: --transport tcp";
    let moves = called.call(home.path(), options).controlled().start();
    let moves = moves.wait_for("in a call with ");
    called.running = called.running.wait_for("the sound goes by TCP from now on");
    grows(&called.folder.file("stays.wav"), 3);
    moves.tell("quit").end().well();
    grows(&called.folder.file("stays.wav"), 1);
    stays.tell("quit").end().well();
    let (_, folder) = called.ends();
    for name in ["stays.wav", "caller.wav"] {
        let heard = Sound::read(&folder.file(name));
        let begins = heard.begins().expect("sound");
        let last = heard.samples.iter().rposition(|sample| *sample != 0).expect("sound");
        let mut windows = heard.samples[2 * begins..last].chunks_exact(2 * 960);
        let silent = windows.position(|window| window.iter().all(|sample| *sample == 0));
        assert_eq!(silent, None, "{name}: 20 ms of silence");
    }
    let heard = levels(&folder.file("stays.wav"), &[440.0, 2500.0, 3000.0]);
    assert!(heard.iter().all(|level| SOUNDS.contains(level)), "{heard:.1?}");
}
