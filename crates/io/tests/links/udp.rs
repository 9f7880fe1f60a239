//! Real loopback sockets.

use tautline_trial::snapshot;

use std::net::{IpAddr, SocketAddr, UdpSocket};

use crate::common::{collect, departure, drain, in_a_network_of_its_own, outgoing, sender_to};
use tautline_io::clock::now;
use tautline_io::control::wait;
use tautline_io::link::Link;
use tautline_io::link::destinations::Destinations;
use tautline_io::link::direct::DirectLink;
use tautline_io::link::event_queue::{LinkReports, event_channel};
use tautline_io::udp::pair::open_pair;
use tautline_io::udp::{ControlSocket, FragmentPolicy, UdpOptions, interface_label, path_mtu};
use tautline_proto::packet::handed_bytes;
use tautline_proto::stream::Outgoing;
use tautline_proto::time::{LocalTime, Span};

const LOOPBACK: &str = "127.0.0.1:0";

fn receiver() -> DirectLink {
    DirectLink::open(&UdpOptions::receiver(LOOPBACK.parse().unwrap())).unwrap()
}

#[test]
fn a_packet_arrives_with_its_stamps_in_order() {
    for local in [LOOPBACK, "[::1]:0"] {
        let mut receiver = DirectLink::open(&UdpOptions::receiver(local.parse().unwrap())).unwrap();
        let mut sender = sender_to(receiver.local());
        let before = now();
        assert!(sender.queue(&outgoing(&mut [1, 2, 3])));
        sender.flush();
        let got = collect(&mut receiver, 1);
        assert_eq!(got[0].bytes, [1, 2, 3]);
        assert_eq!(got[0].source.socket_address().unwrap().port(), sender.local().port());
        assert!(got[0].uncertainty < Span::from_millis(1), "{}", got[0].uncertainty);
        assert!(got[0].arrival + got[0].uncertainty >= before);
        assert!(got[0].arrival <= got[0].read && got[0].read <= now());
        assert_eq!((sender.counters().sent, receiver.counters().received), (1, 1));
    }
}

#[test]
fn batched_packets_of_any_length_arrive_separately() {
    for local in [LOOPBACK, "[::1]:0"] {
        let mut receiver = DirectLink::open(&UdpOptions::receiver(local.parse().unwrap())).unwrap();
        let mut sender = sender_to(receiver.local());
        let mut sent = 0;
        // Equal lengths; shorter last; longer last; shorter in between; longer than a segment.
        let batches: [&[usize]; 5] =
            [&[60; 8], &[60, 60, 60, 7], &[60, 60, 61], &[60, 9, 60, 60], &[1400, 1400, 1400]];
        for lengths in batches {
            let packets: Vec<Vec<u8>> =
                (1..).zip(lengths).map(|(number, length)| vec![number; *length]).collect();
            for packet in &packets {
                assert!(sender.queue(&outgoing(&mut packet.clone())));
            }
            sender.flush();
            sent += packets.len() as u64;
            let got: Vec<Vec<u8>> =
                collect(&mut receiver, packets.len()).into_iter().map(|got| got.bytes).collect();
            assert_eq!(got, packets);
            let (from, to) = (sender.counters(), receiver.counters());
            assert_eq!((from.sent, from.send_errors, to.received), (sent, 0, sent));
            assert_eq!(to.unstamped, 0);
        }
    }
}

#[test]
fn more_than_a_batch_arrives_whole_and_in_order() {
    let mut receiver = receiver();
    let mut sender = sender_to(receiver.local());
    for start in [0u8, 32, 64] {
        for number in start..start + 32 {
            assert!(sender.queue(&outgoing(&mut [number; 5])));
        }
        sender.flush();
    }
    let got = collect(&mut receiver, 96);
    assert!(got.iter().enumerate().all(|(index, a)| a.bytes == [index as u8; 5]));
    assert!(got.is_sorted_by_key(|a| a.read));
    assert_eq!(receiver.counters().received, 96);
}

