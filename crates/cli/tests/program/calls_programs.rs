//! Programs on the machine that is called, whose sound card is the call: ALSA's own, by a PCM of `type tautline`.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::host::beside;
use crate::common::program::{Call, Ended, PATIENCE as MOST, Running, taut, words};
use crate::common::said;
use crate::common::sound::{Shape, Sound};
use crate::common::{Folder, PATIENT, shared};
use crate::one_clock::is_copied;
use crate::pcm::{Scene, is_there};

/// A machine that can be called, and its programs.
struct CalledMachine {
    running: Running,
    address: String,
    scene: Scene,
    home: Folder,
}

impl CalledMachine {
    fn new() -> Self {
        let (scene, home) = (Scene::set(""), Folder::new());
        let line = "serve --listen 127.0.0.1:0 --report none";
        let serve = taut(words(line)).and(PATIENT).listened_to().in_folder(scene.folder.path());
        let serve = serve.with("TAUT_HOME", home.path());
        let running = serve.with("XDG_RUNTIME_DIR", home.path()).start();
        let running = running.wait_for(said::AWAITS_CALLS);
        let said = running.said().last().unwrap();
        let address = said.split_whitespace().last().unwrap().to_owned();
        Self { running, address, scene, home }
    }

    fn call(&self, options: &str) -> Call {
        let line = format!("call {} --report none {options}", self.address);
        let call = taut(words(&line)).and(PATIENT).in_folder(self.scene.folder.path());
        call.with("TAUT_HOME", self.home.path()).with("XDG_RUNTIME_DIR", self.home.path())
    }

    /// Returns when packets come to the caller: what is played before the first, nobody hears.
    fn is_heard(&self) {
        let until = Instant::now() + MOST;
        let comes = |program: &serde_json::Value| {
            let command = program["command"].as_str().unwrap_or_default();
            let received = &program["streams"][0]["counters"]["packets_received"];
            command.contains(" call ") && received.as_u64().is_some_and(|received| received > 0)
        };
        loop {
            let top = taut(words("top --once --report json"));
            let told = top.with("XDG_RUNTIME_DIR", self.home.path()).run().well().out;
            let told: serde_json::Value = serde_json::from_str(&told).unwrap();
            if told["programs"].as_array().is_some_and(|all| all.iter().any(comes)) {
                return;
            }
            assert!(Instant::now() < until, "no packet comes: {told}");
        }
    }

    fn program(&self, program: &str, line: &str) -> Call {
        self.scene.program(program, line).with("XDG_RUNTIME_DIR", self.home.path())
    }

    /// Returns when so much more is in this file.
    fn grows(&self, file: &str, millis: usize) {
        let path = self.scene.folder.file(file);
        let length = |path: &Path| path.metadata().map_or(0, |file| file.len());
        let more = (Shape::STEREO_24.rate as usize * 6 / 1000 * millis) as u64;
        let (until, enough) = (Instant::now() + MOST, length(&path) + more);
        while length(&path) < enough {
            assert!(Instant::now() < until, "{file} does not grow");
            std::thread::park_timeout(Duration::from_millis(10));
        }
    }

    fn heard(&self, file: &str) -> Sound {
        Sound::read(&self.scene.folder.file(file))
    }

    fn ends(self) -> Ended {
        self.running.signal("-TERM");
        self.running.end().well()
    }
}

#[test]
fn a_caller_hears_what_a_program_plays_there_bit_for_bit() {
    let _turn = beside();
    if !is_there("aplay", "--version") {
        return;
    }
    let called = CalledMachine::new();
    let sent = Sound::noise(Shape::STEREO_24, 1000, 11);
    sent.write(&called.scene.folder.file("sent.wav"));
    let call = called.call("--input null: --output file:heard.wav").controlled().start();
    let call = call.wait_for(said::IN_A_CALL);
    called.is_heard();
    called.program("aplay", "-q -D tautserve sent.wav").run().well();
    // As long as the latency of a call may be.
    called.grows("heard.wav", 1000);
    call.tell("quit").end().well();
    called.heard("heard.wav").is_exactly(&sent);
    called.ends();
}

#[test]
fn a_program_records_what_the_caller_says_bit_for_bit() {
    let _turn = beside();
    if !is_there("arecord", "--version") {
        return;
    }
    let called = CalledMachine::new();
    let sent = Sound::noise(Shape::STEREO_24, 1000, 12);
    sent.write(&called.scene.folder.file("says.wav"));
    let line = "-D tautserve -f S24_3LE -r 48000 -c 2 -d 4 heard.wav";
    let recorder = called.program("arecord", line).start().wait_for("Recording");
    called.call("--input file:says.wav --output null:").run().well();
    recorder.end().well();
    called.heard("heard.wav").is_exactly(&sent);
    called.ends();
}

#[test]
fn a_program_plays_on_while_one_call_ends_and_another_begins() {
    let _turn = beside();
    if !is_there("aplay", "--version") {
        return;
    }
    let called = CalledMachine::new();
    let sent = Sound::noise(Shape::STEREO_24, 60_000, 13);
    sent.write(&called.scene.folder.file("sent.wav"));
    // Before anybody calls.
    let player = called.program("aplay", "-q -D tautserve sent.wav").start();
    for heard in ["first.wav", "second.wav"] {
        let call = called.call(&format!("--input null: --output file:{heard}")).controlled();
        let call = call.start().wait_for(said::IN_A_CALL);
        called.grows(heard, 1000);
        call.tell("quit").end().well();
        is_copied(&called.heard(heard), &sent, heard);
    }
    player.signal("-TERM");
    player.end();
    called.ends();
}

#[test]
fn a_program_is_told_when_nobody_serves_and_when_who_served_has_ended() {
    shared(|| {
        if !is_there("aplay", "--version") {
            return;
        }
        let called = CalledMachine::new();
        let other = called.program("aplay", "-q -D tautserve:other /dev/null").run();
        let said = other.said.join("\n");
        assert!(said.contains("taut serve --input programs:other"), "{other:#?}");
        assert!(said.contains(said::NO_DEVICE), "{other:#?}");
        // It is set up when it has told how.
        let line = "-v -t raw -f S24_3LE -r 48000 -c 2 -D tautserve /dev/zero";
        let player = called.program("aplay", line).start().wait_for("boundary");
        called.ends();
        let ended = player.end();
        assert!(ended.said.iter().any(|line| line.contains(said::NO_DEVICE)), "{ended:#?}");
    });
}
