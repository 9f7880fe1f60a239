//! Calls whose peer loses its trust, and a hostile trusted peer.

use std::fs::read_to_string;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use tautline_trial::{Lack, skipped};

use crate::calls::CalledMachine;
use crate::calls_of_several::{NOT_RECEIVED, SOUNDS, level};
use crate::common::host::alongside;
use crate::common::messages;
use crate::common::program::{Running, taut, words};
use crate::common::sound::Sound;
use crate::common::{Folder, grows, until};

pub(crate) struct Friends {
    pub(crate) studio: Folder,
    pub(crate) bob: Folder,
}

impl Friends {
    pub(crate) fn new() -> Self {
        let all = Self { studio: Folder::new(), bob: Folder::new() };
        for (home, name, other) in
            [(&all.studio, "bob", &all.bob), (&all.bob, "studio", &all.studio)]
        {
            let id = taut(words("id")).with("TAUT_HOME", other.path()).run().well().out;
            trust(home, &[name, id.split_whitespace().last().unwrap()]);
        }
        all
    }
}

fn trust(home: &Folder, what: &[&str]) {
    taut(words("trust")).and(what).with("TAUT_HOME", home.path()).run().well();
}

fn call(called: &CalledMachine, home: &Folder, options: &str) -> Running {
    called.call(home.path(), options).controlled().start().wait_for(messages::IN_A_CALL)
}

#[test]
fn caller_that_loses_trust_is_hung_up_and_others_continue() {
    let _turn = alongside();
    let Friends { studio, bob } = Friends::new();
    let mut called = CalledMachine::at_home(studio.path(), "--max-callers 2");
    let mine = call(&called, &studio, "--input tone:2500 --output file:heard.wav");
    let bobs = call(&called, &bob, "--input tone:1000 --output null:");
    let received = called.folder.file("heard.wav");
    grows(&received, 2000);
    trust(&studio, &["--remove", "bob"]);
    called.running =
        called.running.wait_for(&messages::is_over("bob (127.0.0.1)", messages::CALLER_UNTRUSTED));
    let bobs = bobs.end().well();
    assert!(
        bobs.messages.iter().any(|line| line.contains(messages::CALLER_UNTRUSTED)),
        "{bobs:#?}"
    );
    let next = "--input null: --output null: --duration 100ms";
    called.call(studio.path(), next).run().well();
    grows(&received, 3000);
    mine.enter("quit").end().well();
    let (_, _folder) = called.ends();
    let received = Sound::read(&received);
    let begins = received.begins().expect("a tone") * 2;
    // Without the sound during the hang-up.
    let sound = &received.samples[begins..received.samples.len() - 48_000];
    let last = &sound[sound.len() - 96_000..];
    assert!(level(last, 1000.0) < NOT_RECEIVED, "bob is heard: {} dBFS", level(last, 1000.0));
    assert!(SOUNDS.contains(&level(last, 440.0)), "{} dBFS", level(last, 440.0));
    let bob_was = sound.chunks_exact(96_000).any(|second| level(second, 1000.0) > -30.0);
    assert!(bob_was, "he was heard before");
    // A tone is never silent for so long.
    let silent = sound.chunks_exact(1_920).position(|window| window.iter().all(|one| *one == 0));
    assert_eq!(silent, None, "of {} windows of 20 ms", sound.len() / 1_920);
}

/// From /proc/net/tcp: `sl local_address rem_address st …`, in hexadecimal; established is 01.
fn connections(address: &str) -> usize {
    let (_, port) = address.rsplit_once(':').unwrap();
    let local = format!("0100007F:{:04X}", port.parse::<u16>().unwrap());
    let listed = read_to_string("/proc/net/tcp").unwrap();
    let is_one = |line: &&str| {
        let mut fields = line.split_whitespace().skip(1);
        fields.next() == Some(&local) && fields.nth(1) == Some("01")
    };
    listed.lines().filter(is_one).count()
}

#[test]
fn untrusted_caller_that_does_not_hang_up_is_cut_off() {
    let _turn = alongside();
    let Friends { studio, bob } = Friends::new();
    let mut called = CalledMachine::at_home(studio.path(), "");
    let options = "--transport tcp --input tone:1000 --output null:";
    let bobs = call(&called, &bob, options);
    called.running = called.running.wait_for(messages::BY_TCP);
    let held = "--hold --input null: --output null:";
    let held = called.call(bob.path(), held).controlled().start().wait_for("without sound");
    assert_eq!(connections(&called.address), 3, "two control connections and one of sound");
    [&bobs, &held].into_iter().for_each(|call| call.signal("-STOP"));
    trust(&studio, &["--remove", "bob"]);
    until("some of them stay", || connections(&called.address) == 0);
    let (ended, _) = called.ends();
    let over = messages::is_over("", messages::CALLER_UNTRUSTED);
    let reported = ended.messages.iter().filter(|line| line.contains(&over));
    assert_eq!(reported.count(), 2, "{ended:#?}");
}

#[test]
fn a_host_that_is_trusted_no_more_is_hung_up_on() {
    let _turn = alongside();
    let Friends { studio, bob } = Friends::new();
    let mut called = CalledMachine::at_home(studio.path(), "");
    let bobs = call(&called, &bob, "--input tone:1000 --output null:");
    trust(&bob, &["--remove", "studio"]);
    let bobs = bobs.end().well();
    assert!(
        bobs.messages.iter().any(|line| line.contains(messages::NO_LONGER_TRUSTED)),
        "{bobs:#?}"
    );
    let over = messages::is_over("bob (127.0.0.1)", messages::CALLEE_UNTRUSTED);
    called.running = called.running.wait_for(&over);
    called.ends();
}

#[test]
fn words_of_a_hostile_caller_are_escaped_and_cut_in_the_log() {
    let _turn = alongside();
    let Friends { studio, bob } = Friends::new();
    let keys = bob.file("keys");
    taut(words("id --export")).and([&keys]).with("TAUT_HOME", bob.path()).run().well();
    let mut called = CalledMachine::at_home(studio.path(), "");
    let caller = Command::new("openssl")
        .args(["s_client", "-quiet", "-alpn", "tautline-call/4", "-connect", &called.address])
        .arg("-cert")
        .arg(keys.join("taut-cert.pem"))
        .arg("-key")
        .arg(keys.join("taut-key.pem"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut caller) = caller else { return skipped(Lack::Package, "openssl is missing") };
    let (mut says, handles) = (caller.stdin.take().unwrap(), caller.stdout.take().unwrap());
    let way =
        r#"{"rates":[48000],"channels":[2],"codings":["l24"],"ptimes_ns":[1000000,20000000]}"#;
    let offer = format!(r#"{{"there":{way},"back":{way},"paths":["udp"]}}"#);
    writeln!(says, r#"{{"call":{{"version":5,"offer":{offer}}}}}"#).unwrap();
    let mut answer = String::new();
    BufReader::new(handles).read_line(&mut answer).unwrap();
    assert!(answer.contains("accepted"), "{answer}");
    let long = "x".repeat(2_000);
    writeln!(says, r#"{{"bye":{{"reason":"exe.\u202egpj\u2028\u001b[2J{long}"}}}}"#).unwrap();
    let over = messages::is_over("bob (127.0.0.1)", r"exe.\u{202e}gpj\u{2028}\u{1b}[2Jxxx");
    called.running = called.running.wait_for(&over);
    drop(says);
    caller.wait().unwrap();
    let (ended, _) = called.ends();
    assert!(ended.messages.iter().all(|line| line.chars().count() < 400), "{ended:#?}");
}
