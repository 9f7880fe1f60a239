//! Contacts of a node. Named pipes with edges are their chips.

use std::io::Write as _;
use std::path::Path;

use tautline_io::clock::now;

use super::*;
use crate::common::program::call;

/// An open contact.
struct Switch(std::fs::File);

impl Switch {
    fn new(chip: &Path) -> Self {
        call("mkfifo", [chip]).run().well();
        Self(std::fs::File::options().read(true).write(true).open(chip).unwrap())
    }

    /// Bounces once.
    fn set(&mut self, is_closed: bool) {
        for level in [is_closed, !is_closed, is_closed] {
            // `struct gpio_v2_line_event`: time, 1 for a rising edge or 2 for a falling one.
            let kind: u32 = if level { 1 } else { 2 };
            let mut event = now().as_nanos().to_ne_bytes().to_vec();
            event.extend(kind.to_ne_bytes());
            event.resize(48, 0);
            self.0.write_all(&event).unwrap();
        }
    }
}

/// Results of the announcements in the gym.
fn results_in_gym(building: &Building) -> Vec<String> {
    let zone = building.zone("gym");
    let announcements = zone["announcements"].as_array().unwrap().iter();
    announcements.map(|it| it["result"].as_str().unwrap().to_owned()).collect()
}

/// Two nodes. The right one has these lines in its `local.toml`.
fn nodes_with(building: &Building, local: &str) -> [Running; 2] {
    let (home, own) = (building.folder.file("home"), building.folder.file("own"));
    call("cp", words("-r")).and([&home, &own]).run().well();
    std::fs::write(own.join("local.toml"), local).unwrap();
    let node = |call: Call| call.listened_to().start().wait_for("node ");
    let right = building.right("node").with("TAUT_HOME", &own);
    let nodes = [node(building.left("node")), node(right)];
    until("not all zones play", || building.zones().iter().all(|zone| zone["state"] == "playing"));
    nodes
}

#[test]
fn closed_contact_plays_its_message_in_a_zone() {
    shared(|| {
        let Some(building) = Building::open() else { return };
        let chip = building.folder.file("chip");
        let mut switch = Switch::new(&chip);
        let nodes = nodes_with(
            &building,
            &format!(
                "[contact.bell]\nchip = {chip:?}\nline = 3\nplay = \"alarm\"\nto = [\"gym\"]\n\
                 station = \"desk\"\n[contact.lost]\nchip = \"no-chip\"\nline = 1\npage = true\n\
                 to = [\"all\"]\n"
            ),
        );
        switch.set(true);
        until("the message is not played", || results_in_gym(&building) == ["played"]);
        let listed = building.right("zones --report json").run().out;
        let listed: Value = serde_json::from_str(&listed).unwrap();
        let faults = listed["nodes"].as_array().unwrap().iter();
        let faults = faults.flat_map(|node| node["faults"].as_array().unwrap().clone());
        let contacts: Vec<_> = faults.filter(|fault| fault["kind"] == "contact").collect();
        assert_eq!(contacts.len(), 1, "{contacts:?}");
        assert_eq!((&contacts[0]["name"], &contacts[0]["lasts"]), (&"lost".into(), &true.into()));
        end(nodes);
        let levels = building.levels("right.wav", 0, [PAGE]);
        let alarm = levels.iter().filter(|[level]| near(*level, -12.0)).count();
        assert!((8..=10).contains(&alarm), "{alarm} tenths: {levels:.1?}");
    });
}

#[test]
fn page_of_a_contact_ends_as_it_opens() {
    shared(|| {
        let Some(building) = Building::open() else { return };
        let input = BUILDING.replace("rank = 1\n", "rank = 1\ninput = \"tone:1000\"\n");
        std::fs::write(building.folder.file("building.toml"), input).unwrap();
        let chip = building.folder.file("chip");
        let mut switch = Switch::new(&chip);
        let nodes = nodes_with(
            &building,
            &format!("[contact.desk]\nchip = {chip:?}\nline = 0\npage = true\nto = [\"gym\"]\n"),
        );
        for expected in [&["played"][..], &["played"; 2]] {
            switch.set(true);
            until("the page does not begin", || building.zone("gym")["announcement"].is_string());
            switch.set(false);
            until("the page does not end", || results_in_gym(&building) == expected);
        }
        end(nodes);
    });
}

#[test]
fn message_repeats_while_the_contact_is_closed() {
    shared(|| {
        let Some(building) = Building::open() else { return };
        let chip = building.folder.file("chip");
        let mut switch = Switch::new(&chip);
        let nodes = nodes_with(
            &building,
            &format!(
                "[contact.alarm]\nchip = {chip:?}\nline = 0\nplay = \"alarm\"\nrepeat = true\n\
                 to = [\"gym\"]\n"
            ),
        );
        // As echo 1 does.
        writeln!(switch.0, "1").unwrap();
        until("it does not begin", || building.zone("gym")["announcement"].is_string());
        // The message has 1 s.
        grows(&building.folder.file("right.wav"), 2500);
        writeln!(switch.0, "0").unwrap();
        until("it does not end", || results_in_gym(&building) == ["played"]);
        writeln!(switch.0, "2").unwrap();
        until("no fault for text without a level", || {
            let listed = building.right("zones --report json").run().out;
            listed.contains("\"contact\"")
        });
        end(nodes);
        let levels = building.levels("right.wav", 0, [PAGE]);
        let alarm = levels.iter().filter(|[level]| near(*level, -12.0)).count();
        assert!(alarm >= 20, "{alarm} tenths: {levels:.1?}");
    });
}
