use std::net::Ipv4Addr;

use tautline_io::network::tap::TappedFrame;

use super::tap::{FrameCounter, TrafficMix};
use super::*;

fn sample(at_ns: i64, step: u64) -> TrafficSample {
    let interface =
        TrafficInterface { mtu: 1500, received: [step * 1000, step], sent: [step * 500, step * 2] };
    TrafficSample {
        at_ns,
        interfaces: [
            ("eth0".to_owned(), interface),
            ("dummy".to_owned(), TrafficInterface::default()),
        ]
        .into(),
        protocols: [("UdpInDatagrams".to_owned(), step), ("UdpInErrors".to_owned(), 1)].into(),
    }
}

#[test]
fn window_counts_traffic_between_its_samples() {
    let samples = (0..10).map(|at| sample(at * 200_000_000, at as u64)).collect();
    let watched = WatchedTraffic { schema: 2, samples, ..WatchedTraffic::default() };
    let window = watched.within([300_000_000, 1_450_000_000]).unwrap();
    assert_eq!(window.span(), [400_000_000, 1_400_000_000]);
    let interfaces = window.interfaces();
    assert_eq!(interfaces.len(), 1, "{interfaces:?}");
    let (name, interface, [received, sent]) = &interfaces[0];
    assert_eq!((name.as_str(), interface.mtu), ("eth0", 1500));
    assert_eq!(*received, CarriedTraffic { bytes: 5000, packets: 5 });
    assert_eq!(*sent, CarriedTraffic { bytes: 2500, packets: 10 });
    assert_eq!(window.protocol(PROTOCOLS[0].1), 5);
    assert_eq!(window.per_second(5), 5.0);
    assert!(watched.within([300_000_000, 500_000_000]).is_none());
}

#[test]
fn this_machine_has_counters_that_are_read() {
    let sample = TrafficSample::read();
    assert!(sample.interfaces.contains_key("lo"), "{sample:?}");
    assert!(sample.protocols.contains_key("UdpInDatagrams"), "{sample:?}");
    assert!(sample.protocols.contains_key("TcpOutSegs"), "{sample:?}");
    assert!(sample.interfaces.values().all(|interface| interface.mtu > 0), "{sample:?}");
}

