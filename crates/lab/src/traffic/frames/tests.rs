use proptest::prelude::*;
use tautline_proto::wire::rtp::STAMPED_HEADER_BYTES;

use super::*;

const PLAIN: LayerBytes = LayerBytes {
    frames: 1,
    packets: 1,
    datagrams: 1,
    link: 0,
    ip: 0,
    transport: 0,
    payload: 0,
    rtp_payload: 0,
};

fn ethernet(kind: u16, packet: &[u8]) -> Vec<u8> {
    [&[2; 12][..], &kind.to_be_bytes(), packet].concat()
}

fn ipv4_to(to: [u8; 4], protocol: u8, flags: u16, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0];
    packet.extend((20 + payload.len() as u16).to_be_bytes());
    packet.extend([0x12, 0x34]);
    packet.extend(flags.to_be_bytes());
    packet.extend([64, protocol, 0, 0, 10, 0, 0, 1]);
    packet.extend(to);
    packet.extend(payload);
    packet
}

fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    ipv4_to([10, 0, 0, 2], protocol, 0x4000, payload)
}

fn ipv6(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((payload.len() as u16).to_be_bytes());
    packet.extend([next, 64]);
    for last in [1, 2] {
        packet.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    }
    packet.extend(payload);
    packet
}

fn udp(ports: [u16; 2], payload: &[u8]) -> Vec<u8> {
    let [from, to] = ports.map(u16::to_be_bytes);
    [&from[..], &to, &(8 + payload.len() as u16).to_be_bytes(), &[0, 0], payload].concat()
}

fn rtp(sound: usize) -> Vec<u8> {
    let mut packet = vec![0x90, 96];
    packet.extend([0; 10]);
    packet.extend([0xbe, 0xde, 0, 6]);
    packet.extend([0; 24]);
    packet.extend(vec![7; sound]);
    packet
}

fn tapped(link: TapLink, segment: Option<u16>, frame: &[u8]) -> ReadFrame {
    read_frame(link, frame.len(), segment, &frame[..frame.len().min(128)])
}

#[test]
fn audio_packet_has_the_thesis_byte_counts_per_layer() {
    let frame = ethernet(0x0800, &ipv4(17, &udp([40_000, 5004], &rtp(192))));
    let read = tapped(TapLink::Ethernet, None, &frame);
    assert_eq!(
        (read.kind, read.rtp.is_some(), read.part),
        (TrafficKind::Udp, true, FramePart::Whole)
    );
    let ends = ["10.0.0.1:40000", "10.0.0.2:5004"].map(|end| end.parse().unwrap());
    assert_eq!(read.ends, Some(ends));
    assert_eq!(STAMPED_HEADER_BYTES, 40);
    let layers =
        LayerBytes { link: 274, ip: 260, transport: 240, payload: 232, rtp_payload: 192, ..PLAIN };
    assert_eq!(read.layers, layers);
    // Without extensions: 250 with checksum, as in table 3.2.
    let plain = [&[0x80, 96][..], &[0; 10 + 192]].concat();
    let frame = ethernet(0x0800, &ipv4(17, &udp([40_000, 5004], &plain)));
    let read = tapped(TapLink::Ethernet, None, &frame);
    assert_eq!((read.layers.link + 4, read.layers.rtp_payload), (250, 192));
}

#[test]
fn truncated_ipv6_extensions_are_not_read_past_the_end() {
    // Destination options, then each header type announced but missing; truncated anywhere.
    for next in [0, 43, 44, 51, 60] {
        let whole = ipv6(60, &[next, 0, 1, 4, 0, 0, 0, 0, 17, 1, 0, 0, 0, 0, 0, 0]);
        for length in 40..whole.len() {
            let read = tapped(TapLink::Bare, None, &whole[..length]);
            assert_eq!((read.layers.frames, read.part), (1, FramePart::Whole), "{next} {length}");
        }
    }
    let head = [44, 0, 1, 4, 0, 0, 0, 0, 43, 0, 0, 1, 0, 0, 0, 9, 17, 9];
    let parted = tapped(TapLink::Bare, None, &ipv6(60, &head)).part;
    assert!(matches!(parted, FramePart::First(Parted { identification: 9, .. })), "{parted:?}");
}

