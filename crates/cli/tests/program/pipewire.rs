//! In a PipeWire graph: named nodes, complete sound, and the configured latency.

mod delays;
mod rtp;

use serde_json::Value;
use tautline_trial::snapshot;

use self::delays::{delay, lab_with};
use crate::common::desktop::{Desktop, QUANTUM, is_linked, node, ports_of};
use crate::common::host::{mostly, steady, timed};
use crate::common::messages;
use crate::common::program::{Running, taut, words};
use crate::common::sound::{Shape, Sound};
use crate::common::{Folder, Lack, Onlooker, free_udp_ports, loopback, skipped};
use crate::errors::is_refused;

const BOTH: &str = "--latency 400ms --no-stall-monitor";
/// Attempts until the graph has taken all of a sound.
const GRAPHS: usize = 5;
const SHAPE: &str = "--rate 48000 --channels 2";

fn frames(latency_ms: usize) -> usize {
    latency_ms * 48
}

/// The file ends with a second of silence: pw-cat does not play an incomplete last cycle.
fn noise(desktop: &Desktop, millis: usize) -> Sound {
    let sent = Sound::noise(Shape::STEREO_24, millis, 16);
    let mut played = sent.clone();
    played.samples.extend(std::iter::repeat_n(0, 2 * 48_000));
    played.write(&desktop.folder().join("sent.wav"));
    sent
}

fn send(desktop: &Desktop, input: &str, to: &str) -> Running {
    desktop.taut(&format!("send --input {input} --to {to} --report none {BOTH}")).start()
}

fn sink(desktop: &Desktop, to: &str) -> Running {
    send(desktop, "pipewire:Kitchen", to).wait_for(messages::GRAPH_PERIOD)
}

fn recv(desktop: &Desktop, from: &str, output: &str) -> Running {
    let line = format!("recv --from {from} --output {output} --report json {SHAPE} {BOTH}");
    desktop.taut(&line).start()
}

/// Stops the recorder as a user does, so that the file is complete.
fn stop(recorder: Running) {
    recorder.signal("-INT");
    recorder.end();
}

fn record_both(desktop: &Desktop) -> Running {
    let record = "--record --target 0 --format s24 --rate 48000 --channels 2 both.wav";
    let record = desktop.pw_cat(record).start();
    desktop.node("pw-cat", 2);
    desktop.link("Kitchen:monitor_FL", "pw-cat:input_FL");
    desktop.link("Stage:capture_FL", "pw-cat:input_FR");
    record
}

#[test]
fn only_our_line_is_on_standard_error_despite_library_output() {
    let folder = Folder::new();
    let recv = format!("recv --output pipewire:x --from {}", loopback());
    // Without a client configuration, the library would print three lines.
    let recv = taut(words(&recv))
        .with("PIPEWIRE_CONFIG_DIR", folder.path())
        .with("XDG_RUNTIME_DIR", folder.path());
    is_refused(&recv, 3);
    let ended = recv.with("PIPEWIRE_DEBUG", "2").run();
    assert!(ended.messages.iter().any(|line| line.contains("pw.conf")), "{ended:#?}");
}

#[test]
fn impossible_settings_have_an_error_with_a_hint() {
    let Some(mut desktop) = Desktop::start() else { return };
    let ends = |desktop: &Desktop, line: &str, status: i32, says: &str| {
        let ended = desktop.taut(&line.replace("UDP", &free_udp_ports().to_string())).run();
        assert_eq!(ended.status, Some(status), "{line}: {ended:#?}");
        assert_eq!(ended.messages.len(), 1, "{line}: {ended:#?}");
        assert!(ended.messages[0].contains(says), "{line}: {ended:#?}");
    };
    let send = |input: &str| format!("send --input {input} --to rtp://127.0.0.1:UDP");
    let recv = |output: &str| format!("recv --output {output} --from rtp://127.0.0.1:UDP");
    let nowhere = "no target named 'Nowhere'\nhint: taut devices lists";
    ends(&desktop, &send("pipewire:taut?target=Nowhere"), 3, nowhere);
    ends(&desktop, &recv("pipewire:taut?target=Nowhere"), 3, nowhere);
    ends(&desktop, &recv("pipewire:taut?as=sink"), 2, "invalid value of as");
    let late = "--latency 5ms is too short: a receiver";
    ends(&desktop, &(send("pipewire:Kitchen") + " --latency 5ms"), 2, late);
    desktop.crash();
    ends(&desktop, &send("pipewire:Kitchen"), 3, "start it (systemctl --user start pipewire");
    let listed = desktop.taut("devices").run().well();
    assert!(!listed.out.contains("pipewire:"), "{}", listed.out);
}

