//! `taut serve` and `taut call`: calls between two programs.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use tautline_trial::snapshot;

use crate::common::host::alongside;
use crate::common::messages;
use crate::common::program::{Call, Ended, Running, call as program, taut, words};
use crate::common::sound::{Shape, Sound};
use crate::common::{Folder, PATIENT, grows};

const SHAPE: Shape = Shape::STEREO_24;

/// Runs `taut serve`, with its own key, trust list and recording.
pub(crate) struct CalledMachine {
    pub(crate) running: Running,
    pub(crate) address: String,
    pub(crate) folder: Folder,
}

impl CalledMachine {
    pub(crate) fn at_home(home: &Path, options: &str) -> Self {
        Self::with_tone(home, 440, options)
    }

    pub(crate) fn with_tone(home: &Path, tone: u32, options: &str) -> Self {
        let folder = Folder::new();
        let line = format!(
            "serve --listen 127.0.0.1:0 --input tone:{tone} --output file:caller.wav {options}"
        );
        let serve = taut(words(&line)).and(PATIENT).with("TAUT_HOME", home);
        Self::begun(serve.and(["--report", "none"]).in_folder(folder.path()), folder)
    }

    pub(crate) fn begun(serve: Call, folder: Folder) -> Self {
        let running = serve.listened_to().start().wait_for(messages::AWAITS_CALLS);
        Self { address: running.address(), running, folder }
    }

    pub(crate) fn call(&self, home: &Path, options: &str) -> Call {
        let line = format!("call {} --report none {options}", self.address);
        taut(words(&line)).and(PATIENT).with("TAUT_HOME", home).in_folder(self.folder.path())
    }

    pub(crate) fn hears_a_second_more(&self) {
        grows(&self.folder.file("caller.wav"), 1000);
    }

    pub(crate) fn ends(self) -> (Ended, Folder) {
        self.running.signal("-TERM");
        (self.running.end().well(), self.folder)
    }
}

#[test]
fn call_closed_in_its_handshake_is_retried() {
    let _turn = alongside();
    let home = Folder::new();
    let called = CalledMachine::at_home(home.path(), "");
    let gate = TcpListener::bind("127.0.0.1:0").unwrap();
    let (at, there) = (gate.local_addr().unwrap(), called.address.clone());
    std::thread::spawn(move || {
        (0..2).for_each(|_| drop(gate.accept().unwrap()));
        let (near, _) = gate.accept().unwrap();
        let far = TcpStream::connect(there).unwrap();
        let back = (far.try_clone().unwrap(), near.try_clone().unwrap());
        let carry = |(mut from, mut to): (TcpStream, TcpStream)| std::io::copy(&mut from, &mut to);
        std::thread::spawn(move || carry(back));
        carry((near, far))
    });
    let line = format!("call {at} --report none --input null: --output null: --duration 100ms");
    let ended = taut(words(&line)).and(PATIENT).with("TAUT_HOME", home.path()).run().well();
    let closed: Vec<_> =
        ended.messages.iter().filter(|line| line.contains(messages::CLOSED_EARLY)).collect();
    let [closed] = closed[..] else { panic!("not once: {ended:#?}") };
    snapshot!(closed.replace(&at.to_string(), "HOST:PORT"));
    assert!(ended.messages.iter().any(|line| line.contains(messages::IN_A_CALL)), "{ended:#?}");
    called.ends();
}

#[test]
fn call_is_bit_exact_both_ways() {
    let _turn = alongside();
    let home = Folder::new();
    let called = CalledMachine::at_home(home.path(), "");
    let sent = Sound::noise(SHAPE, 2_000, 7);
    sent.write(&called.folder.file("caller-says.wav"));
    let call = called.call(home.path(), "--input file:caller-says.wav --output file:heard.wav");
    let ended = call.run().well();
    assert!(ended.messages.iter().any(|line| line.contains(messages::IN_A_CALL)), "{ended:#?}");
    let (ended, folder) = called.ends();
    assert!(ended.messages.iter().any(|line| line.contains(messages::CALL_OVER)), "{ended:#?}");
    Sound::read(&folder.file("caller.wav")).is_exactly(&sent);
    let received = Sound::read(&folder.file("heard.wav"));
    let began = received.begins().expect("the tone");
    assert!(received.frames() - began > 24_000, "half a second of it at least");
    // No click: the last cycle has less than half the level.
    let peak = |samples: &[i32]| samples.iter().map(|sample| sample.abs()).max();
    let last = received.samples.iter().rposition(|sample| *sample != 0).expect("the tone");
    let ends = peak(&received.samples[last - 2 * 109..=last]).unwrap() * 2;
    assert!(ends < peak(&received.samples).unwrap(), "{ends}");
}

