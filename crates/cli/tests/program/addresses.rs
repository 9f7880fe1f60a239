//! What stands after the `?` of an address does what it says, or is refused.

use std::net::{Ipv4Addr, UdpSocket};

use crate::common::network::{Cable, Namespace};
use crate::common::program::{Call, taut, words};
use crate::common::report::Report;
use crate::common::{Folder, PATIENT, free_udp_ports, shared};
use crate::errors::is_refused;

fn send(options: &str) -> Call {
    taut(words("send --input null:")).and(words(options))
}

#[test]
fn destinations_that_differ_in_what_one_socket_has_are_refused() {
    let group = "--to rtp://239.69.77.3:5004";
    for (key, one, other) in [
        ("iface", "?iface=lo", "?iface=eth7"),
        ("iface", "?iface=lo", ""),
        ("ttl", "?ttl=4", "?ttl=5"),
        ("ttl", "", "?ttl=4"),
        ("loop", "?loop=0", "?loop=1"),
    ] {
        let call = send(&format!("{group}{one} {group}{other}"));
        is_refused(&call, 2, &format!("differ in `{key}`"), "run one taut per interface");
    }
    let hosts = "--to rtp://127.0.0.1:5004?iface=lo --to rtp://127.0.0.1:5006";
    is_refused(&send(hosts), 2, "differ in `iface`", "run one taut per interface");
}

#[test]
fn what_means_nothing_for_a_destination_is_refused() {
    let host = "--to rtp://127.0.0.1:5004";
    is_refused(&send(&format!("{host}?ttl=4")), 2, "`ttl` is for multicast groups", "leave it out");
    is_refused(&send(&format!("{host}?loop=0")), 2, "`loop` is for multicast", "leave it out");
    let mend = "use iface, ttl or loop";
    is_refused(&send(&format!("{host}?source=127.0.0.1")), 2, "`source` is for --from", mend);
    is_refused(&send(&format!("{host}?gain=-6dB")), 2, "`gain` is for --from", "use --volume");
    is_refused(&send(&format!("{host}?iface=")), 2, "no interface", "such as eth0");
    is_refused(&send(&format!("{host}?loop=no")), 2, "no choice of 0 or 1", "?loop=no");
    let both = format!("--to rtp://239.69.77.3:5004?iface=lo {host}?iface=lo");
    is_refused(&send(&both), 2, "goes by this machine's routes", "leave its iface out");
}

#[test]
fn what_means_nothing_for_a_receiver_is_refused() {
    for key in ["ttl=4", "loop=0"] {
        let call = format!("recv --output null: --from rtp://239.69.77.3:5004?{key}");
        is_refused(&taut(words(&call)), 2, "is for --to", "use iface, source or gain");
    }
}

#[test]
fn of_two_busy_udp_ports_the_one_that_was_given_is_named() {
    let port = free_udp_ports();
    let bind = |port| UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
    let call = taut(words(&format!("recv --output null: --from rtp://127.0.0.1:{port}")));
    let _above = bind(port + 1);
    is_refused(&call, 3, &format!("127.0.0.1:{} for RTCP", port + 1), "holds UDP port");
    let _given = bind(port);
    is_refused(&call, 3, &format!("127.0.0.1:{port}: "), &format!("holds UDP port {port}:"));
}

#[test]
fn a_stream_that_cannot_be_sent_leaves_the_description_of_another_as_it_was() {
    let folder = Folder::new();
    let line = "--sdp stream.sdp --to rtp://239.69.77.3:5004?iface=nope0";
    let call = send(line).in_folder(folder.path());
    is_refused(&call, 3, "nope0: no such device", "`ip -brief address` lists");
    assert!(!folder.file("stream.sdp").exists());
    std::fs::write(folder.file("stream.sdp"), "another").unwrap();
    is_refused(&call, 3, "nope0: no such device", "`ip -brief address` lists");
    assert_eq!(std::fs::read_to_string(folder.file("stream.sdp")).unwrap(), "another");
}

/// Packets that a receiver beside the sender hears, and one on another machine.
fn heard(cable: &Cable, choice: &str) -> (u64, u64) {
    let folder = Folder::new();
    let recv = |place: &Namespace| {
        let from = format!("rtp://239.69.77.4:5004?iface={}", place.interface);
        let recv = format!("recv --from {from} --output null: --report json");
        taut(words(&recv)).and(PATIENT).within(place).start().listening()
    };
    let (beside, away) = (recv(&cable.left), recv(&cable.right));
    let to = format!("rtp://239.69.77.4:5004?iface={}{choice}", cable.left.interface);
    let send = format!("send --input tone:440 --duration 1s --to {to}");
    let send = taut(words(&send)).and(PATIENT).in_folder(folder.path());
    send.within(&cable.left).run().well();
    let packets = [beside, away].map(|recv| {
        recv.signal("-INT");
        let ended = recv.end();
        let report = Report(serde_json::from_str(&ended.out).expect("a report"));
        let packets = report.count("packets_received");
        // Whoever hears nothing has failed.
        assert_eq!(ended.status, Some(i32::from(packets == 0)), "{ended:#?}");
        packets
    });
    (packets[0], packets[1])
}

#[test]
fn programs_beside_the_sender_hear_a_group_unless_it_is_not_to_loop() {
    shared(|| {
        let test = "programs_beside_the_sender_hear_a_group_unless_it_is_not_to_loop";
        let Some(cable) = Cable::lay(test) else { return };
        let (beside, away) = heard(&cable, "");
        assert!(beside > 0 && away > 0, "{beside} {away}");
        let (beside, away) = heard(&cable, "&loop=0");
        assert!(beside == 0 && away > 0, "{beside} {away}");
    });
}