mod exclusive {
    use super::*;

    #[test]
    fn a_sender_is_a_sink_and_a_receiver_a_source_of_their_names() {
        steady(|| {
            let Some(desktop) = Desktop::start() else { return };
            let address = loopback();
            let _send = sink(&desktop, &address);
            let _recv = recv(&desktop, &address, "pipewire:Stage");
            for (name, class, ports) in [("Kitchen", "Audio/Sink", 4), ("Stage", "Audio/Source", 2)]
            {
                let node = desktop.node(name, ports);
                assert_eq!(node["media.class"], class, "{node:#}");
                assert_eq!(node["node.description"], name, "{node:#}");
            }
            let listed = desktop.taut("devices").run().well().out;
            for name in
                ["pipewire:NAME", "pipewire:taut?target=Kitchen", "pipewire:taut?target=Stage"]
            {
                assert!(listed.contains(name), "{listed}");
            }
        });
    }

    #[test]
    fn sound_to_the_sink_is_bit_exact_and_on_time() {
        timed(|| {
            let Some(desktop) = Desktop::start() else { return };
            let sent = noise(&desktop, 1500);
            let address = loopback();
            let recv = recv(&desktop, &address, "file:heard.wav").listening();
            let send = sink(&desktop, &address);
            desktop.node("Kitchen", 4);
            desktop.pw_cat("--playback --target Kitchen sent.wav").run().well();
            send.signal("-INT");
            send.end().well();
            recv.signal("-INT");
            let report = recv.end().report();
            report.missed_nothing();
            Sound::read(&desktop.folder().join("heard.wav")).is_exactly(&sent);
            assert_eq!(report.stream("/latency/method"), "sound", "{:#}", report.0);
            let [configured, measured, uncertainty] =
                ["configured_ns", "measured/p50_ns", "uncertainty_ns"]
                    .map(|name| report.nanos(&format!("/latency/{name}")));
            let frame = 1_000_000_000 / 48_000 + 1;
            mostly(|| {
                assert!(
                    (measured - configured).abs() <= frame + uncertainty && uncertainty < 1_000_000,
                    "configured {configured}, measured {measured} ± {uncertainty}"
                );
            });
        });
    }

    #[test]
    fn pipewire_source_records_the_stream_bit_exact() {
        steady(|| {
            let Some(desktop) = Desktop::start() else { return };
            let sent = noise(&desktop, 1500);
            let address = loopback();
            let recv = recv(&desktop, &address, "pipewire:Stage").listening();
            desktop.node("Stage", 2);
            let record = "--record --target Stage --format s24 --rate 48000 --channels 2 heard.wav";
            let record = desktop.pw_cat(record).start();
            desktop.wait_for("a recorder", |objects| is_linked(objects, "Stage", "pw-cat"));
            send(&desktop, "file:sent.wav", &address).end().well();
            stop(record);
            recv.signal("-INT");
            recv.end().report().missed_nothing();
            Sound::read(&desktop.folder().join("heard.wav")).is_exactly(&sent);
        });
    }

