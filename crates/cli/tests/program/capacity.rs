//! Share of a period that remote plugins can use, with and without workers.

use std::time::Duration;
use tautline_proto::text::on_one_line;
use tautline_trial::snapshot;

use serde_json::Value;

use crate::common::host::{steady, timed};
use crate::common::jack::without_others;
use crate::common::messages;
use crate::common::program::{Call, Ended, call, taut, words};
use crate::common::{Folder, Lack, shared, skipped};
use crate::errors::is_refused;

/// Long periods and few tries for busy machines: only outcomes are checked.
const SHORT: &str = "--rate 48000 --period 480 --step 4ms --fine 2ms --attempt 200ms --idle 400ms --hold 800ms \
                     --allow 5% --scheduler other --report json";

fn capacity(flags: &str) -> Call {
    taut(words(&format!("lab capacity --virtual-work {SHORT} {flags}")))
}

#[track_caller]
fn both(report: &Value) -> [&Value; 2] {
    let rows = report["rows"].as_array().unwrap();
    let [here, there] = &rows[..] else { panic!("{report:#}") };
    for row in [here, there] {
        assert_eq!(row["invalid"], Value::Null, "{report:#}");
        assert_eq!(row["configured_ns"], 10_000_000, "{row:#}");
    }
    [here, there]
}

/// Checks the parts that do not depend on the machine's speed.
#[track_caller]
fn is_whole(there: &Value, workers: u64) {
    let due = there["missed"]["due"].as_u64().unwrap();
    let [during, after] =
        ["missed_in_stall", "missed_after_stall"].map(|freezes| there[freezes].as_u64().unwrap());
    // Of 80 measured periods, the row counts those in stalls.
    assert_eq!(due + during + after, 80 * workers, "{there:#}");
    let usable = there["measured"]["mean_ns"].as_i64().unwrap();
    assert!((0..=10_000_000).contains(&usable) && usable % 2_000_000 == 0, "{there:#}");
    assert_eq!(there["usable_share"].as_f64(), Some(usable as f64 / 1e7), "{there:#}");
    assert!(there["idle_p50_ns"].as_i64().unwrap() > 0, "{there:#}");
    let slack = there["slack_p50_ns"].as_i64().unwrap_or(0);
    assert!(slack <= 10_000_000 - usable, "{there:#}");
    for reported in ["master_percent", "call_p50_ns", "bare_call_p50_ns", "call_ratio", "cpu_ratio"]
    {
        assert!(there[reported].as_f64().unwrap() > 0.0, "{reported}: {there:#}");
    }
}

#[test]
fn missing_jack_server_is_reported_with_a_hint() {
    let empty = Folder::new();
    let line = "lab capacity --jack --workers 0 --report none";
    let none = taut(words(line)).with("PATH", empty.path());
    is_refused(&none, 3);
}

fn in_networks(call: Call) -> Option<Value> {
    let ended: Ended = call.run();
    let refused = ended.messages.iter().find(|line| line.contains(messages::MAKES_A_NETWORK));
    if let Some(why) = refused.filter(|_| ended.status == Some(3)) {
        skipped(Lack::reported_by(why), why);
        return None;
    }
    Some(ended.well().json())
}

#[test]
fn workers_in_own_networks_run_encrypted_within_their_limits() {
    shared(|| {
        let Some(report) = in_networks(capacity("--workers 2")) else { return };
        let [_, there] = both(&report);
        is_whole(there, 2);
        for reported in ["workers_user_percent", "workers_system_percent"] {
            assert!(there[reported].is_f64(), "{reported}: {there:#}");
        }
        // One datagram each way per block, for two workers at 100 blocks per second.
        let packets = there["packets_out_per_s"].as_f64().unwrap();
        assert!((100.0..400.0).contains(&packets), "{there:#}");
        // A block of 1920 bytes is two datagrams, which the kernel counts as one packet or two.
        let bytes = there["bytes_out_per_s"].as_f64().unwrap();
        assert!((960.0 * packets..2400.0 * packets).contains(&bytes), "{there:#}");
    });
}

#[test]
fn workers_on_the_loopback_take_no_root() {
    shared(|| {
        let report = taut(words(&format!("lab capacity {SHORT} --local --workers 1")));
        let report = report.run().report().0;
        let [_, there] = both(&report);
        is_whole(there, 1);
        assert_eq!(there.get("packets_out_per_s"), Some(&Value::Null), "{there:#}");
    });
}

#[test]
fn workers_without_the_plugin_are_refused_before_measuring() {
    let empty = Folder::new();
    let none = capacity("--local --workers 1 --plugins").and([empty.path()]);
    is_refused(&none, 3);
    // Without a path, the library is searched next to the program only.
    let program = empty.file("taut");
    std::fs::copy(env!("CARGO_BIN_EXE_taut"), &program).unwrap();
    for path in ["", ":"] {
        let line = words("lab capacity --local --workers 1 --virtual-work --report none");
        let none = call(program.to_str().unwrap(), line).with("LADSPA_PATH", path);
        is_refused(&none, 3);
    }
}

#[test]
fn run_with_only_invalid_worker_rows_fails() {
    let folder = Folder::new();
    std::fs::write(folder.file("libtautline_ladspa_cost.so"), "no library").unwrap();
    let ended = capacity("--local --workers 1 --plugins").and([folder.path()]).run();
    let report = ended.json();
    let [here, there] = &report["rows"].as_array().unwrap()[..] else { panic!("{report:#}") };
    assert_eq!(here["invalid"], Value::Null, "{report:#}");
    let why = there["invalid"].as_str().unwrap();
    assert!(why.contains("waste_time"), "{why}");
    assert_eq!(ended.status, Some(1), "{ended:#?}");
    let messages = on_one_line(ended.last());
    assert_eq!(messages, format!("error: {why}"), "{ended:#?}");
}