#[test]
fn two_networks_carry_every_packet_and_are_distinguished() {
    let (mut first, mut second) = (receiver(), receiver());
    let by_loopback = |to: SocketAddr| UdpOptions {
        interface: Some("lo".into()),
        ..UdpOptions::sender(vec![to])
    };
    let also = Some(Box::new(by_loopback(second.local())));
    let mut sender = DirectLink::open(&UdpOptions { also, ..by_loopback(first.local()) }).unwrap();
    assert!(sender.queue(&outgoing(&mut [1, 2, 3])));
    sender.flush();
    for receiver in [&mut first, &mut second] {
        let mut arrived = None;
        while arrived.is_none() {
            receiver.receive(&mut |a| arrived = Some((a.bytes.to_vec(), a.arrival.from.network())));
        }
        let (bytes, interface) = arrived.unwrap();
        assert_eq!((&bytes[..], &interface_label(interface)[..]), (&[1, 2, 3][..], "lo"));
    }
    assert_eq!(sender.counters().sent, 2);
}

#[test]
fn every_destination_gets_every_packet() {
    let mut receivers = [receiver(), receiver(), receiver()];
    let destinations = receivers.iter().map(DirectLink::local).collect();
    let mut sender = DirectLink::open(&UdpOptions::sender(destinations)).unwrap();
    for number in 0..4 {
        sender.queue(&outgoing(&mut [number]));
    }
    sender.flush();
    for receiver in &mut receivers {
        let bytes: Vec<_> = collect(receiver, 4).into_iter().map(|a| a.bytes).collect();
        assert_eq!(bytes, [[0], [1], [2], [3]]);
    }
    assert_eq!(sender.counters().sent, 12);
}

#[test]
fn a_full_batch_drops_and_counts() {
    let options = UdpOptions { batch: 2, ..UdpOptions::sender(vec![receiver().local()]) };
    let mut sender = DirectLink::open(&options).unwrap();
    let taken: Vec<_> = (0..3).map(|_| sender.queue(&outgoing(&mut [0]))).collect();
    assert_eq!(taken, [true, true, false]);
    assert!(!sender.queue(&outgoing(&mut [0; 2000])));
    assert_eq!(sender.counters().dropped, 2);
}

#[test]
fn a_datagram_that_is_too_long_arrives_cut_and_counted() {
    let options =
        UdpOptions { datagram_bytes: 100, ..UdpOptions::receiver(LOOPBACK.parse().unwrap()) };
    let mut receiver = DirectLink::open(&options).unwrap();
    let mut sender = sender_to(receiver.local());
    sender.queue(&outgoing(&mut [7; 100]));
    sender.queue(&outgoing(&mut [7; 101]));
    sender.flush();
    let got = collect(&mut receiver, 2);
    assert!(!got[0].truncated && got[1].truncated);
    assert_eq!(got[1].bytes.len(), 100);
    assert_eq!(receiver.counters().truncated, 1);
}

#[test]
fn the_hand_over_is_written_into_the_packet_and_recorded() {
    let mut receiver = receiver();
    let mut sender = sender_to(receiver.local());
    let (event_sender, LinkReports { mut departures, .. }) = event_channel(4);
    sender.notify(event_sender);
    let capture = now() - Span::from_millis(3);
    for handed_at in [Some(2), Some(7), None] {
        let mut datagram = [0xAA; 12];
        let instants = departure(capture, LocalTime::ZERO);
        sender.queue(&Outgoing { instants, handed_at, ..outgoing(&mut datagram) });
    }
    sender.flush();
    let got = collect(&mut receiver, 3);
    let handed = departures.pop().unwrap().handed;
    assert!(handed >= capture + Span::from_millis(3) && handed <= got[0].read);
    assert_eq!(got[0].bytes[2..8], handed_bytes(handed - capture, Span::ZERO));
    assert_eq!(got[0].bytes[8..], [0xAA; 4]);
    assert_eq!(got[1].bytes, [0xAA; 12]);
    assert_eq!(got[2].bytes, [0xAA; 12]);
    assert_eq!(departures.slots(), 2);
}

