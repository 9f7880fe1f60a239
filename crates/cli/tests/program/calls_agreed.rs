//! What two ends of a call agree on is what they keep.

use serde_json::Value;

use crate::common::Folder;
use crate::common::host::beside;
use crate::common::program::{Running, taut, words};
use crate::common::sound::{Shape, Sound};
use crate::errors::is_refused;

fn served(home: &Folder, options: &str) -> (Running, String) {
    let line = format!("serve --listen 127.0.0.1:0 --report none --no-witness {options}");
    let serve = taut(words(&line)).listened_to().with("TAUT_HOME", home.path());
    let serve = serve.start().wait_for("listening for calls at ");
    let said = serve.said().last().unwrap();
    let address = said.split_whitespace().last().unwrap().to_owned();
    (serve, address)
}

#[test]
fn a_latency_that_the_other_ends_device_does_not_keep_is_raised_and_told_and_kept() {
    let _turn = beside();
    let home = Folder::new();
    // It plays 40 ms ahead, and its packets of 2.5 ms are 20 ms old when they leave.
    let devices = "--input tone:440 --output null: --period 960 --periods 2";
    let (serve, address) = served(&home, devices);
    let line = format!(
        "call {address} --report none --no-witness --input tone:300 --output null: --period 120 --periods 2 --latency 8ms"
    );
    let call = taut(words(&line)).with("TAUT_HOME", home.path()).controlled().start();
    let told = "a latency of 8ms was asked for, and the packets and devices of both ends leave no time for less than 43.5ms";
    let call = call.wait_for(told).wait_for("2.5ms per packet both ways, latency 43.5ms");
    let serve = serve.wait_for("2.5ms per packet both ways, latency 43.5ms");
    let call = call.becomes(|status| status.contains("latency 43.5ms"));
    // Nor is less taken while it sounds, and more is.
    let call = call.ask("latency 20ms", "ok ").wait_for("keeps to what was: ");
    assert!(call.said().last().unwrap().contains("no time for less than 43.5ms"));
    let call = call.becomes(|status| status.contains("latency 43.5ms"));
    let call = call.ask("latency 60ms", "ok ");
    let serve = serve.wait_for("the call is now l24 48000 Hz, 2 channels, 2.5ms per packet both");
    let call = call.becomes(|status| status.contains("latency 60ms"));
    let called = call.tell("quit").end().well();
    serve.signal("-TERM");
    let ended = serve.end().well();
    // Neither end found out later that it cannot, nor guessed what the other does.
    let told = [called.said, ended.said].concat();
    let doubts = |line: &&String| line.contains("is too little") || line.contains("are promised");
    assert_eq!(told.iter().find(doubts), None, "{told:#?}");
}

#[test]
fn no_end_of_a_call_records_over_the_file_that_it_plays() {
    let (home, folder) = (Folder::new(), Folder::new());
    let song = Sound::noise(Shape::STEREO_24, 100, 7);
    song.write(&folder.file("song.wav"));
    std::os::unix::fs::symlink(folder.file("song.wav"), folder.file("link.wav")).unwrap();
    for end in ["call 127.0.0.1:9", "serve --listen 127.0.0.1:0"] {
        let line = format!("{end} --input file:song.wav --output file:link.wav --overwrite");
        let end = taut(words(&line)).with("TAUT_HOME", home.path()).in_folder(folder.path());
        is_refused(&end, 2, "link.wav is the file that is played", "another file with --output");
    }
    Sound::read(&folder.file("song.wav")).is_exactly(&song);
}

#[test]
fn a_report_in_json_is_all_that_an_end_that_is_called_prints() {
    let _turn = beside();
    let home = Folder::new();
    let line = "serve --listen 127.0.0.1:0 --no-witness --input null: --output null: --report json";
    let serve = taut(words(line)).with("TAUT_HOME", home.path()).start();
    let serve = serve.wait_for("listening for calls at 127.0.0.1:");
    serve.signal("-TERM");
    let report: Value = serde_json::from_str(&serve.end().well().out).expect("a report alone");
    assert_eq!((&report["role"], &report["schema"]), (&"serve".into(), &1.into()));
}

#[test]
fn where_an_address_is_another_machines_that_is_said() {
    let home = Folder::new();
    let key = format!("{}=", "A".repeat(43));
    taut(words(&format!("trust studio {key}"))).with("TAUT_HOME", home.path()).run().well();
    // TEST-NET-1 of RFC 5737: nobody's.
    let serve = taut(words("serve --listen 192.0.2.1:0 --input null: --output null:"));
    let serve = serve.with("TAUT_HOME", home.path());
    is_refused(&serve, 3, "it is no address of this machine", "or 0.0.0.0 for all");
}