pub(crate) fn without_fade(mut sound: Sound) -> Sound {
    let last = sound.samples.iter().rposition(|sample| *sample != 0).unwrap_or(0);
    let fade = sound.shape.rate as usize / 200 * sound.shape.channels;
    sound.samples.truncate((last + 1).saturating_sub(fade));
    sound
}

#[test]
fn both_directions_are_recorded_and_no_later_call_overwrites() {
    let _turn = alongside();
    let home = Folder::new();
    let called = CalledMachine::at_home(home.path(), "");
    let options = "--input tone:440 --output null: --duration 2s --record both.wav";
    called.call(home.path(), options).run().well();
    let recorded = Sound::read(&called.folder.file("both.wav"));
    assert!(recorded.frames() > 48_000 && recorded.begins().is_some());
    let again = called.call(home.path(), options).run();
    assert_eq!(again.status, Some(3), "{again:?}");
    let serve = taut(words("serve --record both.wav --report none")).with("TAUT_HOME", home.path());
    assert_eq!(serve.run().status, Some(2));
    called.ends();
}

#[test]
fn a_closed_terminal_ends_a_call_unless_nohup_started_it() {
    let _turn = alongside();
    let home = Folder::new();
    let called = CalledMachine::at_home(home.path(), "");
    // Set here, as whatever runs the tests may ignore SIGHUP itself.
    let call = |hangup: &str, options: &str| {
        let started = program("env", [hangup, env!("CARGO_BIN_EXE_taut")]);
        let started = started.and(words(&format!("call {} --report none", called.address)));
        let started = started.and(words(options)).and(PATIENT).with("TAUT_HOME", home.path());
        let call = started.in_folder(called.folder.path()).controlled().start();
        let call = call.wait_for(messages::IN_A_CALL);
        // The kernel and the shell both send one.
        call.signal("-HUP");
        call.signal("-HUP");
        call
    };
    let options = "--input tone:440 --output null: --record both.wav";
    call("--default-signal=HUP", options).end().well();
    assert!(called.folder.file("both.wav").exists());
    let goes_on = call("--ignore-signal=HUP", "--input tone:440 --output null:");
    called.hears_a_second_more();
    goes_on.enter("quit").end().well();
    called.ends();
}

#[test]
fn untrusted_caller_gets_a_hint_and_other_calls_continue() {
    let _turn = alongside();
    let (home, stranger) = (Folder::new(), Folder::new());
    let called = CalledMachine::at_home(home.path(), "");
    let mine = called.call(home.path(), "--input null: --output null:").controlled().start();
    let mine = mine.wait_for(messages::IN_A_CALL);
    // The caller trusts no machine, so it hangs up first.
    let options = "--input null: --output null: --report-file refused.json";
    let refused = called.call(stranger.path(), options).run();
    assert_eq!(refused.status, Some(3), "{refused:#?}");
    assert!(!called.folder.file("refused.json").exists(), "a call that never began has no report");
    assert!(refused.messages.iter().any(|line| line.contains(messages::UNTRUSTED)), "{refused:#?}");
    let mine = mine.becomes(|status| status.contains("latency 400ms"));
    assert!(mine.enter("quit").end().well().messages.len() > 1);
    let (ended, _) = called.ends();
    let turned = ended.messages.iter().filter(|line| line.contains(messages::TURNED_AWAY)).count();
    assert_eq!(turned, 1, "{ended:#?}");
}

#[test]
fn killed_caller_can_call_again() {
    let _turn = alongside();
    let home = Folder::new();
    let mut called = CalledMachine::at_home(home.path(), "");
    let killed = called.call(home.path(), "--input tone:300 --output null:").start();
    let killed = killed.wait_for(messages::IN_A_CALL);
    killed.signal("-KILL");
    killed.end();
    called.running = called.running.wait_for(messages::CONTROL_LOST);
    let sent = Sound::noise(SHAPE, 1_000, 8);
    sent.write(&called.folder.file("again.wav"));
    called.call(home.path(), "--input file:again.wav --output null:").run().well();
    let (_, folder) = called.ends();
    let received = Sound::read(&folder.file("caller.wav"));
    assert!(received.begins().is_some());
}

