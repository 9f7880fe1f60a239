//! Faults of a building, its log of announcements, and the messages of a node to systemd.

use std::fs::read_to_string;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::building::{Building, card_process, end, results};
use crate::common::program::Call;
use crate::common::{shared, until};

/// Faults that `taut zones` lists: kind, name, and whether it lasts.
fn faults(zones: &Call) -> Vec<(String, String, bool)> {
    let listed: Value = serde_json::from_str(&zones.run().out).unwrap();
    let nodes = listed["nodes"].as_array().unwrap().iter();
    let faults = nodes.flat_map(|node| node["faults"].as_array().unwrap().clone());
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let fault = |it: Value| (text(&it["kind"]), text(&it["name"]), it["lasts"] == true);
    faults.map(fault).collect()
}

fn fault(kind: &str, name: &str, lasts: bool) -> (String, String, bool) {
    (kind.to_owned(), name.to_owned(), lasts)
}

fn signal(process: &str, signal: &str) {
    assert!(Command::new("kill").args([signal, process]).status().unwrap().success());
}

fn log(path: &Path) -> Vec<Value> {
    let lines = read_to_string(path).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn fault_of_a_card_stays_until_acknowledged() {
    shared(|| {
        let Some(building) = Building::open() else { return };
        let [left, right] = building.nodes();
        let zones = building.right("zones --report json");
        zones.run().well();
        signal(&card_process(&left).unwrap(), "-KILL");
        let both = ["bar", "hall"].map(|zone| fault("card", zone, false));
        until("the fault does not show and end", || faults(&zones) == both);
        assert_eq!(zones.run().status, Some(1));
        building.right("ack bar").run().well();
        assert_eq!(faults(&zones), [fault("card", "hall", false)]);
        left.signal("-INT");
        left.end().well();
        let left = building.left("node").listened_to().start().wait_for("node ");
        assert_eq!(faults(&zones), [fault("card", "hall", false)], "after a restart of the node");
        let cleared = building.right("ack left").run().well();
        assert_eq!(cleared.out.lines().count(), 1, "{cleared:#?}");
        assert_eq!(faults(&zones), []);
        end([left, right]);
    });
}

#[test]
fn zone_behind_a_cut_link_has_a_fault() {
    shared(|| {
        let Some(building) = Building::open() else { return };
        let nodes = building.nodes();
        let zones = building.right("zones --report json");
        let right = &building.cable.right;
        right.breaks();
        until("the fault does not show", || faults(&zones) == [fault("silent", "gym", true)]);
        let link = ["-n", &right.name, "link", "set", &right.interface, "up"];
        assert!(Command::new("ip").args(link).status().unwrap().success());
        until("the fault does not end", || faults(&zones) == [fault("silent", "gym", false)]);
        building.left("ack gym").run().well();
        assert_eq!(faults(&zones), []);
        end(nodes);
    });
}

#[test]
fn log_has_the_announcement_in_each_zone() {
    shared(|| {
        let Some(building) = Building::open() else { return };
        let nodes = building.nodes();
        let played = building.right("play gym,hall alarm --report json").run().well();
        let played: Value = serde_json::from_str(&played.out).unwrap();
        let path = building.folder.file("home/announcements.jsonl");
        let own = |line: &Value| line["id"] == played["id"];
        until("a line is missing", || log(&path).iter().filter(|line| own(line)).count() == 3);
        let lines = log(&path);
        for (zone, node) in [("gym", "right"), ("hall", "left")] {
            let line = lines.iter().find(|line| own(line) && line["zone"] == zone).unwrap();
            let expected = serde_json::json!({
                "node": node, "result": "played", "by": null, "station": "desk", "rank": 1,
                "priority": 100, "targets": ["gym", "hall"]
            });
            for (key, value) in expected.as_object().unwrap() {
                assert_eq!(&line[key], value, "{key} of {line}");
            }
            // Both namespaces have one clock, so the start is as claimed.
            let [planned, started] =
                ["planned_ns", "started_ns"].map(|key| line[key].as_i64().unwrap());
            assert!((started - planned).abs() < 100_000_000, "{line}");
        }
        let station = lines.iter().find(|line| own(line) && line["zones"].is_array()).unwrap();
        assert_eq!(station["station"], "desk");
        assert_eq!(station["zones"], played["zones"]);
        end(nodes);
    });
}

#[test]
fn full_disk_costs_the_log_but_no_sound() {
    shared(|| {
        let Some(building) = Building::open() else { return };
        // Each write fails as on a full disk (full(4)).
        let path = building.folder.file("home/announcements.jsonl");
        std::os::unix::fs::symlink("/dev/full", &path).unwrap();
        let nodes = building.nodes();
        let zones = building.right("zones --report json");
        let played = building.right("play gym alarm --report json").run().well();
        assert_eq!(results(&played.out), [("gym".to_owned(), "played".to_owned())]);
        assert_eq!(played.messages.iter().filter(|it| it.contains("jsonl")).count(), 1);
        let disk = [fault("disk", &path.display().to_string(), true)];
        until("the fault does not show", || faults(&zones) == disk);
        std::fs::remove_file(&path).unwrap();
        building.right("play gym alarm").run().well();
        until("the fault does not end", || faults(&zones).iter().all(|(.., lasts)| !lasts));
        assert_eq!(log(&path).len(), 2);
        end(nodes);
    });
}

#[test]
fn frozen_card_process_is_restarted_and_stops_the_watchdog() {
    shared(|| {
        let Some(building) = Building::open() else { return };
        let path = building.folder.file("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        manager.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let next = || {
            let mut bytes = [0; 1000];
            let length = manager.recv(&mut bytes).expect("a message");
            String::from_utf8_lossy(&bytes[..length]).into_owned()
        };
        let node = building.left("node").with("NOTIFY_SOCKET", &path).listened_to().start();
        let node = node.wait_for("node ");
        assert_eq!(next(), "READY=1");
        while next() != "STATUS=2 of 2 zones playing, 0 faults\nWATCHDOG=1" {}
        let frozen = card_process(&node).unwrap();
        signal(&frozen, "-STOP");
        while next().contains("WATCHDOG=1") {}
        while next() != "STATUS=2 of 2 zones playing, 2 faults\nWATCHDOG=1" {}
        assert_ne!(card_process(&node).unwrap(), frozen);
        node.signal("-INT");
        node.end().well();
        while next() != "STOPPING=1" {}
    });
}
