//! Short experiments on the machine itself, independent of its speed: they report what was
//! requested, and what they cannot do.

use serde_json::Value;
use tautline_trial::snapshot;

use crate::common::messages;
use crate::common::network::Cable;
use crate::common::program::{Call, ordinary, taut, words};
use crate::common::{Folder, executable, free_udp_ports, shared};
use crate::errors::is_refused;

fn rows(line: &str) -> Vec<Value> {
    let report = taut(words(&format!("{line} --report json"))).run().report().0;
    report["rows"].as_array().unwrap().clone()
}

fn named(rows: &[Value]) -> Vec<&str> {
    let says = rows.iter().filter(|row| row["invalid"].is_null());
    says.map(|row| row["name"].as_str().unwrap()).collect()
}

#[test]
fn every_core_is_sampled_as_requested_and_missing_is_invalid() {
    shared(|| {
        let line = "lab stalls --cpus 0,9999 --scheduler other --period 2ms --duration 400ms";
        let rows = rows(line);
        snapshot!(named(&rows).join("\n"));
        assert_eq!(rows[0]["measured"]["count"], 200);
        assert!(rows[0]["cost_percent"].as_f64().unwrap() > 0.0);
        let why = rows[2]["invalid"].as_str().unwrap();
        assert!(why.contains("core 9999") && why.contains("taskset"), "{why}");
    });
}

#[test]
fn denied_scheduler_measures_nothing_as_if_granted() {
    let Some(call) = ordinary("lab stalls --duration 100ms --report none") else { return };
    is_refused(&call, 1);
    let line = "lab kernel --ptime 1ms --duration 50ms --report none";
    let Some(call) = ordinary(line) else { return };
    is_refused(&call, 1);
}

#[test]
fn both_readers_get_packets_and_direct_stages_add_up() {
    shared(|| {
        let rows = rows("lab kernel --ptime 5ms --duration 300ms --cpus 0 --scheduler other");
        snapshot!(named(&rows).join("\n"));
        let direct = &rows[2];
        assert_eq!(
            (&direct["measured"]["count"], &direct["payload_bytes"]),
            (&60.into(), &960.into())
        );
        let mean = |summary: &Value| summary["mean_ns"].as_i64().unwrap();
        let stages = direct["stages"].as_array().unwrap();
        let sum = stages.iter().map(|stage| mean(&stage["summary"])).sum::<i64>();
        assert!((sum - mean(&direct["measured"])).abs() <= 3, "{direct:#?}");
        assert!(rows[1]["invalid"].as_str().unwrap().contains("--cpus 0,1"), "{rows:#?}");
    });
}

#[track_caller]
fn arrived_from(report: &Value, place: &str) {
    let rows = report["rows"].as_array().unwrap();
    let [blocked, direct] = ["blocked", "direct"].map(|way| format!("5ms {way}, from {place}"));
    assert_eq!(named(rows), [blocked, direct], "{report:#}");
    for row in rows {
        assert_eq!((&row["measured"]["count"], &row["missed"]["due"]), (&60.into(), &60.into()));
        assert!(row["measured"]["min_ns"].as_i64().unwrap() >= 0, "{row:#}");
        assert!(row["sent_late_max_ns"].is_i64() && row["send_p50_ns"].is_null(), "{row:#}");
    }
    assert_eq!(report["hosts"][1]["name"], place, "{report:#}");
}

const FROM: &str = "lab kernel --ptime 5ms --packets 60 --scheduler other --with";

#[test]
fn remote_packets_use_its_interface_bad_address_is_invalid() {
    shared(|| {
        let Some(cable) = Cable::lay() else { return };
        let Cable { left, right } = &cable;
        let place = format!("netns:{}", right.name);
        let from = format!("{FROM} {place}");
        let before = left.arrived();
        let report = taut(words(&from)).and(["--report", "json"]).within(left).run().report().0;
        arrived_from(&report, &place);
        assert!(left.arrived() - before >= 120, "they came by the cable");
        let nowhere = taut(words(&from)).and(words("--at 203.0.113.9 --report none")).within(left);
        let nowhere = nowhere.run();
        assert_eq!(nowhere.status, Some(1), "{nowhere:#?}");
        assert!(nowhere.last().contains("203.0.113.9"), "{nowhere:#?}");
        let gone = taut(words(&format!("{FROM} netns:taut-nowhere --report none"))).within(left);
        is_refused(&gone, 3);
    });
}

