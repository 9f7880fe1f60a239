//! Both ends of a call keep the agreed terms.

use serde_json::Value;
use tautline_trial::snapshot;

use crate::calls::without_fade;
use crate::common::Folder;
use crate::common::host::alongside;
use crate::common::messages;
use crate::common::program::{Call, Running, taut, words};
use crate::common::sound::{FileCoding, Shape, Sound};
use crate::errors::is_refused;

fn served(home: &Folder, options: &str) -> (Running, String) {
    let line = format!("serve --listen 127.0.0.1:0 --report none --no-stall-monitor {options}");
    let serve = taut(words(&line)).listened_to().with("TAUT_HOME", home.path());
    let serve = serve.start().wait_for(messages::AWAITS_CALLS);
    let address = serve.address();
    (serve, address)
}

#[test]
fn latency_too_short_for_the_peers_device_is_raised() {
    let _turn = alongside();
    let home = Folder::new();
    // Its device buffer is 40 ms; its packets of 2.5 ms are 20 ms old at departure.
    let devices = "--input tone:440 --output null: --period 960 --periods 2";
    let (serve, address) = served(&home, devices);
    let line = format!(
        "call {address} --report none --no-stall-monitor --input tone:300 --output null: --period 120 --periods 2 --latency 8ms"
    );
    let call = taut(words(&line)).with("TAUT_HOME", home.path()).controlled().start();
    let call = call.wait_for(messages::LESS_LEAVES_NO_TIME);
    snapshot!(call.messages().last().unwrap());
    let call = call.wait_for("latency 43.5ms");
    let serve = serve.wait_for("latency 43.5ms");
    let call = call.becomes(|status| status.contains("latency 43.5ms"));
    let call = call.request("latency 20ms", "ok ").wait_for(messages::CALL_KEEPS);
    snapshot!("kept", call.messages().last().unwrap());
    let call = call.becomes(|status| status.contains("latency 43.5ms"));
    let call = call.request("latency 60ms", "ok ");
    let serve = serve.wait_for(&messages::call_is_now(&messages::coded("l24", "2.5ms")));
    let call = call.becomes(|status| status.contains("latency 60ms"));
    let called = call.enter("quit").end().well();
    serve.signal("-TERM");
    let ended = serve.end().well();
    let reported = [called.messages, ended.messages].concat();
    let doubts =
        |line: &&String| line.contains(messages::TOO_SHORT) || line.contains("the announced");
    assert_eq!(reported.iter().find(doubts), None, "{reported:#?}");
}

#[test]
fn auto_of_the_caller_overrides_a_fixed_latency_of_the_called_end() {
    let _turn = alongside();
    let home = Folder::new();
    let (serve, address) = served(&home, "--input null: --output null: --latency 90ms");
    for (option, agreed) in [("", "latency 90ms"), ("--latency auto", "latency auto")] {
        let line = format!("call {address} --report none --input null: --output null: {option}");
        let call = taut(words(&line)).with("TAUT_HOME", home.path()).controlled().start();
        let call = call.wait_for(messages::IN_A_CALL).becomes(|status| status.contains(agreed));
        call.enter("quit").end().well();
    }
    serve.signal("-TERM");
    serve.end().well();
}

#[test]
fn a_report_in_json_is_all_that_an_end_that_is_called_prints() {
    let _turn = alongside();
    let home = Folder::new();
    let line =
        "serve --listen 127.0.0.1:0 --no-stall-monitor --input null: --output null: --report json";
    let serve = taut(words(line)).with("TAUT_HOME", home.path()).start();
    let serve = serve.wait_for(messages::AWAITS_CALLS);
    serve.signal("-TERM");
    let report: Value = serde_json::from_str(&serve.end().well().out).expect("a report alone");
    assert_eq!((&report["role"], &report["schema"]), (&"serve".into(), &2.into()));
}

#[test]
fn address_of_another_machine_is_reported() {
    let home = Folder::new();
    let key = format!("{}=", "A".repeat(43));
    taut(words(&format!("trust studio {key}"))).with("TAUT_HOME", home.path()).run().well();
    // TEST-NET-1 of RFC 5737: unused.
    let serve = taut(words("serve --listen 192.0.2.1:0 --input null: --output null:"));
    let serve = serve.with("TAUT_HOME", home.path());
    is_refused(&serve, 3);
}

const fn shape(rate: u32, channels: usize) -> Shape {
    Shape { rate, channels, coding: FileCoding::L24 }
}

#[test]
fn caller_without_a_rate_takes_the_machines_rate_bit_exactly() {
    let _turn = alongside();
    let (home, folder) = (Folder::new(), Folder::new());
    let shape = shape(44_100, 1);
    let played = Sound::noise(shape, 8_000, 11);
    played.write(&folder.file("played.wav"));
    let input = format!("--input file:{}", folder.file("played.wav").display());
    // Late packets break the match.
    let patient = "--period 240 --periods 32 --latency 400ms";
    let (serve, address) = served(&home, &format!("{input} --output null: {patient}"));
    let line = format!(
        "call {address} --report none --no-stall-monitor --input null: --output file:heard.wav --duration 2s {patient}"
    );
    let call = taut(words(&line)).with("TAUT_HOME", home.path()).in_folder(folder.path());
    let called = call.run().well();
    let reported = "l24 44100 Hz, 1 channel, 2.5ms per packet both ways";
    assert!(called.messages.iter().any(|line| line.contains(reported)), "{called:#?}");
    serve.signal("-TERM");
    serve.end().well();
    let received = without_fade(Sound::read(&folder.file("heard.wav")));
    assert_eq!(received.shape, shape);
    let begins = received.begins().expect("what was played");
    let (first, received) = (&received.samples[begins..][..8], &received.samples[begins..]);
    let at = played.samples.windows(8).position(|piece| piece == first);
    let at = at.expect("a piece of what was played");
    let alike = received.iter().zip(&played.samples[at..]).take_while(|(a, b)| a == b).count();
    assert!(alike >= 22_050, "{alike} frames are as they were played");
    assert_eq!(alike, received.len(), "another sound after {alike} frames");
}

