//! `taut lab delay` with its two sides on different hosts.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::host::timed;
use crate::common::network::Cable;
use crate::common::program::{Call, Ended, taut, words};
use crate::common::{Folder, executable, shared};

const TAUT: &str = env!("CARGO_BIN_EXE_taut");
const RUN: &str = "--settle 1s --duration 2s --period 240 --periods 32 --report json";

pub(crate) fn delay(test: &str, run: &str) -> Call {
    let cable = format!("virtual:?cable={test}-{}", std::process::id());
    let mut line = words(&format!("lab delay {run} {RUN}"));
    line.extend(["--output".to_owned(), cable.clone()]);
    line.extend(["--input".to_owned(), format!("{cable}&delay=7ms")]);
    taut(line)
}

fn by_ssh(test: &str, run: &str, folder: &Folder, script: &str) -> Call {
    executable(&folder.file("ssh"), &format!("#!/bin/sh\n{script}\n"));
    delay(test, run).finding(folder.path())
}

/// Returns the distance of the median from 7 ms, and its stated uncertainty.
fn error(row: &Value) -> (i64, i64) {
    let nanos = |value: &Value| value.as_i64().unwrap_or_else(|| panic!("{row:#}"));
    (nanos(&row["measured"]["p50_ns"]) - 7_000_000, nanos(&row["uncertainty_ns"]))
}

/// Asserts a median of 7 ms between `hosts` with a common clock. Its uncertainty is at most one
/// frame.
#[track_caller]
pub(crate) fn is_measured_by_one_clock(report: &Value, hosts: [&str; 2]) {
    let row = &report["rows"][0];
    assert_eq!(row["invalid"], Value::Null, "{report:#}");
    assert_eq!(row["clock_source"], "host", "{report:#}");
    let names = [0, 1].map(|host| report["hosts"][host]["name"].as_str());
    assert_eq!(names, hosts.map(Some), "{report:#}");
    let (error, unsure) = error(row);
    assert!(error.abs() <= unsure && unsure <= 20_834, "{error}: {report:#}");
    // A busy host misses some marks; the others are exact.
    assert!(row["measured"]["count"].as_u64() > Some(50), "{report:#}");
}

#[test]
fn cable_between_two_networks_is_measured_within_uncertainty() {
    shared(|| {
        let Some(networks) = Cable::lay() else { return };
        let [left, right] =
            [&networks.left, &networks.right].map(|network| format!("netns:{}", network.name));
        for (run, hosts) in [
            (format!("--with {right}"), ["local", right.as_str()]),
            (format!("--played-at {left} --with {right}"), [left.as_str(), right.as_str()]),
        ] {
            let report = delay("networks", &run).run().well().json();
            is_measured_by_one_clock(&report, hosts);
        }
    });
}

/// Asserts an invalid row with `part` in its reason. The report is still printed.
#[track_caller]
pub(crate) fn is_void(ended: &Ended, part: &str) {
    assert_eq!(ended.status, Some(1), "{ended:#?}");
    let report = ended.json();
    let invalid = report["rows"][0]["invalid"].as_str().unwrap_or_else(|| panic!("{report:#}"));
    assert!(invalid.contains(part), "{invalid}");
}

#[test]
fn bad_hosts_and_devices_give_invalid_rows_with_reasons() {
    shared(|| {
        let folder = Folder::new();
        for (script, part) in [
            (
                "echo 'ssh: connect to host x port 22: Connection refused' >&2; exit 255",
                "refused; `ssh -o",
            ),
            ("echo '{\"taut\": \"99.1.0\"}'; cat > /dev/null", "install the same version on both"),
        ] {
            is_void(&by_ssh("none", "--with ssh:x", &folder, script).run(), part);
        }
        let (here, none) = ("virtual:", "virtual:?source=/nowhere/there.wav");
        let line = format!("lab delay --with local {RUN} --output {here} --input {none}");
        is_void(&taut(words(&line)).run(), "there.wav");
    });
}

