//! JACK and PipeWire hosts, compared with the local plugin during playback.

use serde_json::Value;

use super::worker::Worked;
use crate::common::host::shared;
use crate::common::jack::Server;
use crate::common::sound::{FileCoding, Shape, Sound};
use crate::pcm::is_there;

/// All returned blocks must be right. How many are in time depends on the machine.
#[track_caller]
fn played_what_it_should(reports: &[Value]) {
    let ran: Vec<&Value> = reports.iter().filter(|report| report["blocks"] != 0).collect();
    assert!(!ran.is_empty(), "none ran: {reports:#?}");
    for report in ran {
        let compared = &report["compared"];
        assert_eq!(compared["bit_identical"], true, "{report:#}");
        assert_eq!(report["streams_opened"]["worker"], 1, "{report:#}");
    }
}

#[test]
fn a_client_of_jack_plays_through_a_worker() {
    shared(|| {
        if !is_there("ecasound", "--version") {
            return;
        }
        let Some(server) = Server::start(256) else { return };
        let Some(worked) = Worked::start() else { return };
        let shape = Shape { coding: FileCoding::L16, ..Shape::STEREO_24 };
        Sound::noise(shape, 2500, 3).write(&worked.scene.folder.file("in.wav"));
        let line = "-q -f:f32_le,2,48000 -i in.wav -o jack -el:cmt:delay_5s@studio,0.1,0.5 -t:2";
        let call = worked.comparing(worked.scene.host("ecasound", line));
        call.with("JACK_DEFAULT_SERVER", &server.name).run().well();
        played_what_it_should(&worked.reports());
    });
}

#[cfg(feature = "pipewire")]
mod pipewire {
    use super::*;
    use crate::common::desktop::Desktop;

    const CHAIN: &str = "
context.properties = { support.dbus = false }
context.spa-libs = {
    audio.convert.* = audioconvert/libspa-audioconvert
    support.* = support/libspa-support
}
context.modules = [
    { name = libpipewire-module-protocol-native }
    { name = libpipewire-module-client-node }
    { name = libpipewire-module-adapter }
    { name = libpipewire-module-filter-chain args = {
        node.description = Room
        filter.graph = { nodes = [ {
            type = ladspa name = room plugin = tautline label = \"cmt:freeverb3@studio\"
            control = { \"Room Size\" = 0.7 } } ] }
        audio.channels = 2 audio.position = [ FL FR ]
        capture.props = { node.name = Room media.class = Audio/Sink }
        playback.props = { node.name = RoomOut target.object = Speakers } } }
]
";

    #[test]
    fn a_filter_chain_of_pipewire_plays_through_a_worker() {
        shared(|| {
            let Some(desktop) = Desktop::with_cycles_of(1024) else { return };
            let Some(worked) = Worked::start() else { return };
            let sound = worked.scene.folder.file("in.wav");
            Sound::noise(Shape { coding: FileCoding::L16, ..Shape::STEREO_24 }, 2000, 3)
                .write(&sound);
            let configuration = worked.scene.folder.file("chain.conf");
            std::fs::write(&configuration, CHAIN).unwrap();
            let chain = desktop.call("pipewire", "-c").and([configuration.as_os_str()]);
            let chain = worked.comparing(worked.scene.finding(chain)).start();
            desktop.wait_for("the chain", |objects| {
                objects.iter().any(|object| object["info"]["props"]["node.name"] == "RoomOut")
            });
            desktop.call("pw-cat", "-p --target Room").and([&sound]).run().well();
            chain.signal("-TERM");
            chain.end();
            played_what_it_should(&worked.reports());
        });
    }
}