fn called(home: &Folder, address: &str, options: &str) -> Call {
    let line = format!("call {address} --report none --no-stall-monitor {options}");
    taut(words(&line)).with("TAUT_HOME", home.path()).in_folder(home.path())
}

#[test]
fn calls_keep_the_agreed_rate_with_and_without_sound() {
    let _turn = alongside();
    let home = Folder::new();
    let devices = "--input tone:440 --output null:";
    let (serve, address) = served(&home, &format!("--rate 16000 --channels 1 {devices}"));
    let call = called(&home, &address, &format!("{devices} --format auto"));
    // Opus is available at 48 kHz only.
    let reported = "lossless16 16000 Hz, 1 channel, 2.5ms per packet both ways";
    let call = call.controlled().start().wait_for(reported);
    let call = call.request("hold", "ok ").wait_for(messages::CALL_SILENT);
    let call = call.request("resume", "ok ").wait_for(messages::CALL_SOUNDS);
    assert!(call.messages().last().unwrap().contains(" 16000 Hz, 1 channel"));
    call.enter("quit").end().well();
    serve.signal("-TERM");
    serve.end().well();
}

#[test]
fn adaptive_server_adapts_callers_without_a_format() {
    let _turn = alongside();
    let home = Folder::new();
    std::fs::write(home.file("tautline.toml"), "[serve]\nformat = \"auto\"\n").unwrap();
    let (serve, address) = served(&home, "--input tone:440 --output null:");
    let options = "--input tone:300 --output null:";
    let call = called(&home, &address, options).controlled().start();
    call.wait_for(messages::FORMAT_ADAPTS).enter("quit").end().well();
    let serve = serve.wait_for(messages::FORMAT_ADAPTS);
    let call = called(&home, &address, &format!("{options} --format l16")).controlled().start();
    let call = call.wait_for(&messages::coded("l16", "2.5ms"));
    let call = call.becomes(|status| status.contains("sends l16"));
    call.enter("quit").end().well();
    serve.signal("-TERM");
    serve.end().well();
}

#[test]
fn packets_have_the_callers_length_if_a_period_fits() {
    let _turn = alongside();
    let home = Folder::new();
    let (serve, address) = served(&home, "--input tone:440 --output null:");
    for (requested, agreed) in [("--ptime 500us", "1ms"), ("", "2.5ms")] {
        let options = format!("--input tone:300 --output null: {requested}");
        let call = called(&home, &address, &options).controlled().start();
        call.wait_for(&messages::coded("l24", agreed)).enter("quit").end().well();
    }
    serve.signal("-TERM");
    serve.end().well();
}

#[test]
fn file_of_a_virtual_device_keeps_its_rate_and_transport() {
    let _turn = alongside();
    let home = Folder::new();
    // The server's device begins before the call, so its sound must outlast both.
    Sound::noise(shape(44_100, 2), 6_000, 3).write(&home.file("song.wav"));
    let song = format!("virtual:?source={}", home.file("song.wav").display());
    let (serve, address) = served(&home, &format!("--input {song} --output null:"));
    let options = format!("--input {song} --output null: --duration 4s");
    let reported = called(&home, &address, &options).run().well().messages;
    assert!(reported.iter().any(|line| line.contains("l24 44100 Hz, 2 channels")), "{reported:#?}");
    assert!(!reported.iter().any(|line| line.contains(messages::BY_TCP)), "{reported:#?}");
    serve.signal("-TERM");
    serve.end().well();
}

#[test]
fn requested_rate_is_kept_and_a_mismatch_is_refused() {
    let _turn = alongside();
    let home = Folder::new();
    let (serve, address) = served(&home, "--input tone:440 --output null:");
    let song = Sound::noise(shape(44_100, 2), 100, 3);
    song.write(&home.file("song.wav"));
    for options in [
        "--rate 44100 --input null: --output null:",
        // Has the file's rate.
        "--input file:song.wav --output null:",
    ] {
        let refused = called(&home, &address, options).run();
        assert_eq!(refused.status, Some(3), "{refused:#?}");
        snapshot!(options, refused.last());
    }
    let options = "--rate 48000 --input file:song.wav --output null:";
    let refused = called(&home, &address, options).run();
    snapshot!(options, refused.last());
    let options = "--channels 1 --input null: --output null:";
    let refused = called(&home, &address, options).run();
    snapshot!(options, refused.last());
    serve.signal("-TERM");
    serve.end().well();
}

#[test]
fn opus_at_another_rate_is_refused_with_the_reason() {
    let _turn = alongside();
    let home = Folder::new();
    let (serve, address) = served(&home, "--rate 16000 --input tone:440 --output null:");
    let call = called(&home, &address, "--format opus --input null: --output null:").run();
    assert_eq!(call.status, Some(3), "{call:#?}");
    snapshot!("call", call.last());
    serve.signal("-TERM");
    serve.end().well();
    // A server that could accept no caller does not start.
    let line = "serve --listen 127.0.0.1:0 --rate 16000 --format opus --input null: --output null:";
    let serve = taut(words(line)).with("TAUT_HOME", home.path()).run();
    assert_eq!(serve.status, Some(2), "{serve:#?}");
    snapshot!("serve", serve.last());
}
