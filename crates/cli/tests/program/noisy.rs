//! Streams on networks with other traffic, created by `taut lab`.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::common::messages;
use crate::common::network::Cable;
use crate::common::program::{Call, taut, words};
use crate::common::{Lack, shared, skipped};

fn between(cable: &Cable, line: &str) -> Call {
    let line = format!("{line} --with netns:{} --report json", cable.right.name);
    taut(words(&line)).within(&cable.left)
}

#[track_caller]
fn row<'a>(report: &'a Value, name: &str) -> &'a Value {
    let mut rows = report["rows"].as_array().unwrap().iter();
    let found = rows.find(|row| row["name"] == name);
    let row = found.unwrap_or_else(|| panic!("no {name} in {report:#}"));
    assert_eq!(row["invalid"], Value::Null, "{row:#}");
    row
}

#[track_caller]
fn figure(row: &Value, name: &str) -> f64 {
    row[name].as_f64().unwrap_or_else(|| panic!("{name} is {}", row[name]))
}

#[test]
fn traffic_next_to_a_stream_is_counted_at_both_ends() {
    shared(|| {
        let Some(cable) = Cable::lay() else { return };
        let line = "lab network --only silent --only all --tcp-rate 20Mbit --duration 2s";
        let report = between(&cable, line).run().well().json();
        let all = row(&report, messages::ALL_LOADS);
        assert!(figure(all, "chatter_handled_share") <= 1.0, "{all:#}");
        for load in ["multicast_mbit_per_s", "chatter_per_s", "tcp_mbit_per_s"] {
            assert!(figure(all, load) > 0.0, "{all:#}");
            assert_eq!(row(&report, "silent")[load], Value::Null);
        }
        let control = figure(row(&report, "silent"), "control_share");
        assert!((0.0..0.1).contains(&control), "{control}");
        let (left, right) = (&cable.left.interface, &cable.right.interface);
        let out = |noise: &str| {
            figure(row(&report, &format!("{noise}: sender, {left}")), "out_packets_per_s")
        };
        let arrived = |noise: &str| {
            figure(row(&report, &format!("{noise}: receiver, {right}")), "in_packets_per_s")
        };
        assert!(out(messages::ALL_LOADS) > 2.0 * out("silent"), "{report:#}");
        assert!(arrived(messages::ALL_LOADS) > 2.0 * arrived("silent"), "{report:#}");
        let tapped = |noise: &str, end: &str, part: &str, key: &str| {
            figure(row(&report, &format!("{noise}: {end}: {part}")), key)
        };
        let [sender, receiver] = [format!("sender, {left}"), format!("receiver, {right}")];
        for noise in ["silent", messages::ALL_LOADS] {
            let sound = |end: &str, key: &str| tapped(noise, end, "sound (RTP)", key);
            assert!(sound(&sender, "tapped_out_packets_per_s") > 500.0, "{report:#}");
            assert_eq!(sound(&sender, "tapped_in_packets_per_s"), 0.0, "{report:#}");
            assert!(sound(&receiver, "tapped_in_packets_per_s") > 500.0, "{report:#}");
            let control = tapped(noise, &sender, "control (RTCP)", "tapped_in_packets_per_s");
            assert!((0.0..100.0).contains(&control) && control > 0.0, "{report:#}");
        }
        for part in ["other multicast", "other UDP", "TCP"] {
            assert!(tapped(messages::ALL_LOADS, &receiver, part, "tapped_in_mbit_per_s") > 0.5);
            let silent = format!("silent: {receiver}: {part}");
            let rows = report["rows"].as_array().unwrap();
            assert!(rows.iter().all(|row| row["name"] != *silent), "{report:#}");
        }
        // On an idle network, layers contain little but sound and headers.
        let layers = row(&report, &format!("silent: {sender}: out, by layer"));
        let ratio = figure(layers, "sound_mbit_per_s") / figure(layers, "ethernet_mbit_per_s");
        assert!((1.0 - ratio - figure(layers, "layers_overhead_share")).abs() < 0.02, "{layers:#}");
        assert!((0.2..0.25).contains(&figure(layers, "layers_overhead_share")), "{layers:#}");
        // Two figures under one heading would share a text column.
        for row in report["rows"].as_array().unwrap() {
            let words: Vec<_> = row["words"].as_object().unwrap().values().collect();
            let reported: BTreeSet<_> = words.iter().filter_map(|word| word.as_str()).collect();
            assert_eq!(reported.len(), words.len(), "{row:#}");
        }
        // The group had no members; every packet of the stream had a receiver.
        let nobody = row(&report, "all at once: receiver, unwanted IP");
        assert!(figure(nobody, "in_packets_per_s") > 0.0, "{nobody:#}");
    });
}

#[test]
fn ambient_traffic_is_reported_without_a_stream() {
    let Some(cable) = Cable::lay() else { return };
    let noise = format!("lab loadgen multicast --by {}:9", cable.right.address);
    let _noise = taut(words(&noise)).within(&cable.left).start();
    let line = "lab network --only ambient --duration 2s";
    let report = between(&cable, line).run().well().json();
    let ends = [("sender", &cable.left, "sent"), ("receiver", &cable.right, "received")];
    for (end, namespace, way) in ends {
        let name = format!("ambient: {end}, {}", namespace.interface);
        let all = row(&report, &name);
        assert!(figure(all, &format!("{way}_mbit_per_s")) > 0.1, "{all:#}");
        assert!(figure(all, "busiest_mbit_per_s") >= 0.5 * figure(all, "mbit_per_s"), "{all:#}");
        for part in [": RTP", ", by address: IPv4 multicast"] {
            let part = row(&report, &format!("{name}{part}"));
            assert!(figure(part, "packets_per_s") > 20.0, "{part:#}");
            assert!(figure(part, "bytes_share") > 0.5, "{part:#}");
        }
        let series = all["meanwhile"].as_array().unwrap();
        let keys: Vec<_> = series.iter().filter_map(|one| one["key"].as_str()).collect();
        assert_eq!(keys, ["mbit_per_s", "packets_per_s"], "{all:#}");
    }
}

