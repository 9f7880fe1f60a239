//! Clients of a JACK server without a card (`jackd -d dummy`), measured with JACK's own tool.

use crate::common::host::{mostly, steady, timed};
use crate::common::jack::Server;
use crate::common::messages;
use crate::common::program::{Running, taut, words};
use crate::common::report::Report;
use crate::common::{Lack, Onlooker, loopback, median, skipped};
use crate::errors::is_refused;

fn send(device: &str, rest: &str) -> Running {
    taut(words("send --input")).and([device]).and(words(rest)).controlled().start()
}

fn recv(device: &str, rest: &str) -> Running {
    let rest = format!("{rest} --rate 48000");
    let call = taut(words("recv --output")).and([device]).and(words(&rest)).controlled();
    call.start().listening()
}

/// A path from the output of `jack_iodelay` to its input, in frames.
struct Measured {
    by_iodelay: f64,
    by_lab: f64,
    let_out: u64,
    late: u64,
    doubted: bool,
    evidence: String,
}

fn measured(server: &Server, latency: &str, ptime: &str) -> Measured {
    let iodelay = server.client("jack_iodelay").listened_to().start();
    let mut iodelay = iodelay.wait_for(messages::JACK_LATENCY);
    let address = loopback();
    let output = server.device("hears", "jack_delay:in");
    let timing = format!("--channels 1 --latency {latency} --report json");
    let recv = recv(&output, &format!("--from {address} {timing}"));
    let input = server.device("sends", "jack_delay:out");
    let send = send(&input, &format!("--to {address} --ptime {ptime} {timing}"));
    // Four per second. The first seconds belong to the servo.
    for _ in 0..48 {
        iodelay = iodelay.wait_for(messages::JACK_ROUNDTRIP).wait_for("backend arguments");
    }
    let readings =
        iodelay.messages().filter_map(|line| line.split_once(" frames")?.0.trim().parse().ok());
    let readings: Vec<f64> = readings.skip(16).collect();
    drop(iodelay);
    let (output, input) = (server.device("marks", "sends:"), server.device("ear", "hears:"));
    let lab = words("lab delay --channels 1 --settle 1s --duration 4s --report json --output");
    let lab = taut(lab).and([output]).and(words("--input")).and([input]).run().report();
    let nanos = lab.0["rows"][0]["measured"]["p50_ns"].as_f64();
    let by_lab = nanos.unwrap_or_else(|| panic!("{:#}", lab.0)) * 48_000.0 / 1e9;
    let ends = [send, recv].map(|end| end.request("quit", "ok").end().report());
    let let_out = ends.iter().map(|end| end.count("skipped_frames")).sum();
    let late = ends[1].count("late");
    let doubts = |end: &Report| end.notes().iter().any(|note| note.contains(messages::TOO_SHORT));
    let doubted = ends.iter().any(doubts);
    let by_iodelay = median(readings.iter().copied());
    let evidence = format!(
        "{latency}: {by_iodelay} by jack_iodelay, {by_lab} by taut, {let_out} let out, {late} late: \
         {readings:?} {:#}",
        lab.0["rows"][0]
    );
    Measured { by_iodelay, by_lab, let_out, late, doubted, evidence }
}

/// Measures a path up to five times. A cycle skipped by the server may displace an end for up to
/// 0.4 s (docs/internals/latency-figures.md) and spoil a median. The median of three or five must
/// be right.
fn measured_as(configured: f64, measure: impl Fn() -> Measured) -> Vec<Measured> {
    let near = |one: f64, other: f64| (one - other).abs() <= 4.8;
    let is_right = |all: &[Measured]| {
        let by_iodelay = median(all.iter().map(|one| one.by_iodelay));
        let by_lab = median(all.iter().map(|one| one.by_lab));
        near(by_iodelay, configured) && near(by_lab, by_iodelay)
    };
    let mut all = vec![measure()];
    while !is_right(&all) && all.len() < 5 && all.iter().any(|one| one.let_out > 0) {
        all.extend([measure(), measure()]);
    }
    let evidence: Vec<_> = all.iter().map(|one| &*one.evidence).collect();
    mostly(|| assert!(is_right(&all), "{configured} frames were configured: {evidence:?}"));
    all
}

fn playback(channel: u32) -> &'static str {
    if channel < 3 { "512 512" } else { "0 0" }
}

fn capture(channel: u32) -> &'static str {
    if channel < 3 { "256 256" } else { "0 0" }
}