    #[test]
    fn cycles_of_64_frames_play_complete_sound_on_time() {
        timed(|| {
            let (quantum, latency) = (64, 20);
            let Some(desktop) = Desktop::with_cycles_of(quantum) else { return };
            let timing = format!("--latency {latency}ms --period {quantum} --no-stall-monitor");
            let receive = |output: &str| {
                let address = loopback();
                let line = format!("recv --from {address} --output {output} {SHAPE} {timing}");
                (desktop.taut(&format!("{line} --report json")).start().listening(), address)
            };
            let send = |to: &str| {
                let line =
                    format!("send --input pipewire:Kitchen --to {to} --report json {timing}");
                let send = desktop.taut(&line).start();
                let send = send.wait_for("every 64 frames");
                desktop.node("Kitchen", 4);
                send
            };
            let sent = noise(&desktop, 300);
            let play = |_| {
                let (records, address) = receive("file:heard.wav --overwrite");
                let send = send(&address);
                desktop.pw_cat("--playback --target Kitchen sent.wav").run().well();
                records.signal("-INT");
                let report = records.end().report();
                send.signal("-INT");
                send.end().well();
                // A busy machine misses cycles of 1.3 ms; the graph's clock continues.
                let whole = report.count("skipped_frames") == 0;
                whole.then(|| Sound::read(&desktop.folder().join("heard.wav")))
            };
            match (0..GRAPHS).find_map(play) {
                Some(received) => {
                    let waits = received.is_exactly_but_for_waits_of(quantum, &sent);
                    assert!(
                        waits <= 2,
                        "{waits} cycles were silent, of {}",
                        sent.frames() / quantum
                    );
                }
                None => {
                    let why = format!(
                        "the graph let cycles out while each of {GRAPHS} sounds was played"
                    );
                    skipped(Lack::Host, &why);
                }
            }
            // Minus a cycle at each end, for the card.
            let configured = (frames(latency) - 2 * quantum) as f64;
            let is_right = |(measured, uncertainty): (f64, f64)| {
                (measured - configured).abs() <= uncertainty && uncertainty < 24.0
            };
            let measure = |_| {
                let (plays, address) = receive("pipewire:Stage");
                let send = send(&address);
                desktop.node("Stage", 2);
                let nodes = ("pipewire:Marks?target=Kitchen", "pipewire:Ear?target=Stage");
                let measured = delay(lab_with(quantum, &desktop, nodes, 3));
                let ends = [send, plays].map(|running| {
                    running.signal("-INT");
                    running.end().report()
                });
                let let_out = ends.map(|report| report.count("skipped_frames"));
                eprintln!("measured {measured:?} with {let_out:?} frames let out");
                // A graph that skips cycles may be late in the median, too
                // (docs/internals/latency-figures.md).
                (is_right(measured) || let_out == [0; 2]).then_some(measured)
            };
            let Some(measured) = (0..GRAPHS).find_map(measure) else {
                let why =
                    format!("the graph let cycles out while each of {GRAPHS} delays was measured");
                return skipped(Lack::Host, &why);
            };
            mostly(|| {
                assert!(is_right(measured), "configured {configured}, measured {measured:?}")
            });
        });
    }

    #[test]
    fn another_programs_recording_confirms_the_latency() {
        timed(|| {
            let Some(desktop) = Desktop::start() else { return };
            let sent = noise(&desktop, 1500);
            let address = loopback();
            let _recv = recv(&desktop, &address, "pipewire:Stage").listening();
            let _send = sink(&desktop, &address);
            desktop.node("Stage", 2);
            desktop.node("Kitchen", 4);
            let record = record_both(&desktop);
            for end in ["Kitchen", "Stage"] {
                desktop.wait_for("a link", |objects| is_linked(objects, end, "pw-cat"));
            }
            desktop.pw_cat("--playback --target Kitchen sent.wav").run().well();
            stop(record);
            let both = Sound::read(&desktop.folder().join("both.wav"));
            // A busy recorder may miss a cycle, so this searches a piece with both sounds.
            let at = |channel: usize, from: usize| {
                let is_here = |place: &usize| {
                    (0..64).all(|i| both.frame(place + i)[channel] == sent.frame(from + i)[0])
                };
                (0..both.frames() - 64).find(is_here)
            };
            let pieces = (1000..sent.frames() - 64).step_by(4000);
            let delay = |from| Some(at(1, from)? - at(0, from)?);
            let delays: Vec<usize> = pieces.filter_map(delay).collect();
            // The graph takes a cycle each way, like a sound card.
            let configured = frames(400) - 2 * QUANTUM;
            let exact = delays.iter().filter(|delay| **delay == configured).count();
            mostly(|| assert!(exact > delays.len() / 2, "not {configured} frames but {delays:?}"));
        });
    }

    #[test]
    fn graph_learns_the_networks_latency() {
        steady(|| {
            let Some(desktop) = Desktop::start() else { return };
            let address = loopback();
            let _recv = recv(&desktop, &address, "pipewire:Stage").listening();
            let _send = sink(&desktop, &address);
            // The latency without this end's cycle.
            let reported = 400_000_000 - (QUANTUM * 1_000_000_000 / 48_000) as i64;
            for (name, way) in [("Kitchen", "Input"), ("Stage", "Output")] {
                let objects = desktop.wait_for("a latency", |objects| {
                    let Some(node) = node(objects, name) else { return false };
                    let latencies = |port: &Value| port["info"]["params"]["Latency"].clone();
                    let ours = |latency: &Value| {
                        let [minimum, maximum] =
                            ["minNs", "maxNs"].map(|key| latency[key].as_i64());
                        latency["direction"] == way
                            && (minimum, maximum) == (Some(reported), Some(reported))
                    };
                    let notifies =
                        |port| latencies(port).as_array().is_some_and(|all| all.iter().any(ours));
                    ports_of(objects, node).any(notifies)
                });
                let node = node(&objects, name).unwrap();
                match &node["info"]["params"]["ProcessLatency"][0] {
                    Value::Null if desktop.is_before([1, 4, 0]) => {
                        let why = "PipeWire before 1.4 shows no ProcessLatency of streams";
                        skipped(Lack::Package, why);
                    }
                    process => assert_eq!(process["ns"], reported, "{process:#}"),
                }
            }
        });
    }

