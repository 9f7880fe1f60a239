//! Only the requested sources are received.

use std::net::{IpAddr, SocketAddr};

use crate::common::{collect, outgoing, sender_to};
use tautline_io::link::Link;
use tautline_io::link::direct::DirectLink;
use tautline_io::udp::UdpOptions;

const LOOPBACK: &str = "127.0.0.1:0";

#[test]
fn another_source_is_foreign() {
    let options = UdpOptions {
        sources: vec!["127.0.0.2".parse().unwrap()],
        ..UdpOptions::receiver(LOOPBACK.parse().unwrap())
    };
    let mut receiver = DirectLink::open(&options).unwrap();
    let mut wrong = sender_to(receiver.local());
    let right = UdpOptions {
        bind: "127.0.0.2:0".parse().unwrap(),
        ..UdpOptions::sender(vec![receiver.local()])
    };
    let mut right = DirectLink::open(&right).unwrap();
    wrong.queue(&outgoing(&mut [1]));
    wrong.flush();
    right.queue(&outgoing(&mut [2]));
    right.flush();
    assert_eq!(collect(&mut receiver, 1)[0].bytes, [2]);
    assert_eq!(receiver.counters().foreign, 1);
}

#[test]
fn every_listed_source_is_received_and_no_other() {
    let hosts = ["127.0.0.2", "127.0.0.3"].map(|host| host.parse().unwrap());
    let options =
        UdpOptions { sources: hosts.into(), ..UdpOptions::receiver(LOOPBACK.parse().unwrap()) };
    let mut receiver = DirectLink::open(&options).unwrap();
    for (number, source) in ["127.0.0.4:0", "127.0.0.3:0", "127.0.0.2:0"].iter().enumerate() {
        let options = UdpOptions {
            bind: source.parse().unwrap(),
            ..UdpOptions::sender(vec![receiver.local()])
        };
        let mut sender = DirectLink::open(&options).unwrap();
        sender.queue(&outgoing(&mut [number as u8]));
        sender.flush();
    }
    let received: Vec<_> = collect(&mut receiver, 2).into_iter().map(|got| got.bytes).collect();
    assert_eq!(received, [[1], [2]]);
    assert_eq!(receiver.counters().foreign, 1);
}

#[test]
fn source_specific_group_receives_that_source_only() {
    let group: IpAddr = "232.77.1.3".parse().unwrap();
    let options = UdpOptions {
        interface: Some("127.0.0.1".into()),
        join: Some(group),
        sources: vec!["127.0.0.2".parse().unwrap()],
        ..UdpOptions::default()
    };
    let mut receiver = DirectLink::open(&options).unwrap();
    let from = |source: &str| {
        let options = UdpOptions {
            bind: source.parse().unwrap(),
            interface: Some("lo".into()),
            ..UdpOptions::sender(vec![SocketAddr::new(group, receiver.local().port())])
        };
        DirectLink::open(&options).unwrap()
    };
    let (mut wrong, mut right) = (from("127.0.0.3:0"), from("127.0.0.2:0"));
    wrong.queue(&outgoing(&mut [1]));
    wrong.flush();
    right.queue(&outgoing(&mut [2]));
    right.flush();
    assert_eq!(collect(&mut receiver, 1)[0].bytes, [2]);
    assert_eq!(receiver.counters().foreign, 0);
}

#[test]
fn a_group_is_joined_for_each_of_several_sources() {
    let group: IpAddr = "232.77.1.4".parse().unwrap();
    let hosts = ["127.0.0.2", "127.0.0.3"].map(|host| host.parse().unwrap());
    let options = UdpOptions {
        interface: Some("127.0.0.1".into()),
        join: Some(group),
        sources: hosts.into(),
        ..UdpOptions::default()
    };
    let mut receiver = DirectLink::open(&options).unwrap();
    let port = receiver.local().port();
    for (number, source) in ["127.0.0.4:0", "127.0.0.3:0", "127.0.0.2:0"].iter().enumerate() {
        let options = UdpOptions {
            bind: source.parse().unwrap(),
            interface: Some("lo".into()),
            ..UdpOptions::sender(vec![SocketAddr::new(group, port)])
        };
        let mut sender = DirectLink::open(&options).unwrap();
        sender.queue(&outgoing(&mut [number as u8]));
        sender.flush();
    }
    let received: Vec<_> = collect(&mut receiver, 2).into_iter().map(|got| got.bytes).collect();
    assert_eq!(received, [[1], [2]]);
}
