//! `taut demo`, complete and disturbed.

use std::time::Duration;
use tautline_trial::snapshot;

use crate::common::host::timed;
use crate::common::program::{Running, taut, words};
use crate::common::{Folder, shared, until};

const PATIENT: &str = "--period 240 --periods 32 --latency 400ms";

fn demo(folder: &Folder, options: &str) -> Running {
    taut(words(&format!("demo --out . {options}"))).in_folder(folder.path()).start()
}

fn played(folder: &Folder, seconds: u64) {
    let length = || std::fs::metadata(folder.file("receiver-1.wav")).map_or(0, |file| file.len());
    until(&format!("{seconds} s are never played"), || length() >= seconds * 48_000 * 6);
}

#[test]
fn demo_paces_its_packets_like_a_default_sender() {
    // Only users set up queues of the loopback interface.
    for (period, mode) in [("--period 48", "batch"), ("--period 480 --periods 4", "sleep")] {
        let folder = Folder::new();
        demo(&folder, &format!("--latency 400ms --duration 1s {period}")).end();
        let report = std::fs::read(folder.file("sender.json")).unwrap();
        let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
        let pacing = &report["streams"][0]["pacing"];
        assert_eq!(pacing["mode"], mode, "{period}: {pacing:#}");
        assert!(pacing["reason"].is_string(), "{period}: {pacing:#}");
    }
}

#[test]
fn demo_with_lost_sound_fails() {
    shared(|| {
        let damage = Duration::from_millis(200);
        let folder = Folder::new();
        let running = demo(&folder, "--duration 4s");
        for seconds in 1..=3 {
            played(&folder, seconds);
            running.signal("-STOP");
            std::thread::sleep(damage);
            running.signal("-CONT");
        }
        let ended = running.end();
        assert_eq!(ended.status, Some(1), "{ended:#?}");
        snapshot!("refused", ended.messages.concat());
        for messages in ["identical to the recording", "identical: all", "until it was stopped"] {
            assert!(!ended.out.contains(messages), "{messages}: {ended:#?}");
        }
    });
}

#[test]
fn demo_with_too_short_latency_names_options_that_work() {
    for (requested, advised) in [
        ("--latency 10ms", "--periods 4"),
        ("--latency 3ms", "--latency 5ms --periods 2"),
        ("--latency 10ms --period 480 --periods 8", "--latency 50ms --periods 2"),
    ] {
        let folder = Folder::new();
        let ended = demo(&folder, requested).end();
        let messages = ended.messages.concat();
        assert_eq!(ended.status, Some(2), "{ended:#?}");
        assert!(messages.contains(&format!(" {advised}")), "{messages}");
        // The advice is not rejected again. The last option counts.
        let options = match advised.contains("--latency") {
            true => format!("{} {advised}", requested.split_once("ms").unwrap().1),
            false => format!("{requested} {advised}"),
        };
        let options = options.replace("--periods 8", "");
        let ended = demo(&folder, &format!("{options} --duration 1s")).end();
        assert!(matches!(ended.status, Some(0 | 1)), "{options}: {ended:#?}");
    }
}

mod exclusive {
    use super::*;

    #[test]
    fn undisturbed_demo_is_identical() {
        timed(|| {
            let folder = Folder::new();
            let ended = demo(&folder, &format!("{PATIENT} --duration 3s")).end().well();
            let whole = ended.out.matches(" frames identical to the recording in 3s").count();
            assert_eq!(whole, 2, "{ended:#?}");
            assert!(!ended.out.contains("stopped"), "{ended:#?}");
        });
    }

    #[test]
    fn demo_stopped_by_ctrl_c_reports_the_identical_part() {
        timed(|| {
            let folder = Folder::new();
            let running = demo(&folder, PATIENT);
            played(&folder, 1);
            running.signal("-INT");
            let ended = running.end().well();
            let reported =
                ended.out.matches("frames identical to the recording until it was stopped");
            assert_eq!(reported.count(), 2, "{ended:#?}");
        });
    }
}