#[test]
fn an_agent_that_stops_while_marks_are_played_is_a_void_row() {
    shared(|| {
        let folder = Folder::new();
        let at = folder.path().display();
        let script = format!(
            "mkfifo {at}/in\n{TAUT} lab agent < {at}/in &\nexec 3> {at}/in\nwaits=0\nwhile IFS= read -r line; do\n \
         case \"$line\" in *'\"read\"'*) waits=0;; *'\"wait\"'*) waits=$((waits + 1));; esac\n \
         [ $waits -lt 4 ] || kill -STOP $!\n printf '%s\\n' \"$line\" >&3\ndone\n\
         exec 3>&-\nwait"
        );
        let ended = by_ssh("stopped", "--with ssh:x", &folder, &script).run();
        is_void(&ended, "has not answered for 15 s");
    });
}

/// Sends Ctrl-C once `ssh` has written to the pipe `reached`. Returns the result and its duration.
pub(crate) fn ended_when_reached(call: &Call, folder: &Folder) -> (Ended, Duration) {
    let reached = folder.file("reached");
    assert!(Command::new("mkfifo").arg(&reached).status().unwrap().success());
    let running = call.start();
    fs::read(&reached).unwrap();
    let requested = Instant::now();
    running.signal("-INT");
    (running.end(), requested.elapsed())
}

/// Less than the timeouts of silent agents and of their cleanup.
pub(crate) const SOON: Duration = Duration::from_secs(5);

#[test]
fn ctrl_c_ends_a_delay_with_an_unidentified_agent() {
    shared(|| {
        let folder = Folder::new();
        let script = format!("echo > {}/reached\nexec sleep 600", folder.path().display());
        let (ended, took) =
            ended_when_reached(&by_ssh("greets", "--with ssh:x", &folder, &script), &folder);
        is_void(&ended, "stopped while waiting");
        assert!(took < SOON, "{took:?}");
    });
}

#[test]
fn ctrl_c_ends_a_delay_without_logs() {
    shared(|| {
        let folder = Folder::new();
        let at = folder.path().display();
        let script = format!(
            "mkfifo {at}/in\n{TAUT} lab agent < {at}/in &\nexec 3> {at}/in\nwhile IFS= read -r line; do\n \
             case \"$line\" in *'\"interrupt\"'*) kill -STOP $!; echo > {at}/reached;; esac\n \
             printf '%s\\n' \"$line\" >&3\ndone\nexec 3>&-\nwait"
        );
        let (ended, took) =
            ended_when_reached(&by_ssh("logs", "--with ssh:x", &folder, &script), &folder);
        is_void(&ended, "stopped while waiting");
        assert!(took < SOON, "{took:?}");
    });
}

mod exclusive {
    use super::*;

    #[test]
    fn agents_join_clocks_of_two_hosts_within_stated_uncertainty() {
        timed(|| {
            let folder = Folder::new();
            let script =
                format!("{TAUT} lab agent | sed -u 's/\"clock\":\"[^\"]*\"/\"clock\":\"far\"/'");
            for place in ["--with ssh:x", "--played-at ssh:x"] {
                let run = format!("{place} --max-uncertainty 1s");
                let report = by_ssh("joined", &run, &folder, &script).run().well().json();
                let row = &report["rows"][0];
                assert_eq!(row["invalid"], Value::Null, "{report:#}");
                assert_eq!(row["clock_source"], "agents", "{report:#}");
                assert!(row["round_trip_ns"].as_i64() > Some(0), "{report:#}");
                let (error, unsure) = error(row);
                assert!(error.abs() <= unsure, "{error}: {report:#}");
                let clocks = row["clock_uncertainty_ns"].as_i64().unwrap();
                assert!(clocks > 0 && unsure > 0, "{report:#}");
            }
            let run = "--with ssh:x --max-uncertainty 1ns";
            let ended = by_ssh("joined", run, &folder, &script).run();
            assert_eq!(ended.status, Some(1), "{ended:#?}");
            let invalid = ended.json()["rows"][0]["invalid"].clone();
            assert!(invalid.as_str().unwrap().contains("1ns"), "{invalid}");
        });
    }
}
