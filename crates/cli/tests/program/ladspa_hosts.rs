//! LADSPA hosts that load `tautline.so` like any plugin library.

mod alone;
mod graphs;
mod hosted;
mod pipelines;
mod scene;
mod worked;
mod worker;

use std::collections::BTreeSet;
use tautline_trial::snapshot;

use serde_json::Value;

use crate::ladspa_hosts::scene::{Scene, plugin, port};
use crate::pcm::is_there;

fn many(count: usize) -> Vec<Value> {
    let control = |n| port(&format!("Control {n}"), 5, 0xC3, (0.0, 10.0));
    let mut ports: Vec<Value> = (0..8).map(control).collect();
    ports.extend([port("Input", 9, 0, (0.0, 0.0)), port("Output", 10, 0, (0.0, 0.0))]);
    let of = |n| plugin(&format!("lib{}.so", n / 10), &format!("effect_{n}"), &ports);
    (0..count).map(of).collect()
}

#[test]
fn host_finds_plugins_of_the_catalogue_file() {
    if !is_there("analyseplugin", "--help") {
        return;
    }
    let scene = Scene::new();
    let ports = [
        port("Gain", 5, 0x1 | 0x2 | 0xC0, (0.0, 2.0)),
        port("Cutoff", 5, 0x1 | 0x2 | 0x8 | 0x10 | 0x80, (0.001, 0.5)),
        port("In", 9, 0, (0.0, 0.0)),
        port("Out", 10, 0, (0.0, 0.0)),
    ];
    scene.saves("127.0.0.1:1", "the studio", vec![plugin("a.so", "verb", &ports)]);
    let messages = scene.host("analyseplugin", "tautline.so a.so:verb@the_studio").run().well();
    for line in [
        "Plugin Name: \"Verb @ the studio\"",
        "Plugin Label: \"a.so:verb@the_studio\"",
        "Ports:\t\"Gain\" input, control, 0 to 2, default 1",
        "\t\"Cutoff\" input, control, 0.001*srate to 0.5*srate",
        "\t\"In\" input, audio",
        "\t\"Out\" output, audio",
        "\t\"latency\" output, control, 0 to ..., integer",
    ] {
        assert!(
            messages.out.lines().any(|messages| messages.starts_with(line)),
            "{line:?}: {messages:#?}"
        );
    }
    assert_eq!(messages.messages, Vec::<String>::new());
    let again = scene.host("analyseplugin", "tautline.so a.so:verb@the_studio").run().well();
    assert_eq!(messages.out, again.out, "numbers and labels are those of before");
}

#[test]
fn invalid_catalogue_leaves_a_host_without_plugins() {
    if !is_there("listplugins", "--help") {
        return;
    }
    let scene = Scene::new();
    let none = scene.host("listplugins", "").run().well();
    assert!(none.out.contains("tautline.so"), "{none:#?}");
    assert_eq!(none.messages, Vec::<String>::new(), "nothing was saved, and nothing is wrong");
    for text in ["{", "{\"version\": 2, \"workers\": []}", "{\"version\": 1, \"workers\": 7}"] {
        std::fs::write(scene.catalogue(), text).unwrap();
        let ran = scene.host("listplugins", "").run().well();
        let [line] = ran.messages.as_slice() else { panic!("{ran:#?}") };
        snapshot!(text, line);
    }
}

#[test]
fn five_hundred_plugins_are_scanned_whole() {
    if !is_there("listplugins", "--help") {
        return;
    }
    let scene = Scene::new();
    scene.saves("127.0.0.1:1", "studio", many(500));
    let ran = scene.host("listplugins", "").run().well();
    let numbers: BTreeSet<&str> = ran
        .out
        .lines()
        .filter_map(|line| line.split_once(" @ studio (")?.1.split('/').next())
        .collect();
    assert_eq!(numbers.len(), 500, "each has a number of its own");
}
