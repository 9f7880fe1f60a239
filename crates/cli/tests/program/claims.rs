//! Addresses claimed with MAAP, and lost to a talker with precedence.

use tautline_proto::wire::avtp::ETHERTYPE;
use tautline_proto::wire::avtp::maap::{GROUP, GroupRange, MaapKind, MaapMessage};

use crate::common::messages;
use crate::common::network::{Cable, Namespace};
use crate::common::program::{Running, call, taut, words};
use crate::common::report::Report;
use crate::common::{Folder, shared};
use crate::pcm::{Scene, is_there};

/// Has precedence: addresses are compared from the last byte.
const OTHER: [u8; 6] = [0x02, 0, 0, 0, 0, 0];

const TALKER: &str = "import socket, sys\n\
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)\n\
    s.bind((sys.argv[1], 0))\n\
    s.send(open(sys.argv[2], 'rb').read())\n";

fn group(line: &str) -> [u8; 6] {
    let octets: Vec<u8> = line
        .rsplit('/')
        .next()
        .unwrap()
        .split([':', ';', ' '])
        .map_while(|octet| u8::from_str_radix(octet, 16).ok())
        .collect();
    octets.try_into().unwrap_or_else(|octets| panic!("{octets:x?} in {line}"))
}

fn written([a, b, c, d, e, f]: [u8; 6]) -> String {
    format!("{a:02X}:{b:02X}:{c:02X}:{d:02X}:{e:02X}:{f:02X}")
}

fn reported(talker: &Running, word: &str) -> [u8; 6] {
    let line = talker.messages().filter(|line| line.contains(word)).last().unwrap();
    let (_, goes_to) = line.split_once(messages::GOES_TO).unwrap();
    group(goes_to.split(' ').next().unwrap())
}

fn packets(at: &Namespace, group: [u8; 6]) -> u64 {
    let recv = format!(
        "recv --from avtp://{}/{} --rate 48000 --channels 2 --output null: --duration 1s --no-stall-monitor --report json",
        at.interface,
        written(group)
    );
    let ended = taut(words(&recv)).within(at).run();
    assert!(matches!(ended.status, Some(0 | 1)), "{ended:#?}");
    Report(ended.json()).count("packets_received")
}

/// The left talker loses its address. Its sound then arrives at its new address only.
fn moves(cable: &Cable, folder: &Folder, talker: Running) -> (Running, [u8; 6]) {
    let talker = talker.wait_for(messages::GROUP_CLAIMED);
    let first = reported(&talker, "claimed a group");
    assert!(packets(&cable.right, first) > 100);
    let announced = MaapMessage::about(MaapKind::Announce, GroupRange::only(first)).write();
    let frame = [&GROUP[..], &OTHER, &ETHERTYPE.to_be_bytes(), &announced].concat();
    std::fs::write(folder.file("frame"), frame).unwrap();
    let other = ["-c", TALKER, &cable.right.interface, "frame"];
    call("python3", other).in_folder(folder.path()).within(&cable.right).run().well();
    let talker = talker.wait_for(messages::GROUP_LOST).wait_for(messages::GROUP_CHANGED);
    let second = reported(&talker, messages::GROUP_CHANGED);
    assert_ne!(first, second);
    assert!(packets(&cable.right, second) > 100);
    assert_eq!(packets(&cable.right, first), 0, "it was given up");
    talker.signal("-INT");
    (talker, second)
}

#[test]
fn stream_that_loses_its_address_moves_to_another() {
    shared(|| {
        let Some(cable) = Cable::lay() else { return };
        let folder = Folder::new();
        let send = format!(
            "send --input tone:440 --to avtp://{} --no-stall-monitor --packet-log sent.csv --report json",
            cable.left.interface
        );
        let talker = taut(words(&send)).in_folder(folder.path()).within(&cable.left).start();
        let (talker, second) = moves(&cable, &folder, talker);
        let report = talker.end().report();
        let address = report.stream("/address").as_str().unwrap().to_owned();
        assert!(address.ends_with(&written(second)), "{address}");
        assert_eq!(report.count("send_errors"), 0, "{:#}", report.0);
        // Packets without an address, 1000 per second for two seconds, have no ledger line. A
        // stalled host may not write some of the last period.
        let ledger = std::fs::read_to_string(folder.file("sent.csv")).unwrap();
        let due = |line: &str| line.split(',').nth(4)?.parse::<i64>().ok();
        let dues: Vec<i64> = ledger.lines().filter_map(due).collect();
        let gap = dues.windows(2).map(|two| two[1] - two[0]).max();
        assert!(gap > Some(1_500_000_000), "{gap:?}");
        let sent = report.count("packets_sent");
        assert!(sent.abs_diff(dues.len() as u64) < 100, "{sent} of {}", dues.len());
    });
}

#[test]
fn pcm_without_an_address_claims_one_and_moves_when_lost() {
    shared(|| {
        if !is_there("aplay", "--version") {
            return;
        }
        let Some(cable) = Cable::lay() else { return };
        let scene = Scene::set("").with(&format!(
            "pcm.claimed {{ type tautline to \"avtp://{}\" }}\n",
            cable.left.interface
        ));
        let line = "-q -D claimed -f S16_LE -r 48000 -c 2 /dev/zero";
        let talker = scene.program("aplay", line).within(&cable.left).start();
        moves(&cable, &scene.folder, talker).0.end();
    });
}

#[test]
fn interface_that_goes_down_mid_stream_is_reported_with_hint() {
    shared(|| {
        let Some(cable) = Cable::lay() else { return };
        let own = &cable.left.interface;
        let send =
            format!("send --input tone:440 --to avtp://{own} --duration 4s --no-stall-monitor");
        let talker = taut(words(&send)).within(&cable.left).start();
        let talker = talker.wait_for(messages::GROUP_CLAIMED);
        let group = reported(&talker, "claimed a group");
        assert!(packets(&cable.right, group) > 100);
        call("ip", ["link", "set", own, "down"]).within(&cable.left).run().well();
        let ended = talker.end();
        assert!(ended.out.contains("bring the interface up"), "{ended:#?}");
    });
}
