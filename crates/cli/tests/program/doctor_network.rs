//! `taut doctor` observes the network of a node: IGMP queries, and the DSCP of streams.

use std::process::Command;

use crate::common::network::Cable;
use crate::common::program::{Running, call, ordinary, taut, words};
use crate::common::{Folder, shared};
use crate::doctor::Findings;

const BUILDING: &str = r#"epoch = 1
announcements = "239.255.77.1:5004"
[node.gym]
host = "10.77.0.1"
[node.gym.card.main]
device = "virtual:"
[zone.gym]
number = 1
node = "gym"
card = "main"
channels = [1, 2]
"#;
const MUSIC: &str = r#"[source.music]
device = "tone:440"
node = "gym"
address = "239.255.78.1:5004"
"#;

/// Sends general queries (IGMPv2, RFC 2236 §2) if the first argument is `query`, and packets of the
/// source with this type of service.
const NETWORK: &str = "import socket, sys, time\n\
    own = socket.inet_aton('10.77.0.2')\n\
    igmp = socket.socket(socket.AF_INET, socket.SOCK_RAW, 2)\n\
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
    for s in (igmp, udp):\n    \
        s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, own)\n\
    udp.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, int(sys.argv[2]))\n\
    print('sends', file=sys.stderr, flush=True)\n\
    while True:\n    \
        if sys.argv[1] == 'query':\n        \
            igmp.sendto(bytes([0x11, 100, 0xee, 0x9b, 0, 0, 0, 0]), ('224.0.0.1', 0))\n    \
        udp.sendto(bytes([0x80] * 100), ('239.255.78.1', 5004))\n    \
        time.sleep(0.02)\n";

/// Sends from the right end of the cable until it is dropped.
fn network(cable: &Cable, queries: &str, tos: &str) -> Running {
    call("python3", ["-c", NETWORK, queries, tos]).within(&cable.right).start().wait_for("sends")
}

/// Findings at the left end.
fn found(cable: &Cable, building: &str, time: &str) -> Findings {
    let folder = Folder::new();
    std::fs::write(folder.file("building.toml"), building).unwrap();
    let line = format!("doctor --report json --latency 1s --site building.toml --observe {time}");
    Findings::of(&taut(words(&line)).in_folder(folder.path()).within(&cable.left))
}

#[test]
fn query_of_the_network_is_found() {
    shared(|| {
        let Some(cable) = Cable::lay() else { return };
        assert_eq!(found(&cable, BUILDING, "1s").verdict("igmp-queries"), "warning");
        let _network = network(&cable, "query", "0");
        let found = found(&cable, BUILDING, "20s");
        assert_eq!(found.verdict("igmp-queries"), "ok");
        assert_eq!(found.count("dscp"), 0, "no source in the file");
    });
}

#[test]
fn querier_is_found_without_waiting_for_its_interval() {
    shared(|| {
        let Some(cable) = Cable::lay() else { return };
        let right = &cable.right;
        let ip = |line: &str| {
            let done = Command::new("ip").args(["-n", &right.name]).args(words(line)).status();
            done.is_ok_and(|status| status.success())
        };
        // The right end becomes a port of a switch.
        assert!(ip("link add switch type bridge mcast_snooping 1 mcast_querier 0"));
        assert!(ip(&format!("link set {} master switch", right.interface)));
        assert!(ip("link set switch up"));
        assert_eq!(found(&cable, BUILDING, "1s").verdict("igmp-queries"), "warning");
        assert!(ip("link set switch type bridge mcast_query_interval 100000 mcast_querier 1"));
        // The first finds the queries of the start, the second only an answer.
        for _ in 0..2 {
            assert_eq!(found(&cable, BUILDING, "20s").verdict("igmp-queries"), "ok");
        }
    });
}

#[test]
fn changed_dscp_of_a_source_is_found() {
    shared(|| {
        let Some(cable) = Cable::lay() else { return };
        let building = BUILDING.to_owned() + MUSIC;
        for (tos, verdict) in [("136", "ok"), ("0", "warning")] {
            let _network = network(&cable, "query", tos);
            let found = found(&cable, &building, "20s");
            assert_eq!((found.verdict("dscp"), found.verdict("igmp-queries")), (verdict, "ok"));
        }
    });
}

#[test]
fn user_without_rights_learns_that_nothing_was_observed() {
    shared(|| {
        let Some(cable) = Cable::lay() else { return };
        let folder = Folder::new();
        let file = folder.file("building.toml");
        std::fs::write(&file, BUILDING).unwrap();
        let readable = Command::new("chmod").args(["-R", "a+rX"]).arg(folder.path()).status();
        assert!(readable.unwrap().success());
        let line = format!("doctor --report json --latency 1s --site {}", file.display());
        let Some(doctor) = ordinary(&line) else { return };
        let found = Findings::of(&doctor.in_folder(folder.path()).within(&cable.left));
        assert_eq!(found.verdict("igmp-queries"), "unknown");
        assert_eq!(found.of_check("igmp-queries")["details"], "sudo taut doctor");
    });
}