#[test]
fn tags_and_extension_heads_of_ipv6_are_heads_of_their_layers() {
    let inner = ipv6(
        0,
        &[&[60, 0, 1, 4, 0, 0, 0, 0][..], &[17, 1], &[0; 14], &udp([1, 2], &[3; 100])].concat(),
    );
    let tagged = [&[0x88, 0xa8, 0, 5, 0x81, 0, 0, 7, 0x86, 0xdd][..], &inner].concat();
    let frame = [&[2; 12][..], &tagged].concat();
    let read = tapped(TapLink::Ethernet, None, &frame);
    let ip = 40 + 8 + 16 + 108;
    let layers = LayerBytes { link: 14 + 8 + ip, ip, transport: 108, payload: 100, ..PLAIN };
    assert_eq!((read.kind, read.layers), (TrafficKind::Udp, layers));
    let bare = tapped(TapLink::Bare, None, &inner);
    assert_eq!(bare.layers, LayerBytes { link: ip, ..layers });
    let local = tapped(TapLink::Loopback, None, &ethernet(0x86dd, &inner));
    assert_eq!(local.layers, LayerBytes { link: ip, ..layers });
}

#[test]
fn fragments_are_identified_and_all_their_bytes_counted() {
    let whole = udp([40_000, 5004], &rtp(3840));
    let mut read = Vec::new();
    for (at, piece) in whole.chunks(1480).enumerate() {
        let more = if at < 2 { 0x2000 } else { 0 };
        let flags = more | (at * 1480 / 8) as u16;
        read.push(tapped(
            TapLink::Ethernet,
            None,
            &ethernet(0x0800, &ipv4_to([10, 0, 0, 2], 17, flags, piece)),
        ));
    }
    let FramePart::First(parted) = read[0].part else { panic!("{read:#?}") };
    assert_eq!(parted.identification, 0x1234);
    assert!(read[1..].iter().all(|part| part.part == FramePart::Later(parted)));
    let mut all = LayerBytes::default();
    read.iter().for_each(|part| all += part.layers);
    // Table 3.2: 3840 bytes of sound take 3974 in three frames; 28 more here, without checksums.
    let expected = LayerBytes {
        frames: 3,
        packets: 3,
        datagrams: 1,
        link: 3974 + 28 - 12,
        ip: 3920 + 28,
        transport: 3888,
        payload: 3880,
        rtp_payload: 3840,
    };
    assert_eq!(all, expected);
    let head = |offset: u16, more: u16| {
        [&[17, 0][..], &(offset | more).to_be_bytes(), &9_u32.to_be_bytes()].concat()
    };
    let first = ipv6(44, &[&head(0, 1), &udp([1, 2], &[0; 92])[..]].concat());
    let later = ipv6(44, &[&head(96, 0)[..], &[5; 40]].concat());
    let [first, later] = [first, later].map(|packet| tapped(TapLink::Bare, None, &packet));
    let FramePart::First(parted) = first.part else { panic!("{first:#?}") };
    assert_eq!((parted.identification, later.part), (9, FramePart::Later(parted)));
    assert_eq!((later.layers.transport, later.layers.payload, later.layers.datagrams), (40, 40, 0));
}

#[test]
fn offloaded_frame_counts_as_its_packets() {
    let three = [rtp(192), rtp(192), rtp(192)].concat();
    let frame = ethernet(0x0800, &ipv4(17, &udp([40_000, 5004], &three)));
    let one = ethernet(0x0800, &ipv4(17, &udp([40_000, 5004], &rtp(192))));
    let read = tapped(TapLink::Ethernet, Some(232), &frame);
    let each = tapped(TapLink::Ethernet, None, &one).layers;
    let mut expected = each;
    expected += each;
    expected += each;
    assert_eq!(read.layers, LayerBytes { frames: 1, ..expected });
    let mut tcp = vec![0; 32];
    tcp[12] = 8 << 4;
    tcp.extend(vec![1; 3000]);
    let read = tapped(TapLink::Ethernet, Some(1448), &ethernet(0x0800, &ipv4(6, &tcp)));
    let heads = 3 * (14 + 20 + 32);
    assert_eq!((read.kind, read.layers.packets), (TrafficKind::Tcp, 3));
    assert_eq!((read.layers.link, read.layers.payload), (3000 + heads, 3000));
}

