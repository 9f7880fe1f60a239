//! `taut call` that is told of no device: it takes what is here.

use crate::calls::CalledMachine;
use crate::common::Folder;
use crate::common::host::{beside, shared, steady};
use crate::common::jack::Server;
use crate::common::program::{Call, taut, words};
use crate::errors::is_refused;

/// ALSA's default PCM plays, to nobody, and does not capture.
const PLAYS_ALONE: &str = "pcm.!default { type asym playback.pcm { type null } }";
const ECHO: &str = "what the loudspeaker plays is taken out of what the microphone hears";

/// Where no server runs that it could find, and ALSA has what this says.
fn among(call: Call, folder: &Folder, alsa: &str) -> Call {
    let file = folder.file("asound.conf");
    std::fs::write(&file, alsa).unwrap();
    ["XDG_RUNTIME_DIR", "PIPEWIRE_RUNTIME_DIR"]
        .into_iter()
        .fold(call, |call, key| call.with(key, folder.path()))
        .with("ALSA_CONFIG_PATH", file)
        .with("JACK_DEFAULT_SERVER", "taut-test-nobody")
}

#[test]
fn where_nothing_plays_a_call_ends_in_a_sentence_that_says_how_a_device_is_named() {
    shared(|| {
        let (folder, home) = (Folder::new(), Folder::new());
        // Nobody is called.
        let call = |options: &str| {
            let call = taut(words(&format!("call 127.0.0.1:9 {options}")));
            among(call.with("TAUT_HOME", home.path()), &folder, "")
        };
        let mend = "; name a device by --output DEVICE, of those that taut devices lists";
        is_refused(&call(""), 3, "nothing plays here: ", mend);
        is_refused(&call("--input null:"), 3, "nothing plays here: ", mend);
        let ended = call("--output null:").run();
        let told = "there is no microphone here, so silence is sent; --input names another";
        assert!(ended.said[0].contains(told), "{ended:#?}");
        let ended = call("--output null: --input null:").run();
        assert!(ended.said.iter().all(|line| !line.contains("microphone")), "{ended:#?}");
    });
}

#[test]
fn without_a_microphone_a_call_sends_silence_and_plays_by_the_default_pcm() {
    let _turn = beside();
    let (folder, home) = (Folder::new(), Folder::new());
    let called = CalledMachine::at_home(home.path(), "");
    let call = called.call(home.path(), "--duration 300ms");
    let ended = among(call, &folder, PLAYS_ALONE).run().well();
    let told = "there is no microphone here, so silence is sent, the loudspeaker is alsa:default; \
                --input and --output name others (taut devices lists them)";
    assert!(ended.said[0].contains(told), "{ended:#?}");
    assert!(ended.said.iter().any(|line| line.contains("in a call with ")), "{ended:#?}");
    assert!(ended.said.iter().all(|line| !line.contains(ECHO)), "{ended:#?}");
    called.ends();
}

#[test]
fn where_a_jack_server_runs_a_call_has_its_ports_and_takes_out_the_echo() {
    steady(|| {
        let test = "where_a_jack_server_runs_a_call_has_its_ports_and_takes_out_the_echo";
        let Some(server) = Server::start(test, 256) else { return };
        let (folder, home) = (Folder::new(), Folder::new());
        let called = CalledMachine::at_home(home.path(), "");
        let call = among(called.call(home.path(), ""), &folder, PLAYS_ALONE).controlled();
        let call = call.with("JACK_DEFAULT_SERVER", &server.name).start();
        let call = call.wait_for("the microphone is jack:taut, the loudspeaker is jack:taut; ");
        let call = call.wait_for(ECHO).wait_for("in a call with ");
        let ports = server.await_ports("taut", 4);
        let plays = ports.iter().find(|port| port.ends_with(":out_1")).expect("a port that plays");
        server.hears_sound(plays);
        call.tell("quit").end().well();
        called.ends();
    });
}