#[test]
fn header_bytes_match_the_interface_counter() {
    shared(|| {
        let Some(cable) = Cable::lay() else { return };
        let report =
            between(&cable, "lab network --only overhead --duration 1s").run().well().json();
        // 20 ms in 16 bits are 3840 bytes in three frames. The thesis has 3974 without timestamps.
        let long = row(&report, "packets of 20ms, L16: bytes");
        assert_eq!(long["payload_bytes"], 3840);
        assert_eq!(long["thesis_ethernet_bytes"], 3974);
        for name in ["20ms", "10ms", "5ms", "1ms"] {
            let row = row(&report, &format!("packets of {name}, L16: bytes"));
            let ratio = figure(row, "counted_bytes") / figure(row, "interface_bytes");
            assert!((0.95..1.1).contains(&ratio), "{row:#}");
            assert!(figure(row, "overhead_share") > figure(row, "thesis_overhead_share"));
            for layer in ["payload", "rtp", "udp", "ip", "ethernet"] {
                let tapped = figure(row, &format!("tapped_{layer}_bytes"));
                assert_eq!(tapped, figure(row, &format!("{layer}_bytes")), "{layer}: {row:#}");
            }
        }
    });
}

#[test]
fn mode_is_chosen_by_the_table_for_noise() {
    shared(|| {
        let Some(cable) = Cable::lay() else { return };
        let line = "lab latency-sweep --noise noisy --tcp-rate 20Mbit --duration 1s";
        let call = between(&cable, line).and(["--only", "1 ms", "--only", "test 10"]);
        let report = call.run().well().json();
        let low = row(&report, "5ms: periods and packets of 1ms, all at once");
        assert!(figure(low, "chatter_per_s") > 0.0 && figure(low, "tcp_mbit_per_s") > 0.0);
        assert!(low["measured"]["count"].as_u64() > Some(0), "{low:#}");
        let high = row(&report, "20ms: periods of 5ms, packets of 1ms (test 10), all at once");
        let published = high["published"].as_array().unwrap();
        let sources: Vec<_> = published.iter().map(|one| &one["source"]).collect();
        assert_eq!(sources, ["Lund 2020, table 3.3", "Lund 2020, table 3.3"]);
    });
}

#[test]
fn receiver_with_half_a_processor_reports_its_share() {
    shared(|| {
        let line = "lab limits --only shared --scheduler other --duration 1s --report json";
        let ended = taut(words(line)).run();
        let report = ended.json();
        let row = &report["rows"][0];
        if let Some(why) = row["invalid"].as_str().filter(|why| why.contains("control group")) {
            return skipped(Lack::reported_by(why), why);
        }
        let row = self::row(&report, "50 %, shared, other");
        assert_eq!(row["scheduler"], "other", "{row:#}");
        // Two programs need more processor time than the group may use.
        assert!(figure(row, "throttled_percent") > 0.0, "{row:#}");
        assert!(figure(row, "group_cpu_percent") < 100.0, "{row:#}");
    });
}

#[test]
fn a_receiver_in_a_namespace_is_limited_too() {
    shared(|| {
        let Some(cable) = Cable::lay() else { return };
        let line = "lab limits --only 100% --scheduler other --duration 500ms";
        let report = between(&cable, line).run().json();
        let row = &report["rows"][0];
        match row["invalid"].as_str().filter(|why| why.contains("no control groups")) {
            Some(why) if !control_groups_are_mounted() => skipped(Lack::reported_by(why), why),
            _ => {
                assert!(row["invalid"].is_null(), "{report:#}");
                assert!(figure(row, "group_cpu_percent") > 0.0, "{row:#}");
            }
        }
    });
}

fn control_groups_are_mounted() -> bool {
    std::fs::read_to_string("/proc/self/mounts").unwrap().contains("cgroup")
}

#[test]
fn measuring_cost_and_stall_monitor_cost_are_reported() {
    shared(|| {
        let line = "lab overhead --rounds 1 --settle 1s --duration 500ms --period 240 --latency 400ms --report json";
        let ended = taut(words(line)).run().well();
        let report = ended.json();
        let rows = report["rows"].as_array().unwrap();
        let names: Vec<_> = rows.iter().filter_map(|row| row["name"].as_str()).collect();
        let kinds =
            ["nothing measured", "1 of 64", "every packet", "every packet, and the stall monitor"];
        assert_eq!(names, kinds);
        for row in rows {
            assert_eq!(row["invalid"], Value::Null, "{report:#}");
            assert!(row["measured"]["mean_ns"].as_i64() > Some(0), "{report:#}");
            assert!(row["added_ns"].is_i64(), "{report:#}");
        }
        assert!(rows[2]["latency_added_ns"].is_i64(), "{report:#}");
        let reported: Vec<_> = rows.iter().map(|row| row["stall_monitor_ns"].is_i64()).collect();
        assert_eq!(reported, [false, false, false, true], "{report:#}");
    });
}
