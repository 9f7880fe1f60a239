//! JACK and PipeWire programs on the called machine, with and without a caller.

use crate::calls::CalledMachine;
use crate::common::host::steady;
use crate::common::jack::Server;
use crate::common::messages;
use crate::common::program::{Call, Running, taut, words};
use crate::common::sound::Sound;
use crate::common::{Folder, PATIENT};

const TONE: &str = "--input tone:440";

fn called(serve: Call, input: &str, output: &str) -> CalledMachine {
    let folder = Folder::new();
    let line = words("--listen 127.0.0.1:0 --report none --input");
    let serve = serve.and(line).and([input, "--output", output]).and(PATIENT);
    CalledMachine::begun(serve.with("TAUT_HOME", folder.path()), folder)
}

fn call(called: &CalledMachine, received: &str) -> Running {
    let options = format!("{TONE} --output file:{received}");
    let call = called.call(called.folder.path(), &options).controlled();
    call.start().wait_for(messages::IN_A_CALL)
}

/// Rising zero crossings per second, from half a second after the start.
fn hertz(sound: &Sound, channel: usize) -> usize {
    let begins = sound.begins().expect("nothing but silence was heard");
    let from = begins + sound.shape.rate as usize / 2;
    let samples: Vec<i32> = (from..sound.frames()).map(|at| sound.frame(at)[channel]).collect();
    assert!(samples.len() > 12_000, "only {} frames were heard", samples.len());
    let rises = samples.windows(2).filter(|pair| pair[0] < 0 && pair[1] >= 0).count();
    rises * sound.shape.rate as usize / samples.len()
}

/// Asserts that this is only the caller's sound, except for a missing moment.
#[track_caller]
fn is_the_tone(sound: &Sound) {
    let hertz = hertz(sound, 0);
    assert!((420..=450).contains(&hertz), "{hertz} Hz");
}

fn goes_both_ways(server: &Server, called: &CalledMachine, received: &str) {
    let plays = server.client("jack_iodelay").listened_to().start();
    let plays = plays.wait_for(messages::JACK_LATENCY);
    server.client("jack_connect jack_delay:out speaker:in_1").run().well();
    let call = call(called, received);
    server.hears_sound("microphone:out_1");
    let file = called.folder.file("there.wav");
    let record = server.client("jack_rec -d 2 -b 16 -f").and([&file]);
    record.and(["microphone:out_1"]).run().well();
    is_the_tone(&Sound::read(&file));
    call.enter("quit").end().well();
    drop(plays);
    let received = Sound::read(&called.folder.file(received));
    let played = hertz(&received, 0);
    assert!(played > 1000, "{played} Hz");
    let other = (0..received.frames()).find(|frame| received.frame(*frame)[1] != 0);
    assert_eq!(other, None, "nothing is connected to speaker:in_2");
}

/// Asserts that at least half of the sampled pieces are bit-exact. Graphs on busy machines miss
/// cycles.
#[cfg(feature = "pipewire")]
#[track_caller]
fn has_a_piece_of(received: &Sound, sent: &Sound) {
    const PIECE: usize = 2 * 256;
    let begins =
        received.begins().expect("nothing but silence was heard") * received.shape.channels;
    let pieces = received.samples[begins..].chunks_exact(PIECE).skip(50).step_by(50);
    let was_sent = |piece: &[i32]| sent.samples.windows(PIECE).any(|window| window == piece);
    let (found, all) =
        pieces.fold((0, 0), |(found, all), piece| (found + usize::from(was_sent(piece)), all + 1));
    assert!(found > 0 && found * 2 >= all, "{found} of {all} pieces were sent");
}

mod exclusive {
    use super::*;

    #[test]
    fn jack_ports_outlive_callers_and_return_with_their_server() {
        steady(|| {
            let Some(mut server) = Server::start(256) else { return };
            let device = |name: &str| server.device(name, "none");
            let (speaker, microphone) = (device("speaker"), device("microphone"));
            let called = called(taut(["serve"]), &speaker, &microphone);
            let are_there = |server: &Server| {
                let speaker = server.await_ports("speaker:", 2);
                assert_eq!(speaker, ["speaker:in_1", "speaker:in_2"]);
                let microphone = server.await_ports("microphone:", 2);
                assert_eq!(microphone, ["microphone:out_1", "microphone:out_2"]);
            };
            are_there(&server);
            goes_both_ways(&server, &called, "first.wav");
            are_there(&server);
            server.signal("-KILL");
            server.stop();
            server.restart(512);
            are_there(&server);
            goes_both_ways(&server, &called, "second.wav");
            called.ends();
        });
    }

    #[cfg(feature = "pipewire")]
    #[test]
    fn pipewire_nodes_outlive_callers_and_carry_both_ways() {
        use crate::common::desktop::{Desktop, is_linked};
        use crate::common::sound::Shape;
        steady(|| {
            let Some(desktop) = Desktop::start() else { return };
            let called = called(desktop.taut("serve"), "pipewire:Speaker", "pipewire:Microphone");
            let are_there = || {
                for (name, class, ports) in
                    [("Speaker", "Audio/Sink", 4), ("Microphone", "Audio/Source", 2)]
                {
                    let node = desktop.node(name, ports);
                    assert_eq!(node["media.class"], class, "{node:#}");
                }
            };
            are_there();
            let sent = Sound::noise(Shape::STEREO_24, 60_000, 21);
            sent.write(&desktop.folder().join("sent.wav"));
            let player = desktop.pw_cat("--playback --target Speaker sent.wav").start();
            desktop.wait_for("a player", |objects| is_linked(objects, "pw-cat", "Speaker"));
            for (received, there) in [("first.wav", "there-1.wav"), ("second.wav", "there-2.wav")] {
                let call = call(&called, received);
                let line = "--record --target Microphone --format s24 --rate 48000 --channels 2";
                let record = desktop.pw_cat(&format!("{line} {there}")).start();
                let there = desktop.folder().join(there);
                crate::common::grows(&there, 3000);
                record.signal("-INT");
                record.end();
                call.enter("quit").end().well();
                is_the_tone(&Sound::read(&there));
                has_a_piece_of(&Sound::read(&called.folder.file(received)), &sent);
                are_there();
                desktop.wait_for("the player", |objects| is_linked(objects, "pw-cat", "Speaker"));
            }
            player.signal("-INT");
            player.end();
            called.ends();
        });
    }
}