    #[test]
    fn a_stream_is_connected_to_the_device_that_is_named() {
        steady(|| {
            let Some(desktop) = Desktop::start() else { return };
            let address = loopback();
            let _recv = recv(&desktop, &address, "pipewire:Far?target=Speakers");
            desktop.wait_for("sound for the speakers", |objects| {
                is_linked(objects, "Far", "Speakers")
            });
            let _send = send(&desktop, "pipewire:Near?target=Speakers", &address);
            desktop.wait_for("sound of the speakers", |objects| {
                is_linked(objects, "Speakers", "Near")
            });
        });
    }

    #[test]
    fn changed_graph_period_is_followed_and_reported() {
        steady(|| {
            let Some(desktop) = Desktop::start() else { return };
            let send = send(&desktop, "pipewire:Kitchen", &loopback());
            let send = send.wait_for("every 4096 frames");
            let set = |key: &str, value: &str| {
                let line = format!("-n settings 0 clock.{key} {value}");
                desktop.call("pw-metadata", &line).run().well();
            };
            set("force-quantum", "8192");
            let send = send.wait_for("every 8192 frames");
            set("force-quantum", "0");
            set("force-rate", "44100");
            let send = send.wait_for("at 44100 Hz");
            send.signal("-INT");
            send.end().well();
        });
    }

    #[test]
    fn the_library_is_loaded_where_a_node_is_named_and_nowhere_else() {
        steady(|| {
            let Some(desktop) = Desktop::start() else { return };
            for (output, loads) in [("null:", false), ("pipewire:Stage", true)] {
                let recv = recv(&desktop, &loopback(), output).listening();
                assert_eq!(recv.has_loaded("libpipewire"), loads, "{output}");
            }
        });
    }

    #[test]
    fn a_server_that_goes_is_waited_for_and_its_graph_joined_again() {
        steady(|| {
            let Some(mut desktop) = Desktop::start() else { return };
            let send = sink(&desktop, &loopback());
            desktop.node("Kitchen", 4);
            desktop.crash();
            let send = send.wait_for(messages::TIMER_GOES_ON);
            desktop.begin();
            let send = send.wait_for(&messages::is_back("pipewire:Kitchen"));
            desktop.node("Kitchen", 4);
            send.signal("-INT");
            send.end().well();
        });
    }

    #[test]
    fn server_stall_is_bridged_by_a_timer_and_stop_works_at_once() {
        steady(|| {
            let Some(desktop) = Desktop::start() else { return };
            let onlooker = Onlooker::new();
            let sends = sink(&desktop, &onlooker.address());
            let ends = send(&desktop, "pipewire:Hall", &loopback());
            desktop.node("Kitchen", 4);
            desktop.node("Hall", 4);
            onlooker.handle(300);
            desktop.signal("-STOP");
            ends.signal("-INT");
            ends.end().well();
            let stalled = "pipewire:Kitchen: PipeWire does not call the node";
            let sends = sends.wait_for(stalled).wait_for(messages::TIMER_GOES_ON);
            // The gap is shorter than a second; the timer plays the rest.
            onlooker.handle(3000);
            desktop.signal("-CONT");
            let sends = sends.wait_for(&messages::is_back("pipewire:Kitchen"));
            onlooker.handle(500);
            desktop.signal("-STOP");
            onlooker.handle(3000);
            sends.signal("-INT");
            sends.end().well();
        });
    }

    #[test]
    fn server_without_a_session_manager_is_reported() {
        steady(|| {
            let Some(mut desktop) = Desktop::start() else { return };
            desktop.lose_manager();
            let line = format!("send --input pipewire:Kitchen --to {} --report none", loopback());
            let ended = desktop.taut(&line).run();
            assert_eq!(ended.status, Some(3), "{ended:#?}");
            snapshot!(ended.last());
        });
    }

    #[test]
    fn impossible_duplex_nodes_are_refused() {
        steady(|| {
            let Some(desktop) = Desktop::start() else { return };
            let refused = |device: &str, options: &str| {
                let line = format!("lab delay --output {device} --input {device} {options}");
                is_refused(&desktop.taut(&line), 3);
            };
            refused("pipewire:Loop?as=stream", "");
            refused("pipewire:Loop", "--rate 44100");
        });
    }
}