/// No other program uses the network.
const FIRST_ARE_LOST: &str = "table inet taut {\n chain input {\n type filter hook input priority 0\n \
    udp dport 32768-65535 numgen inc mod 1000000 < 2 counter drop\n }\n}\n";

#[test]
fn a_host_is_reached_though_the_first_datagrams_to_it_are_lost() {
    shared(|| {
        let Some(cable) = Cable::lay() else { return };
        let Cable { left, right } = &cable;
        if !left.rules(FIRST_ARE_LOST) {
            return;
        }
        let place = format!("netns:{}", right.name);
        let from = taut(words(&format!("{FROM} {place} --report json"))).within(left);
        arrived_from(&from.run().report().0, &place);
        assert_eq!(left.lost(), 2);
    });
}

#[test]
fn the_calls_of_virtual_cards_are_a_period_apart_on_each_side() {
    shared(|| {
        let line = "lab callback-jitter --device virtual: --output virtual:?period=240 --settle 100ms \
                --duration 500ms --scheduler other";
        let rows = rows(line);
        let sides = ["virtual: interval", "virtual: capture", "virtual: playback"];
        let second = ["virtual: (2) interval", "virtual: (2) playback"];
        assert_eq!(named(&rows), [&sides[..], &second].concat(), "{rows:#?}");
        let mean = |row: &Value| row["measured"]["mean_ns"].as_f64().unwrap();
        // Over the whole run, because single calls may be late.
        for (row, period) in [(&rows[0], 1e6), (&rows[3], 5e6)] {
            assert_eq!(row["configured_ns"].as_f64(), Some(period));
            assert!((mean(row) / period - 1.0).abs() < 0.2, "{row:#?}");
        }
    });
}

#[test]
fn device_that_cannot_be_opened_is_refused_with_a_hint() {
    let none = "lab callback-jitter --device virtual:?source=/nowhere/there.wav --duration 100ms";
    is_refused(&taut(words(none)), 3);
}

#[test]
fn machine_load_is_sampled_per_interval_bad_process_is_invalid() {
    let own = std::process::id();
    let rows =
        rows(&format!("lab resources --pid {own} --pid 4194305 --interval 50ms --duration 250ms"));
    let found = named(&rows);
    assert_eq!(found[0], "machine", "{rows:#?}");
    assert!(found[1].starts_with(&format!("process {own} (")), "{found:?}");
    let series = rows[0]["meanwhile"].as_array().unwrap();
    let user = series.iter().find(|series| series["key"] == "user_percent").unwrap();
    assert!(!user["values"].as_array().unwrap().is_empty(), "{user:#?}");
    assert!(rows[2]["invalid"].as_str().unwrap().contains("pgrep"), "{rows:#?}");
}

#[test]
fn sent_and_received_ledgers_agree_about_packets() {
    shared(|| {
        let folder = Folder::new();
        let port = free_udp_ports();
        let listen = format!("lab interval --listen 127.0.0.1:{port} --duration 2s --report json");
        let listens = taut(words(&listen)).start().wait_for("listening at");
        let send = format!(
            "send --input null: --to rtp://127.0.0.1:{port} --duration 4s --ptime 2ms --period 96 \
         --packet-log sent.csv --report none"
        );
        taut(words(&send)).in_folder(folder.path()).run().well();
        let received = listens.end().report().0["rows"].clone();
        let ledger = folder.file("sent.csv");
        let sent = rows(&format!("lab interval --packet-log {}", ledger.display()));
        snapshot!(named(&sent)[..2].join("\n"));
        for row in [&received[0], &sent[0]] {
            assert_eq!(row["configured_ns"], 2_000_000, "{row:#?}");
            assert!((row["mean_ns"].as_f64().unwrap() / 2e6 - 1.0).abs() < 0.2, "{row:#?}");
        }
        assert_eq!(received[0]["missed"]["missed"], 0, "{received:#?}");
        assert!(received[0]["uncertainty_ns"].as_i64().unwrap() < 1_000_000, "{received:#?}");
    });
}

