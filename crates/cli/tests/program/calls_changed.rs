//! What may be changed of a call while it sounds, and what is refused in a sentence.

use crate::calls::CalledMachine;
use crate::common::Folder;
use crate::common::host::beside;

#[test]
fn packets_that_opus_has_not_are_refused_in_a_sentence_and_the_call_goes_on() {
    let _turn = beside();
    let home = Folder::new();
    let mut called = CalledMachine::at_home(home.path(), "");
    let options = "--format opus --input tone:300 --output null:";
    let call = called.call(home.path(), options).controlled().start();
    let call = call.wait_for("in a call with ");
    let refused = "error ptime 1ms: opus has no packets of 1ms, and of 2.5ms, 5ms, 10ms or 20ms; ask for one of these";
    let call = call.ask("ptime 1ms", refused);
    called.hears_a_second_more();
    // The line is there, and takes the next.
    let call = call.ask("ptime 10ms", "ok ptime 10ms");
    called.running = called.running.wait_for("the call is now opus 48000 Hz, 2 channels, 10ms");
    let call = call.ask("format opus-voice", "ok format opus-voice");
    called.running = called.running.wait_for("the call is now opus-voice");
    let call = call.ask("ptime 5ms", "error ptime 5ms: opus-voice has no packets of 5ms");
    let call = call.ask("format l24", "ok format l24");
    called.running = called.running.wait_for("the call is now l24 48000 Hz, 2 channels, 10ms");
    let said = call.tell("quit").end().well().said;
    assert!(!said.iter().any(|line| line.contains("control connection")), "{said:#?}");
    let (ended, _) = called.ends();
    assert!(!ended.said.iter().any(|line| line.contains("no message")), "{ended:#?}");
}

#[test]
fn what_cannot_be_is_refused_before_it_is_asked_for_or_by_a_line_that_names_it() {
    let _turn = beside();
    let home = Folder::new();
    let called = CalledMachine::at_home(home.path(), "");
    let call = called.call(home.path(), "--input tone:300 --output null:").controlled().start();
    let call = call.wait_for("in a call with ");
    let call = call.ask("latency 10h", "no latency is longer than 5s; write latency 5s or less");
    let call =
        call.ask("latency 2s", "error latency 2s: a latency of 2s is more than the 462.5ms that");
    let call = call.ask("volume -500dB", "down to -144");
    // The end that is called takes none so short, and says which it takes.
    let refused = "refused ptime 1ms: ";
    let call = call.ask("ptime 1ms", "ok ptime 1ms").wait_for(refused);
    let said = call.said().last().unwrap();
    assert!(
        said.contains(
            "keeps to what was: packets of 1ms are not had here, and those of 2.5ms to 20ms are;"
        ),
        "{said}"
    );
    let call = call.becomes(|status| status.contains("sends l24 in packets of 2.5ms, hears l24"));
    let call = call.ask("mute", "ok ");
    let call = call.becomes(|status| status.contains(", by udp, muted, lost "));
    call.tell("quit").end().well();
    called.ends();
}

#[test]
fn a_call_that_is_held_says_so_to_whoever_asks() {
    let _turn = beside();
    let home = Folder::new();
    let called = CalledMachine::at_home(home.path(), "");
    let options = "--hold --input tone:300 --output null:";
    let call = called.call(home.path(), options).controlled().start();
    let call = call.wait_for("without sound");
    let call = call.ask("status", "ok status held; say resume");
    let call = call.ask("latency 20ms", "error latency 20ms: held; say resume");
    let call = call.ask("ptime 5ms", "error ptime 5ms: held; say resume");
    let call = call.ask("resume", "ok resume").wait_for("the call has sound");
    let call = call.ask("latency 300ms", "ok latency 300ms");
    call.tell("quit").end().well();
    called.ends();
}

#[test]
fn the_choice_of_a_coding_survives_other_packets_and_is_given_back_and_taken_up_again() {
    let _turn = beside();
    let home = Folder::new();
    let mut called = CalledMachine::at_home(home.path(), "");
    let options = "--codec auto --input tone:300 --output null:";
    let call = called.call(home.path(), options).controlled().start();
    let call = call.wait_for("as the network carries it: ");
    // Opus is tried in packets of 5 ms and longer.
    let kept = "the coding is kept from now on";
    let call = call.ask("ptime 10ms", "ok ptime 10ms");
    called.running = called.running.wait_for("10ms per packet");
    let call = call.ask("format l16", "ok format l16");
    called.running = called.running.wait_for("the call is now l16 48000 Hz");
    let call = call.ask("bitrate 64k", "error bitrate 64k: l16 takes what its sound takes");
    let call = call.ask("format auto", "ok format auto");
    called.running = called.running.wait_for("the call is now there opus");
    let said = call.tell("quit").end().well().said;
    assert_eq!(said.iter().filter(|line| line.contains(kept)).count(), 1, "{said:#?}");
    called.ends();
}

#[test]
fn a_bit_rate_is_chosen_as_a_call_begins_and_while_it_sounds() {
    let _turn = beside();
    let home = Folder::new();
    let mut called = CalledMachine::at_home(home.path(), "");
    let options = "--format opus --bitrate 64k --input tone:300 --output null:";
    let call = called.call(home.path(), options).controlled().start();
    called.running = called.running.wait_for("2.5ms per packet at 64 kbit/s both ways");
    let call = call.ask("bitrate 128k", "ok bitrate 128000");
    called.running = called.running.wait_for("2.5ms per packet at 128 kbit/s both ways");
    let call = call.becomes(|status| status.contains("sends opus at 128 kbit/s"));
    call.tell("quit").end().well();
    called.ends();
}

#[test]
fn the_transport_is_chosen_while_a_call_sounds() {
    let _turn = beside();
    let home = Folder::new();
    let called = CalledMachine::at_home(home.path(), "");
    let options = "--transport udp --input tone:300 --output null:";
    let call = called.call(home.path(), options).controlled().start();
    let call = call.wait_for("in a call with ");
    let call = call.ask("transport tcp", "ok transport tcp").wait_for("the sound goes by TCP");
    called.hears_a_second_more();
    let call = call.becomes(|status| status.contains(", by tcp, "));
    let call = call.ask("transport udp", "ok transport udp").wait_for("the sound goes by UDP");
    called.hears_a_second_more();
    let call = call.ask("transport pigeon", "write udp, tcp or auto");
    call.tell("quit").end().well();
    called.ends();
}