#[test]
fn blocks_behind_slow_links_return_no_sooner_than_links_allow() {
    shared(|| {
        let Some(report) = in_networks(capacity("--workers 6 --link-rate 20Mbit")) else {
            return;
        };
        let [_, there] = both(&report);
        is_whole(there, 6);
        // Three workers' sound of 1920 bytes leaves one link in sequence, after a burst of 1600
        // bytes.
        let bytes = 3 * 1920 - 1600;
        let minimum = bytes * 8 * 1_000_000_000 / 20_000_000;
        assert!(there["idle_p50_ns"].as_i64().unwrap() >= minimum, "{there:#}");
        let notes = report["notes"].as_array().unwrap();
        let reported = |note: &Value| note.as_str().unwrap().contains("20 Mbit/s");
        assert!(notes.iter().any(reported), "{notes:#?}");
    });
}

/// With virtual work, each awaited for up to 250 us.
fn seven_workers_for(minutes: u64, flags: &str) -> Option<Value> {
    let line = format!("--virtual-work --wait 250us --hold {minutes}min {flags} --report json");
    // The local plugin takes equally long, and each failed step is repeated with less work.
    let lasts = Duration::from_secs(4 * 60 * minutes);
    let report = in_networks(taut(words(&format!("lab capacity {line}"))).lasting(lasts))?;
    let there = report["rows"][1].clone();
    assert_eq!(there["invalid"], Value::Null, "{report:#}");
    Some(there)
}

mod exclusive {
    use super::*;

    #[test]
    #[ignore = "soak: a minute, and the plugin here for as long, judged by what a machine has time for"]
    fn seven_busy_workers_answer_in_time_for_a_minute() {
        steady(|| {
            // Tries one cost, 64 % of the period. More depends on other users of the machine.
            let flags = "--step 1400us --fine 1400us --attempt 400ms --idle 400ms --allow 1%";
            let Some(there) = seven_workers_for(1, flags) else { return };
            let of = |key: &str| there["missed"][key].as_u64().unwrap();
            assert!(of("due") > 7 * 20_000, "{there:#}");
            assert!(of("missed") * 100 <= of("due"), "{there:#}");
            assert!(there["usable_share"].as_f64().unwrap() >= 0.63, "{there:#}");
        });
    }

    #[test]
    #[ignore = "soak: ten minutes, and the plugin here for as long"]
    fn seven_workers_use_most_of_a_short_period_for_ten_minutes() {
        timed(|| {
            let Some(there) = seven_workers_for(10, "--allow 0.1%") else { return };
            assert_eq!(there["result"], "whole", "{there:#}");
            assert!(there["usable_share"].as_f64().unwrap() >= 0.9, "{there:#}");
        });
    }

    #[test]
    fn usable_share_of_a_period_is_found_and_held_locally() {
        steady(|| {
            let folder = Folder::new();
            let call = capacity("--workers-here --workers 2 --report-file capacity.html");
            let report = call.in_folder(folder.path()).run().report().0;
            let [here, there] = both(&report);
            snapshot!(here["name"].as_str().unwrap());
            snapshot!(there["name"].as_str().unwrap());
            is_whole(there, 2);
            let page = std::fs::read_to_string(folder.file("capacity.html")).unwrap();
            assert!(
                page.contains("<svg") && page.contains(there["name"].as_str().unwrap()),
                "{page}"
            );
        });
    }

    #[test]
    fn jack_calls_the_master_and_its_xruns_are_reported() {
        steady(|| {
            let Some(_only) = without_others(&["jackd"]) else { return };
            let report = capacity("--jack --workers-here --workers 1").run().report().0;
            let rows = both(&report);
            is_whole(rows[1], 1);
            for row in rows {
                assert!(row["name"].as_str().unwrap().ends_with(", under JACK"), "{row:#}");
                let (missed, xruns) = (&row["missed"]["missed"], &row["jack_xruns"]);
                assert!(missed.is_u64() && xruns.is_u64(), "{row:#}");
            }
        });
    }

    #[test]
    fn overlong_call_counts_as_missed_and_as_a_jack_xrun() {
        // Each stall of the host may explain late calls.
        timed(|| {
            let Some(_only) = without_others(&["jackd"]) else { return };
            // Tries only zero and the whole period, which do not depend on the machine.
            let whole = SHORT.replace("--step 4ms --fine 2ms", "--step 10ms --fine 10ms");
            let call =
                taut(words(&format!("lab capacity --virtual-work {whole} --jack --workers 0")));
            let report = call.run().report().0;
            let [row] = &report["rows"].as_array().unwrap()[..] else { panic!("{report:#}") };
            assert_eq!(row["invalid"], Value::Null, "{report:#}");
            // The call takes the whole period of 10 ms. JACK 2 detects one xrun in three, because
            // it waits a period after each.
            let of = |key: &str| row[key].as_u64().unwrap_or_else(|| panic!("{key}: {row:#}"));
            assert_eq!(of("too_much_ns"), 10_000_000, "{row:#}");
            assert_eq!(row["measured"]["mean_ns"], 0, "{row:#}");
            assert!(of("too_much_missed") >= 10, "{row:#}");
            assert!(of("jack_xruns") < 4 * of("too_much_jack_xruns"), "{row:#}");
        });
    }
}
