//! How much of a period plugins elsewhere can use: of workers that are there, and of none.

use serde_json::Value;

use crate::common::host::timed;
use crate::common::program::{Call, Ended, taut, words};
use crate::common::{Folder, Lack, shared, skipped};
use crate::errors::is_refused;

/// Long periods and few tries, which a machine that others use too has time for: what is judged are outcomes.
const SHORT: &str = "--rate 48000 --period 480 --step 4ms --fine 2ms --attempt 200ms --idle 400ms --hold 800ms \
                     --allow 5% --scheduler other --report json";

fn capacity(flags: &str) -> Call {
    taut(words(&format!("lab capacity --virtual-work {SHORT} {flags}")))
}

/// The rows: of the plugin here, and of the same elsewhere.
#[track_caller]
fn both(report: &Value) -> [&Value; 2] {
    let rows = report["rows"].as_array().unwrap();
    let [here, there] = &rows[..] else { panic!("{report:#}") };
    for row in [here, there] {
        assert_eq!(row["void"], Value::Null, "{report:#}");
        assert_eq!(row["configured_ns"], 10_000_000, "{row:#}");
    }
    [here, there]
}

/// What is told of a row whatever the machine makes of it, and what no worker can be without.
#[track_caller]
fn is_whole(there: &Value, workers: u64) {
    let due = there["missed"]["due"].as_u64().unwrap();
    // 80 periods are held, but for those that the host's freezes took.
    assert!(due >= 40 * workers && due <= 80 * workers, "{there:#}");
    // How much it comes to is the machine's matter, which others use too: what is told of it has to agree.
    let usable = there["measured"]["mean_ns"].as_i64().unwrap();
    assert!((0..=10_000_000).contains(&usable) && usable % 2_000_000 == 0, "{there:#}");
    assert_eq!(there["usable_share"].as_f64(), Some(usable as f64 / 1e7), "{there:#}");
    assert!(there["idle_p50_ns"].as_i64().unwrap() > 0, "{there:#}");
    let slack = there["slack_p50_ns"].as_i64().unwrap_or(0);
    assert!(slack <= 10_000_000 - usable, "{there:#}");
    for told in ["master_percent", "call_p50_ns", "bare_call_p50_ns", "call_ratio", "cpu_ratio"] {
        assert!(there[told].as_f64().unwrap() > 0.0, "{told}: {there:#}");
    }
}

#[test]
fn what_a_thread_here_can_use_of_a_period_is_found_and_held_beside_the_plugin_alone() {
    shared(|| {
        let folder = Folder::new();
        let call = capacity("--workers-here --workers 2 --report-file capacity.html");
        let report = call.in_folder(folder.path()).run().report().0;
        let [here, there] = both(&report);
        assert_eq!(here["name"], "48000 Hz, 480 frames (10 ms), here", "{report:#}");
        assert_eq!(there["name"], "48000 Hz, 480 frames (10 ms), window 1, 2 workers");
        is_whole(there, 2);
        let page = std::fs::read_to_string(folder.file("capacity.html")).unwrap();
        assert!(page.contains("<svg") && page.contains("window 1, 2 workers"), "{page}");
    });
}

#[test]
fn more_workers_that_work_than_cores_are_refused_and_so_is_a_grid_with_a_point() {
    let many = taut(words("lab capacity --workers 32"));
    is_refused(&many, 2, "32 workers", "use --virtual-work");
    let both = taut(words("lab capacity --grid paper --workers 3"));
    is_refused(&both, 2, "--workers", "--help");
}

/// What it said, or nothing, and that loudly, where networks cannot be made.
fn in_networks(test: &str, call: Call) -> Option<Value> {
    let ended: Ended = call.run();
    let refused = ended.said.iter().find(|line| line.contains("making a network"));
    if let Some(why) = refused.filter(|_| ended.status == Some(3)) {
        skipped(Lack::told_by(why), test, why);
        return None;
    }
    Some(serde_json::from_str(&ended.well().out).unwrap())
}

#[test]
fn workers_in_networks_of_their_own_run_the_plugin_sealed_and_are_held_to_what_they_carry() {
    let test =
        "workers_in_networks_of_their_own_run_the_plugin_sealed_and_are_held_to_what_they_carry";
    shared(|| {
        let Some(report) = in_networks(test, capacity("--workers 2")) else { return };
        let [_, there] = both(&report);
        is_whole(there, 2);
        for told in ["workers_user_percent", "workers_system_percent"] {
            assert!(there[told].is_f64(), "{told}: {there:#}");
        }
        // A datagram there and one back for each block, of both workers, at 100 blocks a second.
        let packets = there["packets_out_per_s"].as_f64().unwrap();
        assert!((100.0..400.0).contains(&packets), "{there:#}");
    });
}

#[test]
fn workers_on_the_loopback_take_no_root_and_one_without_the_plugin_is_void_with_the_mend() {
    shared(|| {
        let report = taut(words(&format!("lab capacity {SHORT} --local --workers 1")));
        let report = report.run().report().0;
        let [_, there] = both(&report);
        is_whole(there, 1);
        let empty = Folder::new();
        let none = capacity("--local --workers 1 --plugins").and([empty.path()]).run();
        let report: Value = serde_json::from_str(&none.out).unwrap();
        let why = report["rows"][1]["void"].as_str().unwrap();
        assert!(why.contains("libtautline_ladspa_cost.so") && why.contains("--plugins"), "{why}");
    });
}

#[test]
#[ignore = "soak: ten minutes"]
fn seven_workers_use_most_of_a_short_period_for_ten_minutes() {
    let test = "seven_workers_use_most_of_a_short_period_for_ten_minutes";
    timed(|| {
        let line =
            "lab capacity --virtual-work --wait 250us --hold 600s --allow 0.1% --report json";
        let Some(report) = in_networks(test, taut(words(line))) else { return };
        let there = &report["rows"][1];
        assert_eq!((&there["void"], &there["result"]), (&Value::Null, &"whole".into()));
        assert!(there["usable_share"].as_f64().unwrap() >= 0.9, "{there:#}");
    });
}