#[test]
fn sleeping_pacer_is_compared_with_a_complete_bare_loop() {
    for avtp in [false, true] {
        shared(|| {
            let Some(cable) = &Cable::lay() else { return };
            let (left, right) = (&cable.left.interface, &cable.right.interface);
            let by = if avtp { format!("--avtp {left},{right}") } else { String::new() };
            stands_beside(cable, &by);
        });
    }
}

/// All packets must arrive, and the ratios must match the figures.
fn stands_beside(Cable { left, right }: &Cable, by: &str) {
    let line =
        format!("lab interval --pacing-modes --pacing sleep --with netns:{} {by}", right.name);
    let patient = "--ptime 1ms --period 3840 --latency 400ms --duration 2s --report json";
    let call = taut(words(&line)).and(words(patient));
    let rows = call.within(left).run().report().0["rows"].as_array().unwrap().clone();
    let row = |name: &str| rows.iter().find(|row| row["name"] == name).expect(name);
    let (ours, bare) = (row("sleep"), row("sleep, a bare loop"));
    assert_eq!((&bare["missed"]["missed"], &bare["missed"]["due"]), (&0.into(), &2000.into()));
    assert_eq!(ours["missed"]["missed"], 0, "{rows:#?}");
    assert_eq!(bare["configured_ns"], ours["configured_ns"], "{rows:#?}");
    let is_ratio = |ratio: &Value, ours: &Value, bare: &Value| {
        let [ratio, ours, bare] = [ratio, ours, bare].map(|figure| figure.as_f64().unwrap());
        assert!((ratio - ours / bare).abs() < 0.001, "{ratio} of {ours} and {bare}");
    };
    is_ratio(&bare["stdev_ratio"], &ours["stdev_ns"], &bare["stdev_ns"]);
    let [ours, bare] =
        ["sleep", "sleep, a bare loop"].map(|of| row(&format!("{of}, handed over late")));
    is_ratio(&bare["p99_ratio"], &ours["measured"]["p99_ns"], &bare["measured"]["p99_ns"]);
}

#[test]
fn run_without_any_available_mode_fails() {
    // The loopback interface has no such queue.
    let line = "lab interval --pacing-modes --pacing etf --duration 100ms --report json";
    let ended = taut(words(line)).run();
    assert_eq!(ended.status, Some(1), "{ended:#?}");
    let report = ended.json();
    let rows = report["rows"].as_array().unwrap();
    assert!(
        rows.iter().any(|row| row["name"] == "etf" && row["invalid"].is_string()),
        "{report:#}"
    );
    assert!(ended.messages.last().is_some_and(|line| line.contains("etf")), "{ended:#?}");
}

#[test]
fn missing_or_invalid_capture_is_refused_with_a_hint() {
    let folder = Folder::new();
    std::fs::write(folder.file("none.pcap"), "this is no capture, however long it may be").unwrap();
    let interval = |flags: &str| {
        taut(words(&format!("lab interval {flags} --report none"))).in_folder(folder.path())
    };
    is_refused(&interval("--pcap none.pcap"), 1);
    is_refused(&interval("--pcap gone.pcap"), 3);
    is_refused(&interval("--packet-log none.pcap"), 1);
    std::fs::write(folder.file("sound.wav"), b"RIFF\xff\xfe\x80\x00WAVE").unwrap();
    is_refused(&interval("--packet-log sound.wav"), 1);
}

#[test]
fn ambient_traffic_needs_a_readable_capture_or_privilege() {
    let folder = Folder::new();
    std::fs::write(folder.file("none.pcap"), "this is no capture, however long it may be").unwrap();
    let network = |flags: &str| {
        taut(words(&format!("lab network {flags} --report none"))).in_folder(folder.path())
    };
    is_refused(&network("--pcap none.pcap"), 1);
    is_refused(&network("--pcap gone.pcap"), 3);
    let line = "lab network --only ambient --duration 100ms --report none";
    let Some(call) = ordinary(line) else { return };
    is_refused(&call, 1);
}

/// This script replaces `stress-ng` in PATH.
fn with_stress_ng(folder: &Folder, script: &str, line: &str) -> Call {
    executable(&folder.file("stress-ng"), &format!("#!/bin/sh\n{script}\n"));
    taut(words(line)).finding(folder.path())
}

