//! `taut lab delay` on a duplex device.

use crate::common::host::steady;
use crate::common::jack::Server;
use crate::common::program::{taut, words};
use crate::errors::is_refused;

fn delay(device: &str) -> Vec<String> {
    ["lab", "delay", "--output", device, "--input", device].map(str::to_owned).into()
}

#[test]
fn a_file_is_no_device_that_goes_both_ways() {
    is_refused(&taut(delay("file:song.wav")), 3);
}

mod exclusive {
    use super::*;

    #[test]
    fn cable_within_one_card_is_measured_to_the_frame() {
        steady(|| {
            let call = taut(delay("virtual:?loopback=480&ppm=50"));
            let run = call.and(words("--settle 100ms --duration 1s --report json")).run();
            let report = run.report();
            let row = &report.0["rows"][0];
            // One clock: its offset affects both times.
            let late = row["measured"]["p50_ns"].as_i64().map(|median| median - 10_000_000);
            let unsure = row["uncertainty_ns"].as_i64().unwrap();
            let found = late.is_some_and(|late| late.abs() <= 500 + unsure);
            assert!(unsure < 1_000 && found, "{:#}", report.0);
        });
    }

    #[test]
    fn duplex_jack_client_receives_itself_one_cycle_later() {
        steady(|| {
            let Some(server) = Server::start(256) else { return };
            // Its own ports start with its name.
            let call = taut(delay(&server.device("loop", "loop:")));
            let run = call.and(words("--settle 500ms --duration 2s --report json")).start();
            server.await_latencies("loop:out_2", "0 0", "0 0");
            let ports = server.await_ports("loop", 1);
            assert_eq!(ports, ["loop:in_1", "loop:in_2", "loop:out_1", "loop:out_2"]);
            let report = run.end().report();
            let row = &report.0["rows"][0];
            // 256 frames are 5.333 ms.
            let frames = row["measured"]["p50_ns"].as_f64().unwrap() * 48_000.0 / 1e9;
            assert!((frames - 256.0).abs() < 1.0, "{frames} frames: {:#}", report.0);
        });
    }
}
