//! Changes during a call, and messages for rejected ones.

use crate::calls::CalledMachine;
use crate::common::Folder;
use crate::common::host::alongside;
use crate::common::messages;
use tautline_trial::snapshot;

#[test]
fn opus_changes_its_bitrate_and_refuses_unsupported_packets() {
    let _turn = alongside();
    let home = Folder::new();
    let mut called = CalledMachine::at_home(home.path(), "");
    let options = "--format opus --bitrate 64k --input tone:300 --output null:";
    let call = called.call(home.path(), options).controlled().start();
    called.running = called.running.wait_for("at 64 kbit/s");
    let call = call.wait_for(messages::IN_A_CALL).request("bitrate 128k", "ok bitrate 128000");
    called.running = called.running.wait_for("at 128 kbit/s");
    let call = call.becomes(|status| status.contains("opus at 128 kbit/s"));
    let call = call.refuses("ptime 1ms");
    called.hears_a_second_more();
    let call = call.request("ptime 10ms", "ok ptime 10ms");
    called.running =
        called.running.wait_for(&messages::call_is_now(&messages::coded("opus", "10ms")));
    let call = call.request("format opus-voice", "ok ");
    called.running = called.running.wait_for(&messages::call_is_now("opus-voice"));
    let call = call.refuses("ptime 5ms");
    let call = call.request("format l24", "ok format l24");
    called.running =
        called.running.wait_for(&messages::call_is_now(&messages::coded("l24", "10ms")));
    let messages = call.enter("quit").end().well().messages;
    assert!(!messages.iter().any(|line| line.contains("control connection")), "{messages:#?}");
    let (ended, _) = called.ends();
    assert!(!ended.messages.iter().any(|line| line.contains("no message")), "{ended:#?}");
}

#[test]
fn transport_changes_and_impossible_ones_are_refused() {
    let _turn = alongside();
    let home = Folder::new();
    let called = CalledMachine::at_home(home.path(), "");
    let options = "--transport udp --input tone:300 --output null:";
    let call = called.call(home.path(), options).controlled().start();
    let call = call.wait_for(messages::IN_A_CALL);
    let call = call.refuses("latency 10h");
    let call = call.refuses("latency 2s");
    let call = call.refuses("volume -500dB");
    let refused = "refused ptime 1ms: ";
    let call = call.request("ptime 1ms", "ok ptime 1ms").wait_for(refused);
    snapshot!(call.messages().last().unwrap());
    let call = call.becomes(|status| status.contains("2.5ms, hears l24"));
    let call = call.request("mute", "ok mute");
    let call = call.becomes(|status| status.contains(", by udp, muted, "));
    let call = call.becomes(|status| {
        let measured = status.split_once(", measured ").map(|(_, rest)| rest);
        measured.is_some_and(|rest| rest.contains("ms, missed "))
    });
    let mut call = call.request("unmute", "ok ");
    for (transport, reported) in [("tcp", messages::BY_TCP), ("udp", messages::BY_UDP)] {
        let request = format!("transport {transport}");
        call = call.request(&request, &format!("ok {request}")).wait_for(reported);
        called.hears_a_second_more();
        call = call.becomes(|status| status.contains(&format!(", by {transport}, ")));
    }
    let call = call.refuses("transport pigeon");
    call.enter("quit").end().well();
    called.ends();
}

#[test]
fn held_call_reports_its_state() {
    let _turn = alongside();
    let home = Folder::new();
    let called = CalledMachine::at_home(home.path(), "");
    let options = "--hold --input tone:300 --output null:";
    let call = called.call(home.path(), options).controlled().start();
    let call = call.wait_for("without sound");
    let call = call.request("status", "ok status held");
    let call = call.refuses("latency 20ms");
    let call = call.refuses("ptime 5ms");
    let call = call.request("resume", "ok resume").wait_for(messages::CALL_SOUNDS);
    let call = call.request("latency 300ms", "ok latency 300ms");
    call.enter("quit").end().well();
    called.ends();
}

#[test]
fn coding_choice_survives_ptime_changes_and_can_be_released() {
    let _turn = alongside();
    let home = Folder::new();
    let mut called = CalledMachine::at_home(home.path(), "");
    let options = "--format auto --input tone:300 --output null:";
    let call = called.call(home.path(), options).controlled().start();
    let call = call.wait_for(messages::FORMAT_ADAPTS);
    // Opus adaptation needs packets of at least 5 ms.
    let kept = "the format no longer follows the network";
    let call = call.request("ptime 10ms", "ok ptime 10ms");
    called.running = called.running.wait_for("10ms per packet");
    let call = call.request("format l16", "ok format l16");
    called.running = called.running.wait_for(&messages::call_is_now("l16 "));
    let call = call.refuses("bitrate 64k");
    let call = call.request("format auto", "ok format auto");
    called.running = called.running.wait_for(&messages::call_is_now("opus"));
    let messages = call.enter("quit").end().well().messages;
    assert_eq!(messages.iter().filter(|line| line.contains(kept)).count(), 1, "{messages:#?}");
    called.ends();
}