#[test]
fn a_call_sounds_by_opus_and_goes_on_by_other_coders() {
    let _turn = alongside();
    let home = Folder::new();
    let mut called = CalledMachine::at_home(home.path(), "");
    let options = "--format opus --input tone:300 --output file:heard.wav";
    let mut call = called.call(home.path(), options).controlled().start();
    call = call.wait_for(messages::IN_A_CALL);
    let line = call.messages().last().unwrap();
    assert!(
        line.contains(&messages::coded("opus", "2.5ms")) && line.contains("192 kbit/s"),
        "{line}"
    );
    for coding in ["lossless24", "opus-voice", "l16", "opus"] {
        called.hears_a_second_more();
        call = call.request(&format!("format {coding}"), "ok ");
        called.running = called.running.wait_for(&messages::call_is_now(&format!("{coding} ")));
    }
    called.hears_a_second_more();
    let caller = call.enter("quit").end().well();
    let (called, folder) = called.ends();
    let reported: Vec<_> = [caller.messages, called.messages].concat();
    assert!(
        !reported.iter().any(|line| line.contains("payload type")),
        "both know them: {reported:#?}"
    );
    for name in ["heard.wav", "caller.wav"] {
        let received = Sound::read(&folder.file(name));
        let begins = received.begins().expect("the tone");
        // 20 ms: longer than any silence of a tone; a change omits less.
        let windows = received.samples[2 * begins..].chunks_exact(2 * 960);
        let silent = windows.clone().take_while(|window| window.iter().any(|one| *one != 0));
        let (sounding, all) = (silent.count(), windows.len());
        assert!(sounding + 25 >= all && sounding > 25, "{name}: {sounding} of {all}");
    }
}

/// Level in dBFS of the server's last second. The caller's microphone hears its loudspeaker via a
/// cable.
fn echoed(rule: &str) -> f64 {
    let home = Folder::new();
    let called = CalledMachine::at_home(home.path(), "");
    let cable = format!("virtual:?cable=echo-{}-{rule}", std::process::id());
    let options = format!("--echo-cancel {rule} --input {cable} --output {cable} --duration 4s");
    called.call(home.path(), &options).run().well();
    let (_, folder) = called.ends();
    let received = Sound::read(&folder.file("caller.wav"));
    let last = received.samples.iter().rposition(|sample| *sample != 0).expect("some sound");
    // Without the sound during the hang-up.
    let second = &received.samples[..last + 1 - 48_000];
    let second = &second[second.len() - 96_000..];
    let power = second.iter().map(|sample| (f64::from(*sample) / f64::from(1 << 23)).powi(2));
    10.0 * (power.sum::<f64>() / second.len() as f64).log10()
}

#[test]
fn microphone_near_a_loudspeaker_sends_no_echo() {
    let _turn = alongside();
    let (kept, cancelled) = (echoed("off"), echoed("on"));
    println!("{kept:.1} dBFS with echo, {cancelled:.1} without");
    // A tone of −18 dBFS has a power of −21 dBFS.
    assert!((-21.5..=-20.5).contains(&kept), "{kept:.1} dBFS");
    assert!(cancelled < kept - 25.0, "{cancelled:.1} dBFS, and {kept:.1} where it is kept");
}

fn recordings(folder: &Path) -> Vec<[Sound; 2]> {
    let mut names: Vec<_> = folder.read_dir().unwrap().map(|file| file.unwrap().path()).collect();
    names.sort();
    let ends = |path: &&PathBuf, end| path.to_string_lossy().ends_with(end);
    let received: Vec<_> = names.iter().filter(|path| ends(path, "-received.wav")).collect();
    let sent: Vec<_> = names.iter().filter(|path| ends(path, "-sent.wav")).collect();
    assert_eq!((received.len(), sent.len()), (names.len() / 2, names.len() / 2), "{names:?}");
    let both =
        |(sent, received): (&&PathBuf, &&PathBuf)| [Sound::read(sent), Sound::read(received)];
    sent.iter().zip(&received).map(both).collect()
}