#[test]
fn verbose_stress_ng_keeps_running_and_its_last_line_is_shown() {
    let folder = Folder::new();
    let script =
        "head -c 300000 /dev/zero | tr '\\0' '\\n' >&2\necho 'no such stressor' >&2\nexit 4";
    let call = with_stress_ng(&folder, script, "lab loadgen --longest 20s stress-ng --cpu 1");
    is_refused(&call, 3);
}

#[test]
fn a_load_that_cannot_be_is_a_void_row_before_anything_is_sent() {
    let folder = Folder::new();
    let line = "lab schedulers --only other,.loaded --load stress-ng:cpu,4 --duration 1s";
    let mut line = words(line);
    line.iter_mut().for_each(|word| *word = word.replace(",.", ", "));
    let call =
        with_stress_ng(&folder, "echo 'no such stressor' >&2; exit 4", "lab").and(&line[1..]);
    is_refused(&call.and(["--report", "none"]), 1);
}

#[test]
fn receiver_load_runs_during_each_network_and_load_stream() {
    shared(|| {
        let patient = "--settle 1s --duration 1s --load stress-ng:cpu,1 --report json";
        for (line, rows) in [
            ("lab network --only silent", &["silent, loaded by stress-ng:cpu,1"][..]),
            (
                "lab load --max-streams 1 --hold 1 --allow 100% --latency 400ms",
                &[
                    "1 stream, loaded by stress-ng:cpu,1",
                    "1 stream, held, loaded by stress-ng:cpu,1",
                ],
            ),
        ] {
            let folder = Folder::new();
            let begun = folder.file("begun");
            let script = format!("echo \"$@\" >> {}\nexec sleep 600", begun.display());
            let ended = with_stress_ng(&folder, &script, &format!("{line} {patient}")).run();
            let report = ended.well().json();
            let all = report["rows"].as_array().unwrap().iter();
            let names: Vec<_> = all.filter_map(|row| row["name"].as_str()).collect();
            assert_eq!(names[..rows.len()], *rows, "{report:#}");
            let of_load = |name: &&str| name.contains("loaded by");
            assert!(names.iter().all(of_load), "the rest is of that row: {names:?}");
            let begun = std::fs::read_to_string(&begun).unwrap_or_default();
            assert_eq!(begun.lines().count(), rows.len(), "once for each stream: {begun}");
            assert!(begun.lines().all(|words| words.ends_with("--cpu 1")), "{begun}");
        }
    });
}

#[test]
fn load_exceeds_one_stream_though_streams_mask_in_the_mix() {
    shared(|| {
        let line = "lab load --max-streams 4 --hold 1 --allow 100% --settle 1s --duration 1s --period 240 \
                    --latency 400ms --report json";
        let ended = taut(words(line)).run();
        let report = ended.well().json();
        let rows = report["rows"].as_array().unwrap();
        let reported: Vec<_> =
            rows.iter().map(|row| (row["name"].as_str(), &row["invalid"])).collect();
        let names = ["1 stream", "2 streams", "4 streams", "4 streams, held"];
        assert_eq!(reported, names.map(|name| (Some(name), &Value::Null)), "{report:#}");
        for (row, streams) in rows.iter().zip([1, 2, 4, 4]) {
            let due = row["missed"]["due"].as_u64().unwrap();
            assert!(due >= streams * 1000, "a second of each at least: {due} of {streams}");
        }
    });
}

#[test]
fn stop_request_reports_remaining_time_and_no_stream_follows() {
    shared(|| {
        let line = "lab overhead --rounds 2 --settle 1s --duration 2s --period 240 --latency 400ms";
        let run = taut(words(line)).start().wait_for("round 1 of 2");
        run.signal("-INT");
        let ended = run.end().well();
        let reported: Vec<_> =
            ended.messages.iter().filter_map(|line| line.strip_prefix("taut: ")).collect();
        let [_, ending, last] = reported[..] else { panic!("{reported:?}") };
        let seconds = ending.strip_prefix(messages::ENDING).unwrap_or_default();
        let seconds: u32 = seconds.split(' ').next().unwrap_or_default().parse().unwrap();
        assert!((1..=6).contains(&seconds), "{reported:?}");
        assert!(last.starts_with("1 of 64"), "{reported:?}");
        let note = ended.out.lines().find(|line| line.starts_with("note: stopped "));
        assert!(note.is_some_and(|note| note.contains("1 of 64")), "{ended:?}");
    });
}