#[test]
fn fault_of_a_jack_client_is_reported() {
    let send = |input: &str| {
        taut(words("send --to rtp://127.0.0.1:5004 --duration 10ms --input")).and([input])
    };
    let Some(server) = Server::start(256) else { return };
    is_refused(&send("jack:x?server=nobody"), 3);
    let long = format!("jack:{}?server={}", "x".repeat(200), server.name);
    is_refused(&send(&long), 3);
    let rate = taut(words("send --to rtp://127.0.0.1:5004 --rate 44100 --input"));
    let input = server.device("x", "none");
    is_refused(&rate.and([&input]), 3);
    let to = format!("--to {}", loopback());
    let odd = self::send(&server.device("x", "nobody:"), &to);
    odd.wait_for("'nobody:'").request("quit", "ok").end().well();
}

#[test]
fn missing_jack_is_an_error_with_the_package() {
    // Hides the library from this process and its children only.
    let hide = "set -e; found=$(ldconfig -p | sed -n 's/.*libjack\\.so\\.0.* => //p'); \
                for file in $found; do mount --bind /dev/null $(readlink -f $file); done; exec \"$@\"";
    let taut = env!("CARGO_BIN_EXE_taut");
    let call = crate::common::program::call("unshare", ["-m", "sh", "-c", hide, "sh"]);
    let may = crate::common::program::call("unshare", ["-m", "true"]).run();
    if may.status != Some(0) {
        return skipped(Lack::Privilege, "hiding a library needs root");
    }
    let send = words("send --to rtp://127.0.0.1:5004 --input jack:x");
    let call = call.and([taut]).and(send);
    is_refused(&call, 3);
}

mod exclusive {
    use super::*;

    #[test]
    fn jack_iodelay_and_lab_delay_measure_the_configured_latency() {
        timed(|| {
            let Some(server) = Server::start(48) else { return };
            for millis in [5, 8] {
                let latency = format!("{millis}ms");
                measured_as(f64::from(millis * 48), || measured(&server, &latency, "1ms"));
            }
        });
    }

    #[test]
    fn between_jack_programs_latency_is_a_packet_and_a_64_period() {
        timed(|| {
            let Some(server) = Server::start(64) else { return };
            // 140 frames: the path, and 0.25 ms for the network.
            let all = measured_as(140.0, || measured(&server, "2.92ms", "1334us"));
            for one in all {
                assert!(!one.doubted, "{}", one.evidence);
                // Only a skipped cycle makes packets late.
                mostly(|| assert!(one.late == 0 || one.let_out > 0, "{}", one.evidence));
            }
        });
    }

    #[test]
    fn receiver_at_64_frames_keeps_an_unrequested_latency() {
        steady(|| {
            let Some(server) = Server::start(64) else { return };
            let (onlooker, address) = (Onlooker::new(), loopback());
            let output = server.device("hears", "system");
            let recv = recv(&output, &format!("--from {address} --channels 1 --report json"));
            let to =
                format!("--to {address} --to {} --channels 1 --report json", onlooker.address());
            let send = send(&server.device("sends", "system"), &to);
            onlooker.handle(2000);
            let ends = [send, recv].map(|end| end.request("quit", "ok").end().report());
            let [promised, kept] =
                [&ends[0], &ends[1]].map(|end| end.nanos("/latency/configured_ns"));
            let raised = ends[1].notes().iter().any(|note| note.contains(" announces "));
            assert!(
                promised == kept && !raised,
                "promised {promised}, kept {kept}: {:#}",
                ends[1].0
            );
        });
    }

    #[test]
    fn ports_are_named_by_channel_with_their_latency() {
        steady(|| {
            let Some(server) = Server::start(256) else { return };
            let address = loopback();
            let output = format!("jack:hears?server={}", server.name);
            let recv = recv(&output, &format!("--from {address} --channels 3 --latency 50ms"));
            let input = format!("jack:sends?server={}", server.name);
            let send = send(&input, &format!("--to {address} --channels 3 --latency 50ms"));
            // The card takes one period for capture and two for playback. A third port stays
            // unconnected.
            for channel in [1, 2, 3] {
                // The ADC converted this sound 2400 − 512 frames ago.
                server.await_latencies(
                    &format!("hears:out_{channel}"),
                    playback(channel),
                    "1888 1888",
                );
                server.await_latencies(
                    &format!("sends:in_{channel}"),
                    "2144 2144",
                    capture(channel),
                );
            }
            let send = send.request("latency 60ms", "ok latency 60ms");
            server.await_latencies("sends:in_1", "2624 2624", "256 256");
            let recv = recv.request("latency 60ms", "ok latency 60ms");
            server.await_latencies("hears:out_1", "512 512", "2368 2368");
            for running in [send, recv] {
                running.request("quit", "ok").end().well();
            }
        });
    }

