//! Pages while parts of the building die or are cut off, repeated packets, and two stations at
//! once. No page is lost or doubled.

use std::process::Command;

use serde_json::Value;

use crate::building::{Building, card_process, end, results};
use crate::common::program::{Running, call};
use crate::common::{grows, shared, until};

const PAGE: f64 = 1000.0;

/// Lengths of the pages in a channel of a recording, in tenths of a second.
fn pages(building: &Building, file: &str, channel: usize) -> Vec<usize> {
    let levels = building.levels(file, channel, [PAGE]);
    let sounds = levels.iter().map(|[level]| *level > -30.0).collect::<Vec<_>>();
    let blocks = sounds.chunk_by(|one, other| one == other);
    blocks.filter(|block| block[0]).map(<[bool]>::len).collect()
}

/// A page of 1 s to all zones.
fn page(building: &Building) -> Running {
    let page = building.right("play all alarm.wav --station desk --report json");
    page.listened_to().start().wait_for("on air in ")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// The left node gets no packets for a while.
    Cut,
    /// The process of the left card dies.
    Card,
    /// The station dies.
    Station,
}

const FAULTS: [Fault; 4] = [Fault::Cut, Fault::Card, Fault::Station, Fault::None];

/// The right node has no fault, so it must play each page once. The left one must play the next
/// page after each fault.
fn play_pages(runs: usize) {
    let Some(building) = Building::open() else { return };
    let nodes = building.nodes();
    let cut = "table inet cut {\n chain input {\n type filter hook input priority 0\n \
               iifname != \"lo\" drop\n }\n}\n";
    for run in 0..runs {
        let fault = FAULTS[run % FAULTS.len()];
        let playing = page(&building);
        grows(&building.folder.file("right.wav"), 200);
        match fault {
            Fault::None => {}
            Fault::Cut => assert!(building.cable.left.rules(cut)),
            Fault::Card => kill(&card_process(&nodes[0]).unwrap()),
            Fault::Station => playing.signal("-KILL"),
        }
        if fault == Fault::Cut {
            grows(&building.folder.file("right.wav"), 100 + 50 * (run as u64 % 16));
            assert!(building.cable.left.rules("delete table inet cut"));
        }
        let ended = playing.end();
        if fault != Fault::Station {
            let all = results(&ended.out);
            let at = |name: &str| all.iter().find(|(zone, _)| zone == name).unwrap().1.clone();
            assert_eq!(at("gym"), "played", "run {run}, {fault:?}: {ended:#?}");
            if fault == Fault::None {
                assert!(all.iter().all(|(_, result)| result == "played"), "run {run}: {all:?}");
            }
        }
        until("the zones are not free", || {
            let mut zones = building.zones().into_iter();
            let free = |zone: Value| zone["state"] == "playing" && zone["announcement"].is_null();
            zones.len() == 3 && zones.all(free)
        });
        // A pause between pages, in which the program returns.
        grows(&building.folder.file("right.wav"), 400);
    }
    end(nodes);
    let found = pages(&building, "right.wav", 0);
    assert_eq!(found.len(), runs, "{found:?}");
    for (run, length) in found.iter().enumerate() {
        let whole = FAULTS[run % FAULTS.len()] != Fault::Station;
        assert!(*length <= 11 && (!whole || *length >= 9), "run {run}: {found:?}");
    }
}

fn kill(process: &str) {
    assert!(Command::new("kill").args(["-KILL", process]).status().unwrap().success());
}

#[test]
fn no_page_is_lost_or_doubled_by_faults() {
    shared(|| play_pages(FAULTS.len()));
}

#[test]
#[ignore = "soak: 100 pages"]
fn no_page_of_100_is_lost_or_doubled_by_faults() {
    play_pages(100);
}

/// Records all packets of the group for 2.5 s after its first line, and sends them again 1.5 s
/// later from another socket.
const REPEATER: &str = "import socket, sys, time, select\n\
    group, here = sys.argv[1:3]\n\
    def listen(port):\n    \
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n    \
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n    \
        s.bind((group, port))\n    \
        s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(group) + socket.inet_aton(here))\n    \
        return s\n\
    both = [listen(5004), listen(5005)]\n\
    print('recording', flush=True)\n\
    kept, end = [], None\n\
    while end is None or time.monotonic() < end:\n    \
        for s in select.select(both, [], [], 0.1)[0]:\n        \
            kept.append((time.monotonic(), s.getsockname()[1], s.recv(65536)))\n        \
            end = end or kept[0][0] + 2.5\n\
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
    out.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(here))\n\
    start = time.monotonic() + 1.5\n\
    for at, port, packet in kept:\n    \
        time.sleep(max(0, start + at - kept[0][0] - time.monotonic()))\n    \
        out.sendto(packet, (group, port))\n\
    print('repeated', sum(port == 5005 for _, port, _ in kept), len(kept), flush=True)\n";

#[test]
fn repeated_packets_of_a_page_do_not_play_again() {
    shared(|| {
        let Some(building) = Building::open() else { return };
        let nodes = building.nodes();
        let right = &building.cable.right;
        let repeater = call("python3", ["-c", REPEATER, "239.255.77.1", right.address]);
        let repeater = repeater.within(right).listened_to().start().wait_for("recording");
        let page = building.right("play all alarm.wav --report json --station desk").run().well();
        assert!(results(&page.out).iter().all(|(_, result)| result == "played"), "{page:#?}");
        let repeated = repeater.wait_for("repeated").end().well();
        let counts: Vec<usize> =
            repeated.out.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        assert!(counts[0] > 5 && counts[1] > 900, "{repeated:#?}");
        grows(&building.folder.file("left.wav"), 1000);
        for zone in building.zones() {
            assert_eq!(zone["announcements"].as_array().unwrap().len(), 1, "{zone:#}");
        }
        end(nodes);
        for (file, channel) in [("left.wav", 0), ("left.wav", 2), ("right.wav", 0)] {
            assert_eq!(pages(&building, file, channel).len(), 1, "{file} {channel}");
        }
    });
}

#[test]
fn of_two_stations_at_once_all_zones_play_the_same_one() {
    shared(|| {
        let Some(building) = Building::open() else { return };
        let second =
            "\n[station.door]\nnode = \"right\"\npriority = \"page\"\nrank = 3\nto = [\"all\"]\n";
        let file = building.folder.file("building.toml");
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text + second).unwrap();
        let nodes = building.nodes();
        let start = |station: &str| {
            building.right(&format!("play all alarm.wav --report json --station {station}")).start()
        };
        let both = [start("desk"), start("door")];
        let both = both.map(|station| results(&station.end().out));
        let played = |all: &[(String, String)]| all.iter().all(|(_, result)| result == "played");
        let refused = |all: &[(String, String)]| {
            all.iter().all(|(_, result)| ["refused", "preempted"].contains(&&**result))
        };
        let [desk, door] = &both;
        assert!(
            (played(desk) && refused(door)) || (played(door) && refused(desk)),
            "desk {desk:?}, door {door:?}"
        );
        end(nodes);
        for (file, channel) in [("left.wav", 0), ("left.wav", 2), ("right.wav", 0)] {
            assert_eq!(pages(&building, file, channel).len(), 1, "{file} {channel}");
        }
    });
}