/// From 10.0.0.1:40000 to 10.0.0.2; `flags` is the fragment field.
fn frame(port: u16, flags: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend([8, 0, 0x45, 0]);
    let udp = if flags & 0x1fff == 0 { 8 } else { 0 };
    frame.extend((20 + udp as u16 + payload.len() as u16).to_be_bytes());
    frame.extend([0, 9]);
    frame.extend(flags.to_be_bytes());
    frame.extend([64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    if udp > 0 {
        frame.extend([40_000, port, 8 + payload.len() as u16, 0].map(u16::to_be_bytes).concat());
    }
    frame.extend(payload);
    frame
}

fn at(millis: i64, outgoing: bool, frame: &[u8]) -> TappedFrame<'_> {
    let at = LocalTime::ZERO + Span::from_millis(millis);
    TappedFrame {
        interface: 3,
        hardware: 1,
        outgoing,
        at,
        bytes: frame.len(),
        segment: None,
        head: frame,
    }
}

fn tapped(frames: &[TappedFrame<'_>]) -> TappedTraffic {
    let address = Ipv4Addr::new(10, 0, 0, 2).into();
    let step = Span::from_millis(200);
    let mut mix = TrafficMix::of(address, LocalTime::ZERO, step);
    frames.iter().for_each(|frame| mix.see(frame));
    let more_ports = mix.more_ports;
    let steps = mix.reported(&[(3, "eth0".to_owned())].into());
    let step_ns = step.as_nanos();
    TappedTraffic { begin_ns: 0, step_ns, steps, more_ports, ..TappedTraffic::default() }
}

fn sound(bytes: usize) -> Vec<u8> {
    let mut packet = vec![0x80, 96];
    packet.extend(vec![0; 10 + bytes]);
    packet
}

#[test]
fn the_stream_is_known_by_its_port_and_its_control_by_the_next() {
    let [media, control, other] = [(5004, sound(192)), (5005, vec![0x80; 80]), (7, vec![0; 60])]
        .map(|(port, bytes)| frame(port, 0, &bytes));
    let all = tapped(&[
        at(250, true, &media),
        at(260, true, &media),
        at(270, false, &control),
        at(280, true, &other),
        // Not in a whole step of the window.
        at(150, true, &media),
        at(650, true, &media),
    ]);
    let window = all.within([190_000_000, 610_000_000]).unwrap();
    let interfaces = window.parts(Some(5004));
    let parts = &interfaces[&("eth0".to_owned(), true)];
    let names: Vec<_> = parts.keys().map(|part| part.name()).collect();
    assert_eq!(names, ["sound (RTP)", "control (RTCP)", "other UDP"]);
    let [received, sent] = parts[&MixPart::Sound];
    assert_eq!((received.packets, sent.packets, sent.rtp_payload), (0, 2, 384));
    assert_eq!(sent.link, 2 * (14 + 20 + 8 + 12 + 192));
    assert_eq!(parts[&MixPart::Control][0].payload, 80);
    assert_eq!(window.per_second(2), 5.0);
    assert!(all.within([190_000_000, 390_000_000]).is_none());
    let parts = &window.parts(None)[&("eth0".to_owned(), true)];
    let names: Vec<_> = parts.keys().map(|part| part.name()).collect();
    assert_eq!(names, ["other UDP"]);
}

#[test]
fn receiver_rtcp_on_a_shared_address_counts_as_control() {
    let both = |from: u16, to: u16| {
        let mut frame = frame(to, 0, &[0x80; 60]);
        frame.copy_within(30..34, 26);
        frame[34..36].copy_from_slice(&from.to_be_bytes());
        frame
    };
    let all = [(40_000, 5004), (40_001, 5005), (5005, 40_001), (40_002, 7)]
        .map(|(from, to)| both(from, to));
    let all = tapped(&all.each_ref().map(|frame| at(1, true, frame)));
    let window = all.within([0, 200_000_000]).unwrap();
    let parts = &window.parts(Some(5004))[&("eth0".to_owned(), true)];
    let sent: Vec<_> = parts.iter().map(|(part, ways)| (part.name(), ways[1].frames)).collect();
    assert_eq!(sent, [("sound (RTP)", 1), ("control (RTCP)", 2), ("other UDP", 1)]);
}

#[test]
fn later_fragments_count_with_the_first_ones_stream() {
    let first = frame(5004, 0x2000, &sound(1460));
    let later = frame(0, 185, &[7; 500]);
    let all = tapped(&[at(199, true, &first), at(201, true, &later), at(202, false, &later)]);
    let window = all.within([0, 600_000_000]).unwrap();
    let parts = &window.parts(Some(5004))[&("eth0".to_owned(), true)];
    let [_, sent] = parts[&MixPart::Sound];
    assert_eq!((sent.packets, sent.datagrams, sent.rtp_payload), (2, 1, 1960));
    let [received, _] = parts[&MixPart::Of(frames::TrafficKind::Fragment)];
    assert_eq!((received.packets, received.rtp_payload), (1, 0));
    assert!(all.steps[1].iter().all(|entry| !entry.outgoing), "{:#?}", all.steps[1]);
}

#[test]
fn port_scan_uses_bounded_memory() {
    let frames: Vec<_> = (1..=2000).map(|port| frame(port, 0, &[0; 20])).collect();
    let seen: Vec<_> = frames.iter().map(|frame| at(1, false, frame)).collect();
    let all = tapped(&seen);
    assert!(all.steps[0].len() < 100, "{}", all.steps[0].len());
    // Only the first ports are tracked.
    assert!(all.knows(7) && !all.knows(1000));
    assert!(tapped(&seen[..60]).knows(1000), "it was not there at all");
    assert_eq!(all.steps[0].iter().map(|entry| entry.layers.packets).sum::<u64>(), 2000);
}
