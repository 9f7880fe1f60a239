use std::collections::BTreeMap;

use super::*;

fn ethernet(kind: u16, payload: &[u8]) -> Vec<u8> {
    [&[2; 12][..], &kind.to_be_bytes(), payload].concat()
}

fn udp(to: [u8; 4], port: u16, flags: u16, payload: &[u8]) -> Vec<u8> {
    let length = payload.len() as u16;
    let mut packet = vec![0x45, 0];
    packet.extend((28 + length).to_be_bytes());
    packet.extend([0, 9]);
    packet.extend(flags.to_be_bytes());
    packet.extend([64, 17, 0, 0, 10, 0, 0, 1]);
    packet.extend(to);
    packet.extend([40_000, port, 8 + length, 0].map(u16::to_be_bytes).concat());
    packet.extend(payload);
    ethernet(0x0800, &packet)
}

fn rtp(number: u16, ssrc: u32) -> Vec<u8> {
    let head = [&[0x80, 96][..], &number.to_be_bytes(), &[0; 4], &ssrc.to_be_bytes()].concat();
    [head, vec![0; 192]].concat()
}

fn pcap(frames: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let word = |word: u32| word.to_le_bytes();
    let mut file =
        [word(0xa1b2_c3d4), word(4 << 16 | 2), word(0), word(0), word(64), word(1)].concat();
    for (at, frame) in frames {
        let kept = &frame[..frame.len().min(64)];
        let lengths = [kept.len(), frame.len()].map(|length| word(length as u32)).concat();
        file.extend([word(1000 + at / 1_000_000), word(at % 1_000_000)].concat());
        file.extend([&lengths[..], kept].concat());
    }
    file
}

const GROUP: [u8; 4] = [239, 1, 2, 3];

fn network() -> Vec<(u32, Vec<u8>)> {
    let mut frames: Vec<_> =
        (0..100).map(|at| (at * 10_000, udp(GROUP, 5004, 0, &rtp(at as u16, 7)))).collect();
    frames.extend([
        (1_100_000, udp([224, 0, 0, 251], 5353, 0, &[0; 100])),
        (1_200_000, udp([224, 0, 0, 251], 5353, 0, &[0; 100])),
        (1_300_000, ethernet(0x0806, &[&[0, 1, 8, 0, 6, 4, 0, 1][..], &[0; 38]].concat())),
        (1_400_000, ethernet(38, &[&[0x42, 0x42, 3][..], &[0; 43]].concat())),
        (1_500_000, udp([10, 0, 0, 2], 319, 0, &[0; 44])),
        (1_600_000, ethernet(0x22f0, &[0; 80])),
        // RTP-like, but nothing follows.
        (1_700_000, udp([10, 0, 0, 2], 5004, 0, &rtp(1, 1))),
        (1_800_000, udp([10, 0, 0, 2], 5004, 0, &rtp(2, 2))),
        (2_500_000, udp(GROUP, 5004, 0, &rtp(100, 7))),
    ]);
    frames
}

fn figure(row: &ReportRow, key: &str) -> f64 {
    let found = row.figures.iter().find(|figure| figure.key == key);
    found.and_then(|figure| figure.value.as_f64()).unwrap_or_else(|| panic!("{key}: {row:?}"))
}

fn parts<'a>(report: &'a LabReport, kind: &str) -> BTreeMap<&'a str, &'a ReportRow> {
    let begin = format!("ambient: capture, all interfaces{kind}");
    let parts = report.rows.iter().filter_map(|row| Some((row.name.strip_prefix(&*begin)?, row)));
    parts.collect()
}

