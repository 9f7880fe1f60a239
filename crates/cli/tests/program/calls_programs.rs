//! ALSA programs whose sound card is a call: a PCM of `type tautline`.

use crate::calls::without_fade;
use crate::common::host::alongside;
use crate::common::messages;
use crate::common::program::{Call, Ended, Running, taut, words};
use crate::common::sound::{Shape, Sound};
use crate::common::{Folder, PATIENT, grows, shared};
use crate::one_clock::is_copied;
use crate::pcm::{Scene, is_there};

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
        let running = running.wait_for(messages::AWAITS_CALLS);
        let address = running.address();
        Self { running, address, scene, home }
    }

    fn call(&self, options: &str) -> Call {
        let line = format!("call {} --report none {options}", self.address);
        let call = taut(words(&line)).and(PATIENT).in_folder(self.scene.folder.path());
        call.with("TAUT_HOME", self.home.path()).with("XDG_RUNTIME_DIR", self.home.path())
    }

    fn program(&self, program: &str, line: &str) -> Call {
        self.scene.program(program, line).with("XDG_RUNTIME_DIR", self.home.path())
    }

    fn received(&self, file: &str) -> Sound {
        Sound::read(&self.scene.folder.file(file))
    }

    fn ends(self) -> Ended {
        self.running.signal("-TERM");
        self.running.end().well()
    }
}

#[test]
fn program_records_the_caller_bit_exact() {
    let _turn = alongside();
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
    called.received("heard.wav").is_exactly(&sent);
    called.ends();
}

#[test]
fn a_program_plays_on_while_one_call_ends_and_another_begins() {
    let _turn = alongside();
    if !is_there("aplay", "--version") {
        return;
    }
    let called = CalledMachine::new();
    let sent = Sound::noise(Shape::STEREO_24, 60_000, 13);
    sent.write(&called.scene.folder.file("sent.wav"));
    let player = called.program("aplay", "-q -D tautserve sent.wav").start();
    for received in ["first.wav", "second.wav"] {
        let call = called.call(&format!("--input null: --output file:{received}")).controlled();
        let call = call.start().wait_for(messages::IN_A_CALL);
        grows(&called.scene.folder.file(received), 1000);
        call.enter("quit").end().well();
        is_copied(&without_fade(called.received(received)), &sent, received);
    }
    player.signal("-TERM");
    player.end();
    called.ends();
}

#[test]
fn program_learns_of_a_missing_and_an_ended_server() {
    shared(|| {
        if !is_there("aplay", "--version") {
            return;
        }
        let called = CalledMachine::new();
        let other = called.program("aplay", "-q -D tautserve:other /dev/null").run();
        let messages = other.messages.join("\n");
        assert!(messages.contains("taut serve --input programs:other"), "{other:#?}");
        assert!(messages.contains(messages::NO_DEVICE), "{other:#?}");
        // It prints its settings once it is set up.
        let line = "-v -t raw -f S24_3LE -r 48000 -c 2 -D tautserve /dev/zero";
        let player = called.program("aplay", line).start().wait_for("boundary");
        called.ends();
        let ended = player.end();
        assert!(ended.messages.iter().any(|line| line.contains(messages::NO_DEVICE)), "{ended:#?}");
    });
}