#[test]
fn a_hand_over_longer_than_the_field_saturates() {
    let mut receiver = receiver();
    let mut sender = sender_to(receiver.local());
    let mut datagram = [0; 6];
    let instants = departure(now() - Span::from_secs(5), LocalTime::ZERO);
    sender.queue(&Outgoing { instants, handed_at: Some(0), ..outgoing(&mut datagram) });
    sender.flush();
    assert_eq!(collect(&mut receiver, 1)[0].bytes, [0xFF, 0xFF, 0xFF, 0xFF, 0, 0]);
}

#[test]
fn departures_beyond_the_ring_are_counted() {
    let mut sender = sender_to(receiver().local());
    let (event_sender, _reported) = event_channel(1);
    sender.notify(event_sender);
    sender.queue(&outgoing(&mut [0]));
    sender.queue(&outgoing(&mut [0]));
    sender.flush();
    assert_eq!(sender.counters().departures_lost, 1);
}

#[test]
fn sender_runs_without_a_receiver() {
    let gone = UdpSocket::bind(LOOPBACK).unwrap().local_addr().unwrap();
    let mut receiver = receiver();
    let mut sender = DirectLink::open(&UdpOptions::sender(vec![gone, receiver.local()])).unwrap();
    for _ in 0..10 {
        sender.queue(&outgoing(&mut [1]));
        sender.flush();
    }
    drain(&mut sender);
    assert_eq!(collect(&mut receiver, 10).len(), 10);
    assert_eq!((sender.counters().sent, sender.counters().send_errors), (20, 0));
}

#[test]
fn busy_udp_port_is_an_error_with_a_hint() {
    let busy = receiver();
    let error = DirectLink::open(&UdpOptions::receiver(busy.local())).err().unwrap();
    let port = busy.local().port().to_string();
    assert!(error.to_string().contains(&port), "{error}");
    snapshot!(error);
}

#[test]
fn unknown_interface_or_address_has_a_hint() {
    let options = UdpOptions { interface: Some("nosuch0".into()), ..UdpOptions::default() };
    let text = DirectLink::open(&options).err().unwrap().to_string();
    snapshot!(text);
    let options = UdpOptions::receiver("192.0.2.1:0".parse().unwrap());
    let text = DirectLink::open(&options).err().unwrap().to_string();
    snapshot!(text);
    let options =
        UdpOptions { destinations: vec!["[::1]:9".parse().unwrap()], ..UdpOptions::default() };
    assert!(DirectLink::open(&options).err().unwrap().to_string().contains("IPv6"));
}

#[test]
fn two_programs_receive_a_group_on_loopback() {
    let on_loopback = |options| UdpOptions { interface: Some("lo".into()), ..options };
    let group = IpAddr::from([239, 77, 1, 2]);
    let mut options = on_loopback(UdpOptions { join: Some(group), ..UdpOptions::default() });
    let mut first = DirectLink::open(&options).unwrap();
    options.bind.set_port(first.local().port());
    let mut second = DirectLink::open(&options).unwrap();
    let to = vec![SocketAddr::new(group, first.local().port())];
    let mut sender = DirectLink::open(&on_loopback(UdpOptions::sender(to))).unwrap();
    sender.queue(&outgoing(&mut [9]));
    sender.flush();
    assert_eq!(sender.counters().send_errors, 0, "{:?}", sender.counters());
    assert_eq!(collect(&mut first, 1)[0].bytes, [9]);
    assert_eq!(collect(&mut second, 1)[0].bytes, [9]);
}

