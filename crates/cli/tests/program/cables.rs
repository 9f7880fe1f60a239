//! Cables between virtual cards of one process and of several.

use crate::common::host::{mostly, timed};
use crate::common::messages;
use crate::common::program::{taut, words};
use crate::common::report::Report;
use crate::common::{Folder, PATIENT, loopback, shared};
use crate::errors::is_refused;

/// In nanoseconds, at 48 kHz.
const FRAME: i64 = 20_834;

fn cable(test: &str) -> String {
    format!("virtual:?cable={test}-{}", std::process::id())
}

fn delay(output: &str, input: &str) -> Vec<String> {
    marks("--settle 300ms --duration 1s", output, input)
}

fn marks(run: &str, output: &str, input: &str) -> Vec<String> {
    let mut line = words(&format!("lab delay {run} --report json"));
    line.extend(["--output", output, "--input", input].map(str::to_owned));
    line
}

fn is_measured(report: &Report, expected: i64) {
    let row = &report.0["rows"][0];
    let measured = row["measured"]["p50_ns"].as_i64().unwrap();
    let unsure = row["uncertainty_ns"].as_i64().unwrap();
    assert!((measured - expected).abs() <= unsure.max(500), "{:#}", report.0);
    assert!(unsure <= FRAME, "{:#}", report.0);
}

#[test]
fn cable_delays_sound_by_its_length() {
    shared(|| {
        let [one, two, three] = ["one", "two", "three"].map(cable);
        for (output, input, expected) in [
            (one.clone(), one, 0),
            (two.clone(), format!("{two}&delay=3.37ms"), 3_370_000),
            (format!("{three}&ppm=100"), format!("{three}&ppm=-100&delay=21us"), 21_000),
        ] {
            is_measured(&taut(delay(&output, &input)).run().report(), expected);
        }
    });
}

#[test]
fn second_player_and_delay_without_cable_are_refused() {
    let folder = Folder::new();
    let refused = |line: &str, status| {
        is_refused(&taut(words(line)).in_folder(folder.path()), status);
    };
    let name = cable("twice");
    let play = |output: &str| format!("lab delay --output {output} --input null: --settle 10ms");
    let first = taut(words(&play(&name))).start().wait_for(messages::MARKS_PLAYED);
    refused(&play(&name), 3);
    first.signal("-INT");
    first.end();
    refused(&play(&format!("{name}&delay=1ms")), 3);
}

mod exclusive {
    use super::*;

    #[test]
    fn streams_over_two_cables_are_measured_by_a_third_process() {
        timed(|| {
            let (into, out, address) = (cable("in"), cable("out"), loopback());
            let line = format!("recv --from {address} --output {out} --report json");
            let recv = taut(words(&line)).and(PATIENT).start().listening();
            let line = format!("send --input {into} --to {address} --ptime 1ms --report json");
            let send = taut(words(&line)).and(PATIENT).start();
            let run = "--settle 1500ms --duration 2s --period 240 --periods 32";
            let measured = taut(marks(run, &into, &out)).run().report();
            send.signal("-INT");
            recv.signal("-INT");
            let _ = (send.end().well(), recv.end().well());
            mostly(|| {
                is_measured(&measured, 400_000_000);
                let row = &measured.0["rows"][0];
                assert_eq!(row["marks_missed"], 0, "{row:#}");
                // Unchanged samples: gain within 0.01 dB, and full correlation.
                assert!(row["min_confidence"].as_f64().unwrap() > 0.9999, "{row:#}");
            });
        });
    }
}
