//! `taut call` with the default devices.

use crate::calls::CalledMachine;
use crate::common::Folder;
use crate::common::host::{alongside, steady};
use crate::common::jack::Server;
use crate::common::messages;
use crate::common::program::{Call, taut, words};
use crate::errors::is_refused;
use tautline_trial::snapshot;

/// ALSA's default PCM plays to nothing and does not capture.
const PLAYS_ALONE: &str = "pcm.!default { type asym playback.pcm { type null } }";
const ECHO: &str = messages::ECHO_OFF;

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
fn call_without_a_loudspeaker_fails_with_a_hint() {
    // Independent of time, so a busy host excuses no failure.
    let _turn = alongside();
    let (folder, home) = (Folder::new(), Folder::new());
    let call = |options: &str| {
        let call = taut(words(&format!("call 127.0.0.1:9 {options}")));
        among(call.with("TAUT_HOME", home.path()), &folder, "")
    };
    is_refused(&call(""), 3);
    is_refused(&call("--input null:"), 3);
    let ended = call("--output null:").run();
    snapshot!("without --input", ended.messages[0]);
    let ended = call("--output null: --input null:").run();
    assert!(ended.messages.iter().all(|line| !line.contains("microphone")), "{ended:#?}");
}

#[test]
fn call_without_a_microphone_sends_silence_to_default_pcm() {
    let _turn = alongside();
    let (folder, home) = (Folder::new(), Folder::new());
    let called = CalledMachine::at_home(home.path(), "");
    let call = called.call(home.path(), "--duration 300ms");
    let ended = among(call, &folder, PLAYS_ALONE).run().well();
    snapshot!(ended.messages[0]);
    assert!(ended.messages.iter().any(|line| line.contains(messages::IN_A_CALL)), "{ended:#?}");
    assert!(ended.messages.iter().all(|line| !line.contains(ECHO)), "{ended:#?}");
    called.ends();
}

mod exclusive {
    use super::*;

    #[test]
    fn call_beside_a_jack_server_has_ports_and_keeps_the_echo() {
        steady(|| {
            let Some(server) = Server::start(256) else { return };
            let (folder, home) = (Folder::new(), Folder::new());
            let called = CalledMachine::at_home(home.path(), "");
            let call = among(called.call(home.path(), ""), &folder, PLAYS_ALONE).controlled();
            let call = call.with("JACK_DEFAULT_SERVER", &server.name).start();
            let call = call.wait_for(&messages::devices("jack:taut", "jack:taut"));
            let call = call.wait_for(messages::IN_A_CALL);
            let ports = server.await_ports("taut", 4);
            let plays =
                ports.iter().find(|port| port.ends_with(":out_1")).expect("a port that plays");
            server.hears_sound(plays);
            let ended = call.enter("quit").end().well();
            assert!(ended.messages.iter().all(|line| !line.contains(ECHO)), "{ended:#?}");
            called.ends();
        });
    }

    #[cfg(feature = "pipewire")]
    #[test]
    fn call_on_a_desktop_is_a_stream_to_the_default_device() {
        use crate::common::desktop::{Desktop, is_linked, node};
        use crate::common::loopback;
        steady(|| {
            let Some(desktop) = Desktop::start() else { return };
            let (folder, home) = (Folder::new(), Folder::new());
            let called = CalledMachine::at_home(home.path(), "");
            let call = |reported: &str| {
                let call = among(called.call(home.path(), ""), &folder, PLAYS_ALONE);
                let call = ["XDG_RUNTIME_DIR", "PIPEWIRE_RUNTIME_DIR"]
                    .into_iter()
                    .fold(call, |call, key| call.with(key, desktop.folder()));
                call.controlled().start().wait_for(reported).wait_for(messages::IN_A_CALL)
            };
            let deaf = call(&messages::loudspeaker("pipewire:taut?as=stream"));
            desktop.wait_for("a way to the speakers", |objects| {
                is_linked(objects, "taut", "Speakers")
            });
            deaf.enter("quit").end().well();
            let line = format!(
                "recv --from {} --output pipewire:Stage --report none --rate 48000 --channels 2",
                loopback()
            );
            let stage = desktop.taut(&line).start();
            desktop.node("Stage", 2);
            let stream = "pipewire:taut?as=stream";
            let both = call(&messages::devices(stream, stream));
            // Two streams have the same name.
            desktop.wait_for("a way from the source", |objects| {
                let stage = node(objects, "Stage").map(|stage| &stage["id"]);
                objects.iter().any(|object| {
                    let link = &object["info"];
                    stage == Some(&link["output-node-id"]) && link["state"] == "active"
                })
            });
            both.enter("quit").end().well();
            stage.signal("-INT");
            stage.end();
            called.ends();
        });
    }
}
