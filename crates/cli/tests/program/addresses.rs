//! Options after the `?` of an address take effect, or are rejected.

use std::net::{Ipv4Addr, UdpSocket};

use crate::common::messages;
use crate::common::network::{Cable, Namespace};
use crate::common::program::{Call, taut, words};
use crate::common::report::Report;
use crate::common::{Folder, PATIENT, free_udp_ports, shared};
use crate::errors::is_refused;

fn send(options: &str) -> Call {
    taut(words("send --input null: --duration 1s")).and(words(options))
}

#[test]
fn ethernet_address_of_another_machine_is_reported() {
    let Some(cable) = Cable::lay() else { return };
    let name = &cable.left.interface;
    let messages = |address: &str| {
        let line = format!("recv --output null: --duration 10ms --from avtp://{name}/{address}");
        let ended = taut(words(&line)).within(&cable.left).run();
        ended.messages.into_iter().find(|line| line.contains(messages::OWN_ADDRESS_DIFFERS))
    };
    let reported = messages("02:00:00:00:00:01").expect("a line that says so");
    let own =
        reported.split_once("which is ").and_then(|(_, rest)| rest.get(..17)).expect("its own");
    assert_eq!(messages(own), None);
    assert_eq!(messages("91:E0:F0:00:FE:01"), None);
}

#[test]
fn of_two_busy_udp_ports_the_one_that_was_given_is_named() {
    let port = free_udp_ports();
    let bind = |port| UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
    let call = taut(words(&format!("recv --output null: --from rtp://127.0.0.1:{port}")));
    let _above = bind(port + 1);
    is_refused(&call, 3);
    let _given = bind(port);
    is_refused(&call, 3);
}

#[test]
fn stream_that_cannot_be_sent_keeps_an_existing_description() {
    let folder = Folder::new();
    let line = "--sdp stream.sdp --to rtp://239.69.77.3:5004?iface=nope0";
    let call = send(line).in_folder(folder.path());
    is_refused(&call, 3);
    assert!(!folder.file("stream.sdp").exists());
    std::fs::write(folder.file("stream.sdp"), "another").unwrap();
    is_refused(&call, 3);
    assert_eq!(std::fs::read_to_string(folder.file("stream.sdp")).unwrap(), "another");
}

#[test]
fn ignored_description_lines_are_reported_at_both_ends() {
    let folder = Folder::new();
    let port = free_udp_ports();
    let described = format!(
        "\u{FEFF}v=0\nc=IN IP4 127.0.0.1\nm=audio 0 RTP/AVP 97\nm=audio {port} RTP/AVPF 97\n\
         a=rtpmap:97 L24/48000/2\na=ptime:1000\n"
    );
    std::fs::write(folder.file("odd.sdp"), described).unwrap();
    for line in ["send --input null: --to odd.sdp", "recv --output null: --from odd.sdp"] {
        let call = taut(words(&format!("{line} --duration 20ms"))).in_folder(folder.path());
        let messages = call.run().messages;
        for (number, reason) in [(3, "UDP port 0"), (6, "packets of 1s exceed")] {
            let beginning = format!("taut: odd.sdp: line {number} ignored (");
            let reported = messages
                .iter()
                .filter(|line| line.starts_with(&beginning) && line.contains(reason));
            assert_eq!(reported.count(), 1, "{line}: {messages:#?}");
        }
    }
}

#[test]
fn receiver_on_any_ipv6_address_plays_ipv4() {
    shared(|| {
        let port = free_udp_ports();
        let recv =
            format!("recv --from rtp://[::]:{port} --output null: --exit-on-bye --report json");
        let recv = taut(words(&recv)).and(PATIENT).start().listening();
        let send = format!("send --input tone:440 --duration 1s --to rtp://127.0.0.1:{port}");
        taut(words(&send)).and(PATIENT).run().well();
        let report = recv.end().well().report();
        assert!(report.count("packets_received") > 500, "{:#}", report.0);
        assert_eq!(report.stream("/latency/basis"), "clock", "reports come back: {:#}", report.0);
    });
}

/// On the sender's machine, and on another one.
fn received(cable: &Cable, choice: &str) -> (u64, u64) {
    let folder = Folder::new();
    let recv = |place: &Namespace| {
        let from = format!("rtp://239.69.77.4:5004?iface={}", place.interface);
        let recv = format!("recv --from {from} --output null: --report json");
        taut(words(&recv)).and(PATIENT).within(place).start().listening()
    };
    let (alongside, away) = (recv(&cable.left), recv(&cable.right));
    let to = format!("rtp://239.69.77.4:5004?iface={}{choice}", cable.left.interface);
    let send = format!("send --input tone:440 --duration 1s --to {to}");
    let send = taut(words(&send)).and(PATIENT).in_folder(folder.path());
    send.within(&cable.left).run().well();
    let packets = [alongside, away].map(|recv| {
        recv.signal("-INT");
        let ended = recv.end();
        let report = Report(ended.json());
        let packets = report.count("packets_received");
        assert_eq!(ended.status, Some(i32::from(packets == 0)), "{ended:#?}");
        packets
    });
    (packets[0], packets[1])
}

#[test]
fn group_is_looped_to_the_senders_machine_unless_disabled() {
    shared(|| {
        let Some(cable) = Cable::lay() else { return };
        let (alongside, away) = received(&cable, "");
        assert!(alongside > 0 && away > 0, "{alongside} {away}");
        let (alongside, away) = received(&cable, "&loop=0");
        assert!(alongside == 0 && away > 0, "{alongside} {away}");
    });
}