#[test]
fn ipv6_group_is_received_on_the_chosen_interface() {
    let test = || {
        if !in_a_network_of_its_own() {
            return;
        }
        let here = |options| UdpOptions { interface: Some("veth0".into()), ..options };
        let group: IpAddr = "ff12::77:12".parse().unwrap();
        let any = UdpOptions { bind: "[::]:0".parse().unwrap(), ..UdpOptions::default() };
        let options = here(UdpOptions { join: Some(group), ..any });
        let mut receiver = DirectLink::open(&options).unwrap();
        let to = vec![SocketAddr::new(group, receiver.local().port())];
        let mut sender = DirectLink::open(&here(UdpOptions::sender(to))).unwrap();
        let until = now() + Span::from_secs(10);
        while drain(&mut receiver) == 0 {
            assert!(now() < until, "{:?}", sender.counters());
            sender.queue(&outgoing(&mut [9]));
            sender.flush();
            std::thread::yield_now();
        }
    };
    std::thread::spawn(test).join().unwrap();
}

#[test]
fn a_datagram_beyond_the_mtu_goes_in_fragments_or_not_at_all() {
    let test = || {
        if !in_a_network_of_its_own() {
            return;
        }
        let to: SocketAddr = "10.77.0.2:9".parse().unwrap();
        assert_eq!(path_mtu(to), Some(1500));
        let counters = |fragment| {
            let options =
                UdpOptions { datagram_bytes: 3000, fragment, ..UdpOptions::sender(vec![to]) };
            let mut sender = DirectLink::open(&options).unwrap();
            for bytes in [1472, 1473] {
                sender.queue(&outgoing(&mut vec![0; bytes]));
                sender.flush();
            }
            sender.counters()
        };
        assert_eq!(counters(FragmentPolicy::Allow).sent, 2);
        let never = counters(FragmentPolicy::Never);
        assert_eq!((never.sent, never.send_errors, never.last_error), (1, 1, libc::EMSGSIZE));
    };
    std::thread::spawn(test).join().unwrap();
}

#[test]
fn missing_route_is_an_error_with_a_hint() {
    let test = || {
        if !in_a_network_of_its_own() {
            return;
        }
        for to in ["192.0.2.1:9", "239.77.1.2:9"] {
            let options = UdpOptions::sender(vec![to.parse().unwrap()]);
            let text = DirectLink::open(&options).err().unwrap().to_string();
            snapshot!(text);
            snapshot!(format!("{to:?}"), text);
        }
    };
    std::thread::spawn(test).join().unwrap();
}

#[test]
fn a_pair_is_an_even_udp_port_and_the_one_above() {
    let options = UdpOptions::receiver(LOOPBACK.parse().unwrap());
    // The system's ports are odd as often as even.
    let pairs: Vec<_> = (0..8).map(|_| open_pair(&options).unwrap()).collect();
    for (media, control) in &pairs {
        assert_eq!(media.local().port() % 2, 0);
        assert_eq!(control.local().port(), media.local().port() + 1);
    }
    let busy = UdpOptions::receiver(pairs[0].0.local());
    snapshot!(open_pair(&busy).err().unwrap());
}

#[test]
fn control_socket_can_be_polled_and_stamps_arrivals() {
    let open = || ControlSocket::open(&UdpOptions::receiver(LOOPBACK.parse().unwrap())).unwrap();
    let (mut one, mut two) = (open(), open());
    assert!(!wait(&[&one, &two], now() + Span::from_millis(1)));
    one.send_to(b"hello", two.local()).unwrap();
    assert!(wait(&[&one, &two], now() + Span::from_secs(10)));
    let mut received = Vec::new();
    two.receive(&mut |datagram| {
        assert!(datagram.arrival.at <= datagram.arrival.read);
        received.extend_from_slice(datagram.bytes);
    });
    assert_eq!(received, b"hello");
    assert_eq!(two.counters().received, 1);
}