fn stripped(sound: &Sound) -> &[i32] {
    let begins = sound.samples.iter().position(|sample| *sample != 0);
    let ends = sound.samples.iter().rposition(|sample| *sample != 0);
    begins.zip(ends).map_or(&[], |(begins, ends)| &sound.samples[begins..=ends])
}

#[test]
fn both_ends_record_sent_and_received_sound() {
    let _turn = alongside();
    let home = Folder::new();
    let called = CalledMachine::at_home(home.path(), "--record kept/there");
    for seed in [3, 4] {
        let sent = Sound::noise(SHAPE, 500, seed);
        sent.write(&called.folder.file("says.wav"));
        let call = "--input file:says.wav --output file:heard.wav --overwrite --record kept/here";
        called.call(home.path(), call).run().well();
        let here = recordings(&called.folder.file("kept/here"));
        let [kept, _] = &here[seed as usize - 3];
        assert!(stripped(kept) == sent.samples, "the first frame and the last are there");
        let received = Sound::read(&called.folder.file("heard.wav"));
        let [_, kept] = &here[seed as usize - 3];
        assert!(stripped(kept) == stripped(&received), "what is played");
    }
    let (_, folder) = called.ends();
    let there = recordings(&folder.file("kept/there"));
    let [[_, first], [tone, second]] = &there[..] else { panic!("{} calls", there.len()) };
    let played = Sound::read(&folder.file("caller.wav"));
    assert!(stripped(first) == Sound::noise(SHAPE, 500, 3).samples, "the first call");
    assert!(stripped(&played).starts_with(stripped(first)), "the first call, played");
    assert!(stripped(&played).ends_with(stripped(second)), "the second call, played");
    assert!(stripped(second).len() > 40_000 && tone.begins().is_some());
}

#[test]
fn unwritable_record_folder_is_refused_before_any_sound() {
    let _turn = alongside();
    let home = Folder::new();
    let called = CalledMachine::at_home(home.path(), "");
    std::fs::write(called.folder.file("file"), "no folder").unwrap();
    let options = "--input tone:300 --output null: --record file";
    let refused = called.call(home.path(), options).run();
    assert_eq!(refused.status, Some(3), "{refused:#?}");
    snapshot!(refused.last());
    called.ends();
}

/// Runs `taut` on a terminal of `rows` rows. Each redrawn line is a line of output.
pub(crate) fn on_a_terminal(line: &str, rows: u16) -> Call {
    let taut = env!("CARGO_BIN_EXE_taut");
    let line = format!("stty cols 160 rows {rows}; exec {taut} {line}");
    let lines = r#"script -qec "$0" /dev/null | stdbuf -o0 tr '\r' '\n'"#;
    let call = program("bash", ["-o", "pipefail", "-c", lines, &line]);
    call.with("TERM", "xterm").listened_to()
}

#[test]
fn call_on_a_terminal_shows_levels_and_obeys_keys() {
    let _turn = alongside();
    let home = Folder::new();
    let called = CalledMachine::at_home(home.path(), "");
    let options = PATIENT.join(" ");
    let line = format!(
        "call {} {options} --report none --input tone:300 --output null: --mute",
        called.address
    );
    let call = on_a_terminal(&line, 24).with("TAUT_HOME", home.path());
    let call = call.in_folder(called.folder.path()).requested();
    let call = call.start().wait_for(messages::IN_A_CALL).wait_for("-inf dBFS  muted");
    let call = call.wait_for("heard  ").wait_for(messages::NO_LOSS);
    let call = call
        .wait_for("latency: 400.0ms configured")
        .wait_for(messages::STAGES)
        .wait_for(messages::CALLS_QUIT_KEY);
    let call = call.enter("+").wait_for("latency: 402.5ms configured").enter(">");
    let call =
        call.wait_for(messages::PACKETS_OF_5_MS).enter("-").wait_for("latency: 397.5ms configured");
    let call = call.enter(" ").wait_for("dBFS  talk ").wait_for("-inf dBFS  muted");
    let call = call.enter("m").wait_for("dBFS  open ").wait_for("-18.0 dBFS  open ");
    let call = call.enter("m").wait_for("dBFS  muted").wait_for("-inf dBFS  muted");
    call.enter("q").end().well();
    let (_, folder) = called.ends();
    let received = Sound::read(&folder.file("caller.wav"));
    assert!(!received.silences(1_920).is_empty(), "once talked and once unmuted");
}
