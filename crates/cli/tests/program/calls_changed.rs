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