#[test]
fn protocols_are_known_by_their_heads() {
    let said = |frame: &[u8]| tapped(TapLink::Ethernet, None, frame).kind;
    let v4 =
        |to, protocol, payload: &[u8]| said(&ethernet(0x0800, &ipv4_to(to, protocol, 0, payload)));
    let group = [224, 0, 0, 251];
    assert_eq!(v4(group, 17, &udp([5353, 5353], &[0; 40])), TrafficKind::Mdns);
    assert_eq!(v4([239, 195, 77, 77], 17, &udp([1, 9], &[0; 40])), TrafficKind::Multicast);
    assert_eq!(v4([255; 4], 17, &udp([68, 67], &[0; 40])), TrafficKind::Broadcast);
    assert_eq!(v4(group, 2, &[0x16, 0, 0, 0, 0, 0, 0, 0]), TrafficKind::Membership);
    assert_eq!(v4([10, 0, 0, 2], 1, &[8; 16]), TrafficKind::Icmp);
    assert_eq!(v4([10, 0, 0, 2], 47, &[8; 16]), TrafficKind::OtherIp);
    let v6 = |kind: u8| said(&ethernet(0x86dd, &ipv6(58, &[kind, 0, 0, 0, 0, 0, 0, 0])));
    assert_eq!(
        [128, 135, 143].map(v6),
        [TrafficKind::Icmp, TrafficKind::NeighbourDiscovery, TrafficKind::Membership]
    );
    let arp = [&[0, 1, 8, 0, 6, 4, 0, 1][..], &[0; 20]].concat();
    assert_eq!(said(&ethernet(0x0806, &arp)), TrafficKind::Arp);
    assert_eq!(said(&ethernet(0x88cc, &[0; 46])), TrafficKind::Other);
    assert_eq!(said(&[2; 9]), TrafficKind::Unread);
    assert_eq!(tapped(TapLink::Unknown, None, &[0; 60]).kind, TrafficKind::Unread);
    let rtcp = udp([5005, 5005], &[0x80, 200, 0, 6, 0, 0, 0, 1]);
    assert_eq!(tapped(TapLink::Bare, None, &ipv4(17, &rtcp)).rtp, None);
}