    #[test]
    fn latency_minimum_follows_the_connected_jack_port() {
        steady(|| {
            let Some(server) = Server::start(64) else { return };
            let _iodelay =
                server.client("jack_iodelay").listened_to().start().wait_for("capture latency");
            let (onlooker, address) = (Onlooker::new(), loopback());
            let timing = "--channels 1 --latency 20ms";
            let recv = recv(&server.device("hears", "none"), &format!("--from {address} {timing}"));
            let to = format!("--to {address} --to {} --ptime 1334us {timing}", onlooker.address());
            let send = send(&server.device("sends", "none"), &to);
            onlooker.handle(1000);
            // A packet, two periods to a card that may follow, and the one being filled.
            let recv = recv.refuses("latency 2.92ms");
            let patch = |command: &str| server.client(&format!("jack_{command}")).run().well();
            patch("connect hears:out_1 jack_delay:in");
            // 2048 cycles, and a polling interval.
            onlooker.handle(3500);
            let recv = recv
                .request("status", "latency 20ms")
                .request("latency 2.92ms", "ok latency 2.92ms");
            patch("disconnect hears:out_1 jack_delay:in");
            patch("connect hears:out_1 system:playback_1");
            let recv = recv.wait_for(messages::TOO_SHORT);
            for running in [send, recv] {
                running.request("quit", "ok").end().well();
            }
        });
    }

    #[test]
    fn two_clients_of_one_name_are_distinguished() {
        steady(|| {
            let Some(server) = Server::start(256) else {
                return;
            };
            let input = server.device("same", "none");
            let to = format!("--to {}", loopback());
            let first = send(&input, &to).wait_for("'same'");
            let second = send(&input, &to).wait_for("'same-01'");
            let ports = server.latencies("same");
            let mut names: Vec<&str> = ports.iter().map(|(name, _)| name.as_str()).collect();
            names.sort_unstable();
            assert_eq!(names, ["same-01:in_1", "same-01:in_2", "same:in_1", "same:in_2"]);
            for running in [first, second] {
                running.request("quit", "ok").end().well();
            }
        });
    }

    #[test]
    fn sound_goes_on_when_the_server_is_back() {
        steady(|| {
            let Some(mut server) = Server::start(256) else {
                return;
            };
            let (onlooker, address) = (Onlooker::new(), loopback());
            let timing = "--channels 2 --latency 100ms";
            let recv =
                recv(&server.device("hears", "system"), &format!("--from {address} {timing}"));
            let to = format!("--to {address} --to {} {timing}", onlooker.address());
            let send = send(&server.device("sends", "system"), &to);
            onlooker.handle(300);
            server.stop();
            let gone = messages::TIMER_GOES_ON;
            let (send, recv) = (send.wait_for(gone), recv.wait_for(gone));
            // A timer sends the packets.
            onlooker.handle(500);
            server.restart(512);
            let (send, recv) = (
                send.wait_for(&messages::is_back("sends")),
                recv.wait_for(&messages::is_back("hears")),
            );
            onlooker.handle(500);
            server.await_latencies("hears:out_2", "1024 1024", "3776 3776");
            for running in [send, recv] {
                running.request("quit", "ok").end().well();
            }
        });
    }

    #[test]
    fn a_server_that_freewheels_or_gets_another_buffer_is_survived() {
        steady(|| {
            let Some(server) = Server::start(128) else { return };
            let (onlooker, address) = (Onlooker::new(), loopback());
            let timing = "--channels 2 --latency 100ms";
            let mut recv =
                recv(&server.device("hears", "none"), &format!("--from {address} {timing}"));
            let _tone = self::send("tone:440", &format!("--to {address} {timing}"));
            let to = format!("--to {} {timing}", onlooker.address());
            let mut send = send(&server.device("sends", "system"), &to);
            onlooker.handle(300);
            server.hears_sound("hears:out_2");
            for buffer in [1024, 32, 128] {
                server.client(&format!("jack_bufsize {buffer}")).run();
                let reported = format!("the JACK server's buffer now has {buffer} frames");
                (send, recv) = (send.wait_for(&reported), recv.wait_for(&reported));
                onlooker.handle(300);
                server.hears_sound("hears:out_2");
            }
            server.client("jack_freewheel y").run().well();
            let reported = "started to freewheel: silence";
            let (send, recv) = (send.wait_for(reported), recv.wait_for(reported));
            server.client("jack_freewheel n").run().well();
            let reported = "the JACK server stopped freewheeling";
            let (send, recv) = (send.wait_for(reported), recv.wait_for(reported));
            onlooker.handle(300);
            server.hears_sound("hears:out_2");
            let report = send.request("quit", "ok").end().well().out;
            assert!(report.contains("packets"), "{report}");
            recv.request("quit", "ok").end().well();
        });
    }

