//! `taut demo building`: its machines, its announcement, and what remains of it.

use std::process::Command;

use serde_json::Value;
use tautline_trial::snapshot;

use crate::common::network::Cable;
use crate::common::program::{Call, Running, call, ordinary, taut, words};
use crate::common::{Folder, shared, until};

fn demo(folder: &Folder) -> Call {
    taut(words("demo building --out .")).in_folder(folder.path()).listened_to()
}

/// Namespaces with this prefix.
fn namespaces(prefix: &str) -> Vec<String> {
    let entries = std::fs::read_dir("/run/netns").into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter(|name| name.starts_with(prefix)).collect()
}

fn of(demo: &Running) -> String {
    format!("taut-building-{}-", demo.id())
}

fn has_processes(namespace: &str) -> bool {
    let pids = Command::new("ip").args(["netns", "pids", namespace]).output().unwrap();
    !pids.stdout.is_empty()
}

#[test]
fn demo_building_announces_in_six_zones_and_leaves_nothing() {
    shared(|| {
        if Cable::lay().is_none() {
            return;
        }
        // No process has this number (PID_MAX_LIMIT in include/linux/threads.h).
        let abandoned = format!("taut-building-{}-cellar", (1 << 22) + std::process::id());
        let added = Command::new("ip").args(["netns", "add", &abandoned]).status().unwrap();
        assert!(added.success());
        let folder = Folder::new();
        let demo = demo(&folder).start().wait_for("running until Ctrl-C");
        assert_eq!(namespaces(&abandoned), [""; 0]);
        let prefix = of(&demo);
        assert_eq!(namespaces(&prefix).len(), 4);
        let lines: Vec<_> = demo.messages().cloned().collect();
        let has = |text: &str| lines.iter().any(|line| line.contains(text));
        assert!(has("chime announced in 6 of 6 zones"), "{lines:#?}");
        assert!(has("15 pairs of zones: p50 "), "{lines:#?}");
        let script = folder.file("gym");
        let zones = call(script.to_str().unwrap(), words("taut zones --report json")).run().well();
        let zones: Value = serde_json::from_str(&zones.out).unwrap();
        let nodes = zones["nodes"].as_array().unwrap().iter();
        let zones = nodes.flat_map(|node| node["zones"].as_array().unwrap());
        assert_eq!(zones.filter(|zone| zone["state"] == "playing").count(), 6);
        demo.signal("-INT");
        demo.end().well();
        assert_eq!(namespaces(&prefix), [""; 0]);
    });
}

#[test]
fn machines_of_a_killed_demo_building_end() {
    shared(|| {
        if Cable::lay().is_none() {
            return;
        }
        let folder = Folder::new();
        let demo = demo(&folder).start().wait_for("recordings of the cards");
        let remains = namespaces(&of(&demo));
        until("no node runs", || remains.iter().filter(|name| has_processes(name)).count() == 3);
        demo.signal("-KILL");
        demo.end();
        until("nodes stay", || !remains.iter().any(|name| has_processes(name)));
        for name in remains {
            let _ = Command::new("ip").args(["netns", "delete", &name]).status();
        }
    });
}

#[test]
fn demo_building_needs_root() {
    let Some(call) = ordinary("demo building") else { return };
    let ended = call.run();
    assert_eq!(ended.status, Some(3), "{ended:#?}");
    snapshot!("refused", ended.messages.concat());
}
