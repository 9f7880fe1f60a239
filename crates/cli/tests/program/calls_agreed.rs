//! What two ends of a call agree on is what they keep.

use crate::common::Folder;
use crate::common::host::beside;
use crate::common::program::{Running, taut, words};

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