    #[test]
    fn xruns_of_the_jack_server_are_counted_at_both_ends() {
        steady(|| {
            let Some(server) = Server::start(256) else { return };
            let (onlooker, address) = (Onlooker::new(), loopback());
            let timing = "--channels 2 --latency 100ms --report json";
            let recv = recv(&server.device("hears", "none"), &format!("--from {address} {timing}"));
            let to = format!("--to {address} --to {} {timing}", onlooker.address());
            let send = send(&server.device("sends", "none"), &to);
            onlooker.handle(300);
            // JACK notifies all clients of the missed cycles. It removes this client after half a
            // second.
            recv.signal("-STOP");
            onlooker.handle(150);
            recv.signal("-CONT");
            onlooker.handle(300);
            for running in [send, recv] {
                let report = running.request("quit", "ok").end().report();
                assert!(report.count("xruns") >= 1, "{:#}", report.0);
            }
        });
    }

    #[test]
    fn silent_server_is_not_waited_for() {
        steady(|| {
            let Some(server) = Server::start(256) else { return };
            server.signal("-STOP");
            let send = taut(words("send --to rtp://127.0.0.1:5004 --input"));
            let call = send.and([server.device("x", "none")]);
            is_refused(&call, 3);
            server.signal("-CONT");
        });
    }

    #[test]
    fn server_stall_is_bridged_by_a_timer_and_stop_works_at_once() {
        steady(|| {
            let Some(server) = Server::start(256) else { return };
            let (onlooker, address) = (Onlooker::new(), loopback());
            let timing = "--channels 2 --latency 100ms";
            let recv =
                recv(&server.device("hears", "system"), &format!("--from {address} {timing}"));
            let to = format!("--to {address} --to {} {timing}", onlooker.address());
            let sends = send(&server.device("sends", "system"), &to);
            let ends =
                send(&server.device("ends", "system"), &format!("--to {} {timing}", loopback()));
            let ends = ends.wait_for("'ends'");
            server.await_latencies("ends:in_2", "4544 4544", "256 256");
            onlooker.handle(300);
            server.signal("-STOP");
            ends.signal("-INT");
            ends.end().well();
            let stalled = messages::JACK_STALLED;
            let (sends, recv) = (sends.wait_for(stalled), recv.wait_for(stalled));
            // The gap is half a second; the timer plays the rest.
            onlooker.handle(2500);
            let sends = sends.wait_for(messages::NO_ANSWER);
            server.signal("-CONT");
            let (sends, recv) = (
                sends.wait_for(&messages::is_back("sends")),
                recv.wait_for(&messages::is_back("hears")),
            );
            onlooker.handle(500);
            server.signal("-STOP");
            onlooker.handle(2500);
            for running in [sends, recv] {
                running.signal("-INT");
                running.end().well();
            }
        });
    }

    #[test]
    fn retries_at_a_stopped_jack_server_leave_one_client() {
        steady(|| {
            let Some(server) = Server::start(256) else { return };
            let watch = server.client("jack_evmon").listened_to().start();
            let watch = watch.wait_for("Graph reordered");
            let onlooker = Onlooker::new();
            let to = format!("--to {} --latency 100ms", onlooker.address());
            let sends = send(&server.device("sends", "none"), &to);
            let watch = watch.wait_for(messages::JACK_WATCHED);
            onlooker.handle(300);
            server.signal("-STOP");
            let sends = sends.wait_for(messages::NO_ANSWER);
            onlooker.handle(8000);
            server.signal("-CONT");
            sends.wait_for(&messages::is_back("sends")).request("quit", "ok").end().well();
            watch.signal("-INT");
            let seen = watch.end().out;
            // JACK is queried, runs, hangs, and runs again.
            let arrived = seen.lines().filter(|line| line.starts_with("Client sends"));
            let arrived = arrived.filter(|line| line.ends_with(" registered")).count();
            assert_eq!(arrived, 4, "{seen}");
        });
    }

    #[test]
    fn devices_lists_the_server_that_runs() {
        steady(|| {
            let Some(server) = Server::start(256) else { return };
            let taut = env!("CARGO_BIN_EXE_taut");
            let listed = server.client(&format!("{taut} devices")).run().well().out;
            let line = "jack:taut";
            assert!(
                listed.contains(line)
                    && listed.contains("48000 Hz")
                    && listed.contains("periods of 256"),
                "{listed}"
            );
        });
    }
}