#[test]
fn protocols_follow_from_ports_ether_types_and_addresses() {
    let of = |frame: &[u8]| {
        let ReadFrame { protocol, cast, .. } = tapped(TapLink::Ethernet, None, frame);
        (protocol, cast)
    };
    let v4 =
        |to, protocol, payload: &[u8]| of(&ethernet(0x0800, &ipv4_to(to, protocol, 0, payload)));
    let (one, group) = ([10, 0, 0, 2], [224, 0, 1, 129]);
    let (unicast, multicast) = (Cast::Ipv4Unicast, Cast::Ipv4Multicast);
    let sent_to = |to, port| v4(to, 17, &udp([40_000, port], &[0; 40]));
    let expected = [
        (sent_to([224, 0, 0, 251], 5353), (Protocol::Mdns, multicast)),
        (sent_to(group, 319), (Protocol::Ptp, multicast)),
        (sent_to([239, 255, 255, 250], 1900), (Protocol::Ssdp, multicast)),
        (sent_to([239, 255, 255, 255], 9875), (Protocol::Sap, multicast)),
        (sent_to([255; 4], 67), (Protocol::Dhcp, Cast::Ipv4Broadcast)),
        (sent_to(one, 53), (Protocol::Dns, unicast)),
        (sent_to(one, 17_220), (Protocol::Avtp, unicast)),
        (sent_to(one, 40_001), (Protocol::OtherUdp, unicast)),
        // From the service's port.
        (v4(one, 17, &udp([53, 40_000], &[0; 40])), (Protocol::Dns, unicast)),
        (v4(one, 17, &udp([9, 9], &[0x80, 200, 0, 6])), (Protocol::Rtcp, unicast)),
        (v4(one, 6, &[1, 187, 156, 64]), (Protocol::Https, unicast)),
        (v4(one, 6, &[156, 64, 156, 65]), (Protocol::OtherTcp, unicast)),
        (v4(one, 6, &[]), (Protocol::OtherTcp, unicast)),
        (v4(group, 2, &[0x16; 8]), (Protocol::Membership, multicast)),
        (of(&ethernet(0x88f7, &[0; 46])), (Protocol::Ptp, Cast::NoIp)),
        (of(&ethernet(0x22f0, &[0; 46])), (Protocol::Avtp, Cast::NoIp)),
        (of(&ethernet(0x22ea, &[0; 46])), (Protocol::Srp, Cast::NoIp)),
        (of(&ethernet(0x88cc, &[0; 46])), (Protocol::Lldp, Cast::NoIp)),
        (of(&ethernet(38, &[0x42, 0x42, 3, 0])), (Protocol::Stp, Cast::NoIp)),
        (of(&ethernet(0x9999, &[0x42, 0x42, 3, 0])), (Protocol::Other, Cast::NoIp)),
        (of(&[2; 9]), (Protocol::Unread, Cast::NoIp)),
    ];
    for (at, (read, expected)) in expected.into_iter().enumerate() {
        assert_eq!(read, expected, "{at}");
    }
    let tagged = ethernet(0x8100, &[&[0, 5, 0x88, 0xf7][..], &[0; 46]].concat());
    assert_eq!(of(&tagged), (Protocol::Ptp, Cast::NoIp));
    let all =
        [&[0xff; 6][..], &ethernet(0x0800, &ipv4(17, &udp([138, 138], &[0; 40])))[6..]].concat();
    assert_eq!(of(&all), (Protocol::Netbios, Cast::Ipv4Broadcast));
    let v6 = tapped(TapLink::Typed(0x86dd), None, &ipv6(17, &udp([1, 547], &[0; 40])));
    assert_eq!((v6.protocol, v6.cast, v6.layers.link), (Protocol::Dhcp, Cast::Ipv6Unicast, 88));
}

#[test]
fn ethernet_padding_is_not_part_of_the_packet() {
    let mut frame = ethernet(0x0800, &ipv4(17, &udp([1, 2], &[3; 4])));
    frame.resize(60, 0);
    let read = tapped(TapLink::Ethernet, None, &frame);
    let layers = LayerBytes { link: 60, ip: 32, transport: 12, payload: 4, ..PLAIN };
    assert_eq!(read.layers, layers);
}

proptest! {
    #[test]
    fn any_bytes_are_counted_with_layers_nested(
        start in 0..6_usize,
        cut in 0..200_usize,
        noise in proptest::collection::vec(any::<u8>(), 0..160),
        bytes in 0..70_000_usize,
        segment in proptest::option::of(any::<u16>()),
        link in 0..5_usize,
        typed: u16,
    ) {
        let typed = TapLink::Typed(typed);
        let links = [TapLink::Ethernet, TapLink::Loopback, TapLink::Bare, TapLink::Unknown, typed];
        let packet = match start {
            0 => ethernet(0x0800, &ipv4(17, &udp([1, 2], &rtp(40)))),
            1 => ethernet(0x86dd, &ipv6(0, &[17, 0, 1, 4, 0, 0, 0, 0])),
            2 => ipv6(44, &[17, 0, 0, 1, 0, 0, 0, 1]),
            3 => ipv4(6, &[0; 20]),
            4 => ethernet(0x8100, &[0, 1, 0x08, 0x00, 0x4f]),
            _ => Vec::new(),
        };
        let head = [&packet[..cut.min(packet.len())], &noise].concat();
        let read = read_frame(links[link], bytes, segment, &head);
        let LayerBytes { frames, packets, datagrams, link, ip, transport, payload, rtp_payload } = read.layers;
        prop_assert!(frames == 1 && packets >= 1 && datagrams <= packets);
        prop_assert!(rtp_payload <= payload && payload <= transport && transport <= ip && ip <= link);
    }
}