#[test]
fn capture_has_each_protocol_and_kind_of_address_with_its_share() {
    let report = of_capture(&pcap(&network())[..]);
    let protocols = parts(&report, ": ");
    let packets: Vec<_> =
        protocols.iter().map(|(name, row)| (*name, figure(row, "packets"))).collect();
    let expected = [
        ("ARP", 1.0),
        ("AVTP", 1.0),
        ("PTP", 1.0),
        // All but a stream's first packet are recognized.
        ("RTP", 100.0),
        ("STP", 1.0),
        ("mDNS", 2.0),
        ("other UDP", 3.0),
    ];
    assert_eq!(packets, expected, "{report}");
    let casts = parts(&report, ", by address: ");
    let packets: Vec<_> = casts.iter().map(|(name, row)| (*name, figure(row, "packets"))).collect();
    assert_eq!(packets, [("IPv4 multicast", 103.0), ("IPv4 unicast", 3.0), ("no IP", 3.0)]);
    for parts in [protocols, casts] {
        for key in ["packets_share", "bytes_share"] {
            let sum: f64 = parts.values().map(|row| figure(row, key)).sum();
            assert!((sum - 1.0).abs() < 1e-9, "{key}: {sum}");
        }
    }
}

#[test]
fn rates_are_means_of_the_capture_and_of_its_busiest_second() {
    let report = of_capture(&pcap(&network())[..]);
    let all = &report.rows[0];
    assert_eq!(all.name, "ambient: capture, all interfaces");
    // 246 bytes, of which 64 were kept.
    let [frames, others] = [101.0 * 246.0, 2.0 * 142.0 + 60.0 + 60.0 + 86.0 + 94.0 + 2.0 * 246.0];
    let close = |key, value: f64| assert!((figure(all, key) / value - 1.0).abs() < 1e-9, "{key}");
    close("packets", 109.0);
    close("packets_per_s", 109.0 / 2.5);
    close("mbit_per_s", (frames + others) * 8.0 / 2.5 / 1e6);
    close("busiest_packets_per_s", 100.0);
    close("busiest_mbit_per_s", 100.0 * 246.0 * 8.0 / 1e6);
    let [bits, packets] = &all.meanwhile[..] else { panic!("{all:?}") };
    assert_eq!(packets.values, [(1_000_000_000, 100.0), (2_000_000_000, 8.0)]);
    assert_eq!(bits.values[0], (1_000_000_000, 0.1968));
    let is_way = |row: &&ReportRow| row.figures.iter().any(|one| one.key == "sent_mbit_per_s");
    assert_eq!(report.rows.iter().find(is_way).map(|row| &row.name), None, "no way is known");
}

#[test]
fn parts_of_a_long_packet_are_of_its_protocol() {
    let first = |number| udp(GROUP, 5004, 0x2000, &rtp(number, 7));
    // A fragment contains only sound.
    let later = udp(GROUP, 0xffff, 24, &[0xff; 100]);
    let frames: Vec<_> = [first(1), later.clone(), first(2), later]
        .into_iter()
        .zip(0..)
        .map(|(f, at)| (at, f))
        .collect();
    let report = of_capture(&pcap(&frames)[..]);
    let packets: Vec<_> =
        parts(&report, ": ").iter().map(|(name, row)| (*name, figure(row, "packets"))).collect();
    // The first was not yet known as RTP.
    assert_eq!(packets, [("RTP", 2.0), ("other UDP", 2.0)], "{report}");
}

#[test]
fn truncated_capture_is_noted_and_empty_one_is_invalid() {
    let whole = pcap(&network());
    let report = of_capture(&whole[..whole.len() - 10]);
    assert_eq!(figure(&report.rows[0], "packets"), 108.0);
    assert!(report.notes[0].contains("ends within a frame"), "{report}");
    for empty in [pcap(&[]), Vec::new(), b"RIFF....WAVE, which is no capture at all".to_vec()] {
        let report = of_capture(&empty[..]);
        assert!(report.rows[0].invalid.is_some() && !report.says_something(), "{report}");
    }
}

#[test]
fn network_without_a_frame_is_measured_as_silent() {
    let traffic = AmbientTraffic { range_ns: [0, 2_000_000_000], ..AmbientTraffic::default() };
    let [row] = &rows("here", &traffic)[..] else { panic!() };
    assert_eq!(row.name, "ambient: here");
    assert_eq!([figure(row, "packets"), figure(row, "mbit_per_s")], [0.0, 0.0]);
}
