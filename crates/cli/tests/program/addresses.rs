//! What stands after the `?` of an address does what it says, or is refused.

use std::net::{Ipv4Addr, UdpSocket};

use crate::common::network::{Cable, Namespace};
use crate::common::program::{Call, taut, words};
use crate::common::report::Report;
use crate::common::{Folder, PATIENT, free_udp_ports, shared};
use crate::errors::is_refused;

fn send(options: &str) -> Call {
    taut(words("send --input null: --duration 1s")).and(words(options))
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
fn an_address_of_avtp_that_cannot_be_is_answered_with_one_of_avtp() {
    let group = "91:E0:F0:00:FE:01";
    for (to, wrong, mend) in [
        ("avtp+upd://10.77.0.2".into(), "`avtp+upd://` is unknown", "avtp+udp://HOST"),
        ("ethernet://eth0".into(), "`ethernet://` is unknown", "avtp://INTERFACE/ADDRESS"),
        (format!("avtp+udp://newc_va/{group}"), "goes to a host", "avtp://newc_va/91:E0:F0"),
        (
            "avtp+udp://10.0.0.2:1/x".into(),
            "goes to a host",
            "or avtp://eth0/91:E0:F0:00:FE:01 for",
        ),
        ("avtp://:17220/1:2:3:4:5:6".into(), "names no interface", "avtp://eth0/91:E0:F0:00:FE:01"),
        ("avtp+udp://10.77.0.2:x".into(), "has no UDP port", "avtp+udp://HOST:17220"),
        ("avtp+udp://:17220".into(), "names no host", "avtp+udp://HOST:17220"),
        (format!("avtp://eth0:17220/{group}"), "go by no port", "write avtp://eth0/91:E0:F0"),
        ("avtp://eth0:17220".into(), "go by no port", "write avtp://eth0"),
        (format!("avtp://{group}"), "names no interface", "write avtp://INTERFACE/91:E0:F0"),
        ("avtp://eth0/00:00:00:00:00:00".into(), "is nobody's address", "avtp://eth0/91:E0"),
    ] {
        is_refused(&send(&format!("--to {to}")), 2, wrong, mend);
    }
    let recv = taut(words("recv --output null: --from avtp://eth0"));
    let claims = "`avtp://eth0` names no address, and only what is sent has one claimed for it";
    is_refused(&recv, 2, claims, "write avtp://eth0/91:E0:F0:00:FE:01");
}

#[test]
fn options_that_mean_nothing_by_avtp_are_refused() {
    let ethernet = "--to avtp://lo/91:E0:F0:00:FE:01";
    is_refused(&send(&format!("{ethernet} --dscp 34")), 2, "--dscp is of IP", "leave it out");
    for to in [ethernet, "--to avtp+udp://127.0.0.1"] {
        let call = send(&format!("{to} --no-stamps"));
        is_refused(&call, 2, "--no-stamps is of RTP", "leave it out");
    }
}

#[test]
fn an_address_of_ethernet_that_is_another_machines_is_told_of_as_such() {
    let Some(cable) = Cable::lay() else { return };
    let name = &cable.left.interface;
    let said = |address: &str| {
        let line = format!("recv --output null: --duration 10ms --from avtp://{name}/{address}");
        let ended = taut(words(&line)).within(&cable.left).run();
        ended.said.into_iter().find(|line| line.contains("is neither a group nor"))
    };
    let told = said("02:00:00:00:00:01").expect("a line that says so");
    let own = told.split_once("which is ").and_then(|(_, rest)| rest.get(..17)).expect("its own");
    assert_eq!(said(own), None);
    assert_eq!(said("91:E0:F0:00:FE:01"), None);
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
        let Some(cable) = Cable::lay() else { return };
        let (beside, away) = heard(&cable, "");
        assert!(beside > 0 && away > 0, "{beside} {away}");
        let (beside, away) = heard(&cable, "&loop=0");
        assert!(beside == 0 && away > 0, "{beside} {away}");
    });
}