#[test]
fn sampled_packets_have_their_departure_times() {
    let mut receiver = receiver();
    let options =
        UdpOptions { transmit_stamp_every: 4, ..UdpOptions::sender(vec![receiver.local()]) };
    let mut sender = DirectLink::open(&options).unwrap();
    for _ in 0..3 {
        for _ in 0..4 {
            sender.queue(&outgoing(&mut [0]));
        }
        sender.flush();
    }
    let got = collect(&mut receiver, 12);
    let mut stamps = Vec::new();
    sender.transmit_stamps(&mut |stamp| stamps.push(stamp));
    assert_eq!(stamps.len(), 3);
    for (stamp, arrival) in stamps.iter().zip(got.iter().step_by(4)) {
        assert!(stamp.left >= stamp.handed);
        assert!(stamp.left - stamp.uncertainty <= arrival.arrival + arrival.uncertainty);
    }
}

#[test]
fn the_path_of_loopback_is_known() {
    let mtu = std::fs::read_to_string("/sys/class/net/lo/mtu").unwrap();
    // At most 65535 bytes (RFC 791).
    let whole = mtu.trim().parse().map(|mtu: usize| mtu.min(65_535)).ok();
    assert_eq!(path_mtu("127.0.0.1:9".parse().unwrap()), whole);
}

#[test]
fn drops_of_a_full_socket_are_counted() {
    let options = UdpOptions {
        datagram_bytes: 1000,
        packets_per_second: 1,
        ..UdpOptions::receiver(LOOPBACK.parse().unwrap())
    };
    let mut receiver = DirectLink::open(&options).unwrap();
    let mut sender = sender_to(receiver.local());
    for _ in 0..400 {
        sender.queue(&outgoing(&mut [0; 1000]));
        sender.flush();
    }
    let got = drain(&mut receiver) as u64;
    assert!((64..400).contains(&got), "{got}");
    sender.queue(&outgoing(&mut [0]));
    sender.flush();
    collect(&mut receiver, 1);
    assert_eq!(receiver.counters().kernel_drops, 400 - got);
}

#[test]
fn destinations_that_change_are_sent_to_from_the_next_packet_on() {
    let mut receivers = [receiver(), receiver(), receiver()];
    let places: Vec<_> = receivers.iter().map(DirectLink::local).collect();
    let mut options = UdpOptions::sender(vec![places[0]]);
    (options.max_destinations, options.transmit_stamp_every) = (2, 1);
    let mut sender = DirectLink::open(&options).unwrap();
    let sets: [&[SocketAddr]; 5] = [&places[..1], &places[1..], &places[2..], &[], &places[..2]];
    for (number, set) in (0u8..).zip(sets) {
        sender.queue(&outgoing(&mut [number, 0]));
        assert!(sender.set_destinations(&Destinations::new(set).unwrap()), "{set:?}");
        assert_eq!(sender.queue(&outgoing(&mut [number, 1])), !set.is_empty());
        sender.flush();
    }
    let got = |receiver: &mut DirectLink, count| {
        let got = collect(receiver, count);
        assert_eq!(drain(receiver), 0);
        got.into_iter().map(|got| (got.bytes[0], got.bytes[1])).collect::<Vec<_>>()
    };
    assert_eq!(got(&mut receivers[0], 4), [(0, 0), (0, 1), (1, 0), (4, 1)]);
    assert_eq!(got(&mut receivers[1], 3), [(1, 1), (2, 0), (4, 1)]);
    assert_eq!(got(&mut receivers[2], 4), [(1, 1), (2, 0), (2, 1), (3, 0)]);
    let counters = sender.counters();
    assert_eq!((counters.dropped, counters.let_go), (0, 2), "no destination is not a drop");
}

#[test]
fn too_many_destinations_are_rejected_unchanged() {
    let mut receivers = [receiver(), receiver()];
    let places: Vec<_> = receivers.iter().map(DirectLink::local).collect();
    let mut sender = sender_to(places[0]);
    assert!(!sender.set_destinations(&Destinations::new(&places).unwrap()));
    assert!(sender.queue(&outgoing(&mut [7])));
    sender.flush();
    assert_eq!(collect(&mut receivers[0], 1)[0].bytes, [7]);
    assert_eq!(drain(&mut receivers[1]), 0);
    assert_eq!(Destinations::new(&[places[0]; Destinations::MAX + 1]), None);
}
