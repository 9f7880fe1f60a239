//! Log of `taut work` during use.

use std::process::Command;

use crate::common::program::{taut, words};
use crate::offload::{TestWorker, children, cost_library};

const PLUGIN: &str = "libtautline_ladspa_cost:waste_time";

#[test]
fn worker_logs_its_clients_and_their_events() {
    let mut worker = TestWorker::start(&[&cost_library()], "");
    let (client, opened) = (worker.client(), worker.open(PLUGIN, 48_000, 64));
    let id = opened.stream.id;
    let begins = format!("taut: stream {id} opens for 127.0.0.1: {PLUGIN} at 48000 Hz");
    worker.running = worker.running.wait_for(&begins);
    assert!(client.close(id).unwrap());
    let ends = format!(
        "taut: stream {id} of 127.0.0.1 ends, closed by 127.0.0.1: {PLUGIN} at 48000 Hz, 0 blocks"
    );
    worker.running = worker.running.wait_for(&ends);
    assert!(worker.running.messages().last().unwrap().ends_with(", 0 missed"));
    let id = worker.open(PLUGIN, 48_000, 64).stream.id;
    let child = children(&worker.running.id())[0].to_string();
    assert!(Command::new("kill").args(["-KILL", &child]).status().unwrap().success());
    let anew = format!("taut: stream {id} of 127.0.0.1 is restarted: {PLUGIN}: running");
    worker.running = worker.running.wait_for(&anew);
    worker.running.signal("-TERM");
    let ended = worker.running.end().well();
    let last = ended.messages.last().unwrap();
    assert!(last.starts_with(&format!("taut: stream {id} of 127.0.0.1 ")), "{last}");
    assert!(!ended.messages.iter().any(|line| line.contains("UDP port")), "{ended:#?}");
}

#[test]
fn quiet_worker_hides_streams_and_verbose_one_shows_ports() {
    for (options, expected) in [("-q", 0), ("-v", 1)] {
        let worker = TestWorker::start(&[&cost_library()], options);
        let stream = worker.open(PLUGIN, 48_000, 64).stream;
        worker.running.signal("-TERM");
        let ended = worker.running.end().well();
        let port = format!("stream {}: UDP port {}", stream.id, stream.udp_port);
        let of_port = ended.messages.iter().filter(|line| line.contains(&port)).count();
        assert_eq!(of_port, expected, "{ended:#?}");
        let others = ended.messages.iter().filter(|line| line.contains("stream ")).count();
        assert_eq!(others, 3 * expected, "{ended:#?}");
    }
}

#[test]
fn worker_help_matches_its_behaviour() {
    let help = taut(words("work --help")).run().well().out;
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(help.contains("UDP port"), "{help}");
    for others in ["resyncs", "live line", "--report"] {
        assert!(!help.contains(others), "{others}: {help}");
    }
}
