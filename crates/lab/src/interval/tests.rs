mod avtp;

use proptest::prelude::*;
use tautline_proto::time::Span;
use tautline_trial::snapshot;

use super::*;
use crate::statistics::Missed;

fn ipv4(number: u16, ssrc: u32) -> Vec<u8> {
    let mut rtp = vec![0x80, 96];
    rtp.extend(number.to_be_bytes());
    rtp.extend((u32::MAX - 100).wrapping_add(48 * u32::from(number)).to_be_bytes());
    rtp.extend(ssrc.to_be_bytes());
    rtp.extend([0; 192]);
    let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    packet.extend([5004_u16, 5006, 8 + rtp.len() as u16, 0].map(u16::to_be_bytes).concat());
    packet.extend(rtp);
    packet
}

fn ipv6(number: u16, ssrc: u32) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, 0, 0, 64];
    packet.extend([0xfd; 16]);
    packet.extend([0xfe; 16]);
    packet.extend([17, 0, 1, 4, 0, 0, 0, 0]);
    packet.extend(&ipv4(number, ssrc)[20..]);
    packet
}

fn tagged(packet: &[u8]) -> Vec<u8> {
    let kind: [u8; 2] = if packet[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
    let mut frame = vec![2; 12];
    frame.extend([0x88, 0xa8, 0, 5, 0x81, 0, 0, 7]);
    frame.extend(kind);
    frame.extend(packet);
    frame
}

#[derive(Clone, Copy)]
struct Pcap {
    big: bool,
    nanos: bool,
    link: u32,
}

impl Pcap {
    fn word(self, word: u32) -> [u8; 4] {
        if self.big { word.to_be_bytes() } else { word.to_le_bytes() }
    }

    fn half(self, half: u16) -> [u8; 2] {
        if self.big { half.to_be_bytes() } else { half.to_le_bytes() }
    }

    fn file(self, frames: &[(u64, Vec<u8>)]) -> Vec<u8> {
        let magic = if self.nanos { 0xa1b2_3c4d } else { 0xa1b2_c3d4 };
        let mut file = self.word(magic).to_vec();
        file.extend([self.half(2), self.half(4)].concat());
        file.extend([0, 0, 65_535, self.link].map(|word| self.word(word)).concat());
        for (at, frame) in frames {
            let part = at % 1_000_000_000 / if self.nanos { 1 } else { 1000 };
            let length = frame.len() as u32;
            let head = [(at / 1_000_000_000) as u32, part as u32, length, length];
            file.extend(head.map(|word| self.word(word)).concat());
            file.extend(frame);
        }
        file
    }

    fn next_generation(self, frames: &[(u64, Vec<u8>)]) -> Vec<u8> {
        let block = |kind: u32, body: Vec<u8>| {
            let length = self.word(body.len() as u32 + 12);
            [self.word(kind).to_vec(), length.to_vec(), body, length.to_vec()].concat()
        };
        let mut section = self.word(0x1a2b_3c4d).to_vec();
        section.extend([self.half(1), self.half(0)].concat());
        section.extend([0xff; 8]);
        let mut interface = [self.half(self.link as u16), self.half(0)].concat();
        interface.extend(self.word(65_535));
        if self.nanos {
            interface.extend([self.half(9), self.half(1)].concat());
            interface.extend([9, 0, 0, 0]);
        }
        let mut file = [block(0x0a0d_0d0a, section), block(1, interface)].concat();
        for (at, frame) in frames {
            let units = if self.nanos { *at } else { at / 1000 };
            let length = frame.len() as u32;
            let head = [0, (units >> 32) as u32, units as u32, length, length];
            let mut body = head.map(|word| self.word(word)).concat();
            body.extend(frame);
            body.resize(body.len().next_multiple_of(4), 0xaa);
            file.extend(block(6, body));
        }
        file
    }
}

const PLAIN: Pcap = Pcap { big: false, nanos: true, link: 1 };
/// In ns since 1970.
const TODAY: u64 = 1_795_000_000_123_456_000;

fn frames(numbers: impl IntoIterator<Item = u16>) -> Vec<(u64, Vec<u8>)> {
    let at = |number: u16| {
        TODAY + 1_000_000 * u64::from(number) + if number % 10 == 5 { 100_000 } else { 0 }
    };
    numbers.into_iter().map(|number| (at(number), tagged(&ipv4(number, 0xabc)))).collect()
}

fn of(file: &[u8]) -> LabReport {
    of_capture(file, Rate::HZ_48000)
}

fn figure(row: &ReportRow, key: &str) -> serde_json::Value {
    row.figures.iter().find(|figure| figure.key == key).unwrap().value.clone()
}

fn remarks(report: &crate::report::LabReport) -> String {
    let invalid_rows = report.rows.iter().filter_map(|row| row.invalid.clone());
    invalid_rows.chain(report.notes.iter().cloned()).collect::<Vec<_>>().join("\n")
}

#[test]
fn every_capture_format_gives_the_same_result() {
    let all = frames(0..1000);
    for (big, nanos) in [(false, false), (false, true), (true, false), (true, true)] {
        let kind = Pcap { big, nanos, link: 1 };
        for file in [kind.file(&all), kind.next_generation(&all)] {
            let report = of(&file);
            let [row, media] = &report.rows[..] else { panic!("{report}") };
            assert_eq!(row.name, "00000abc 10.0.0.1:5004 to 10.0.0.2:5006");
            let measured = row.measured.unwrap();
            assert_eq!((measured.count, measured.p50_ns), (999, Some(1_000_000)), "{report}");
            assert_eq!((measured.max_ns, measured.range_ns), (Some(1_100_000), Some(200_000)));
            assert_eq!(row.configured, Some(Span::from_millis(1)));
            assert_eq!(row.missed, Some(Missed::of(0, 1000)));
            let late = media.measured.unwrap();
            assert!((late.max_ns.unwrap() - 100_000).abs() < 300, "{report}");
            assert!(figure(media, "media_clock_ppm").as_f64().unwrap().abs() < 1.0, "{report}");
            assert!(report.notes.is_empty(), "{report}");
        }
    }
}

#[test]
fn links_tags_and_both_versions_of_ip_are_read() {
    let cooked = |kind: [u8; 2], packet: &[u8]| [&[0; 14][..], &kind, packet].concat();
    let cooked2 = |kind: [u8; 2], packet: &[u8]| [&kind[..], &[0; 18], packet].concat();
    type Wrap<'a> = &'a dyn Fn(u16) -> Vec<u8>;
    let ways: [(u32, Wrap<'_>); 6] = [
        (1, &|number| tagged(&ipv6(number, 7))),
        (101, &|number| ipv6(number, 7)),
        (101, &|number| ipv4(number, 7)),
        (0, &|number| [&[2, 0, 0, 0][..], &ipv4(number, 7)].concat()),
        (113, &|number| cooked([0x86, 0xdd], &ipv6(number, 7))),
        (276, &|number| cooked2([8, 0], &ipv4(number, 7))),
    ];
    for (link, wrap) in ways {
        let all: Vec<_> =
            (0..20).map(|number| (TODAY + 1_000_000 * u64::from(number), wrap(number))).collect();
        let report = of(&Pcap { link, ..PLAIN }.file(&all));
        assert_eq!(report.rows[0].measured.map(|all| all.count), Some(19), "{link}: {report}");
    }
}

#[test]
fn lost_duplicate_and_reordered_packets_are_counted() {
    let number = |index: u16| 65_500_u16.wrapping_add(index);
    let mut all: Vec<_> = (0..100)
        .filter(|index| ![20, 21, 60].contains(index))
        .map(|index| (TODAY + 1_000_000 * u64::from(index), tagged(&ipv4(number(index), 1))))
        .collect();
    let (earlier, later) = (all[30].0, all[31].0);
    (all[30].0, all[31].0) = (later, earlier);
    all.push((all[40].0 + 10, all[40].1.clone()));
    let report = of(&PLAIN.file(&all));
    let row = &report.rows[0];
    assert_eq!(row.missed, Some(Missed::of(3, 100)), "{report}");
    assert_eq!((figure(row, "repeated"), figure(row, "reordered")), (1.into(), 1.into()));
}

#[test]
fn restarted_sender_and_each_stream_have_separate_rows() {
    let mut all = frames(0..100);
    all.extend(frames(20_000..20_050));
    all.extend((0..30).map(|n| (TODAY + 500_000 + 1_000_000 * n, tagged(&ipv4(n as u16, 0xdef)))));
    let report = of(&PLAIN.file(&all));
    let names: Vec<_> = report.rows.iter().step_by(2).map(|row| &row.name[..8]).collect();
    assert_eq!(names, ["00000abc", "00000abc", "00000def"], "{report}");
    assert!(report.rows[2].name.ends_with("(2)"), "{report}");
    assert_eq!(report.rows[2].measured.unwrap().count, 49);
}

#[test]
fn rtp_lookalikes_are_skipped_and_empty_capture_has_a_hint() {
    let noise: Vec<_> =
        (0..200_u64).map(|n| (TODAY + n, tagged(&ipv4((n * 7919 % 65_536) as u16, 5)))).collect();
    let report = of(&PLAIN.file(&noise));
    snapshot!(report.notes[0]);
    for file in [
        PLAIN.file(&[]),
        Vec::new(),
        b"RIFF....WAVE and more, so that a header has room in it".to_vec(),
    ] {
        let report = of(&file);
        assert!(report.rows[0].invalid.is_some() && !report.says_something(), "{report}");
        snapshot!(remarks(&report));
    }
    let other = Pcap { link: 105, ..PLAIN }.file(&frames(0..20));
    snapshot!("Wi-Fi", remarks(&of(&other)));
}

#[test]
fn a_capture_without_a_stream_is_void_for_its_own_reason() {
    let wav = b"RIFF....WAVE and more, so that a header has room in it".to_vec();
    let whole = PLAIN.file(&frames(0..1));
    for (name, file) in [
        ("a WAV file", wav),
        ("nothing", Vec::new()),
        ("less than a packet", whole[..whole.len() - 100].to_vec()),
        ("two packets", PLAIN.file(&frames(0..2))),
        ("no packet", PLAIN.file(&[])),
    ] {
        let report = of(&file);
        assert_eq!(report.notes.len(), 0, "{report}");
        snapshot!(name, report.rows[0].invalid.as_ref().unwrap());
    }
}

#[test]
fn truncated_capture_is_reported_and_read_to_its_end() {
    let whole = PLAIN.file(&frames(0..100));
    let report = of(&whole[..whole.len() - 100]);
    assert_eq!(report.rows[0].measured.unwrap().count, 98);
    assert!(report.notes[0].contains("ends within a frame"), "{report}");
    let mut huge = PLAIN.file(&frames(0..20));
    huge.extend([[1, 0, 0, 0]; 2].concat());
    huge.extend([[0xff; 4]; 2].concat());
    huge.extend(vec![0; 3 << 20]);
    let report = of(&huge);
    assert_eq!(report.rows[0].measured.unwrap().count, 19);
    assert_eq!(report.notes.len(), 1, "{report}");
}

#[test]
fn a_stream_of_another_rate_is_doubted() {
    let all: Vec<_> =
        (0..100).map(|n| (TODAY + 1_088_435 * u64::from(n), tagged(&ipv4(n, 1)))).collect();
    let report = of(&PLAIN.file(&all));
    snapshot!(report.notes[0]);
    assert!(of_capture(&PLAIN.file(&all)[..], Rate::HZ_44100).notes.is_empty());
}

fn ledger(lines: impl Iterator<Item = (u32, i64, i64)>) -> String {
    let mut text = "rtp_timestamp,capture,taken,packed,due,handed\n".to_owned();
    for (timestamp, due, handed) in lines {
        text += &format!("{timestamp},1,2,3,{due},{handed}\n");
    }
    text
}

#[test]
fn packet_log_gives_intervals_and_lateness() {
    let packet = |n: i64| {
        let due = 5_000_000_000 + 125_000 * n;
        ((u32::MAX - 50).wrapping_add(6 * n as u32), due, due + 1000 + 500 * (n % 2))
    };
    let report = of_ledger("sent.csv", &ledger((0..1000).map(packet)), Rate::HZ_48000);
    let [intervals, schedule, media] = &report.rows[..] else { panic!("{report}") };
    assert_eq!(intervals.configured, Some(Span::from_micros(125)));
    assert_eq!(intervals.measured.unwrap().range_ns, Some(1000));
    assert_eq!(intervals.published[0].value_ns, 1154, "what others published of 125us");
    let late = schedule.measured.unwrap();
    assert_eq!((late.min_ns, late.max_ns), (Some(1000), Some(1500)));
    assert!((media.measured.unwrap().max_ns.unwrap() - 500).abs() <= 5, "{report}");
}

#[test]
fn invalid_packet_log_gives_an_invalid_row_with_a_hint() {
    for text in [
        String::new(),
        "a,b\n1,2\n".to_owned(),
        "seq,rtp_timestamp,capture,arrival\n".to_owned(),
        ledger([(1, 2, 3)].into_iter()),
        ledger([(1, 2, 3)].into_iter()) + "1,2\n",
    ] {
        let report = of_ledger("sent.csv", &text, Rate::HZ_48000);
        snapshot!(format!("{text:?}"), report.rows[0].invalid.as_ref().unwrap());
    }
}

proptest! {
    #[test]
    fn no_capture_breaks_the_reader(
        places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..40),
        cut in any::<prop::sample::Index>(),
        (big, nanos, next) in any::<(bool, bool, bool)>(),
    ) {
        let kind = Pcap { big, nanos, link: 1 };
        let all = frames(0..40);
        let mut file = if next { kind.next_generation(&all) } else { kind.file(&all) };
        for (place, byte) in places {
            let place = place.index(file.len());
            file[place] = byte;
        }
        let end = cut.index(file.len() + 1);
        let report = of(&file[..end]);
        prop_assert!(!report.rows.is_empty());
    }

    #[test]
    fn no_frame_breaks_its_reader(bytes in prop::collection::vec(any::<u8>(), 0..200), first: u8) {
        use super::flows::{LinkType, packet_of_frame};
        for number in [0, 1, 101, 113, 276] {
            let link = LinkType::of(number).unwrap();
            let _ = packet_of_frame(link, &bytes);
            let avtp = [&tagged(&[0x60])[..20], &[0x22, 0xf0, first, 0x81], &bytes].concat();
            let _ = packet_of_frame(link, &avtp);
            let mut frame = tagged(&ipv6(1, 2));
            frame[22 + 6] = first;
            frame.extend(&bytes);
            let _ = packet_of_frame(link, &frame);
        }
    }

    #[test]
    fn packet_log_reader_survives_any_input(lines in prop::collection::vec(any::<(u32, i64, i64)>(), 0..20)) {
        let report = of_ledger("sent.csv", &ledger(lines.into_iter()), Rate::HZ_48000);
        prop_assert!(!report.rows.is_empty());
    }
}

fn changed(count: u16, change: impl Fn(u16) -> (u32, u64)) -> Vec<u8> {
    let packet = |number: u16| {
        let (frames, nanos) = change(number);
        let mut packet = ipv4(number, 0xabc);
        let stamp = u32::from_be_bytes([packet[32], packet[33], packet[34], packet[35]]);
        packet[32..36].copy_from_slice(&stamp.wrapping_add(frames).to_be_bytes());
        (TODAY + 1_000_000 * u64::from(number) + nanos, tagged(&packet))
    };
    PLAIN.file(&(0..count).map(packet).collect::<Vec<_>>())
}

#[test]
fn media_clock_begins_again_at_a_step() {
    type Change = fn(u16) -> (u32, u64);
    let cases: [(Change, u64); 5] = [
        (|number| (0, if number < 1000 { 0 } else { 500_000_000 }), 1),
        (|number| (if number < 1000 { 0 } else { 48_000 }, 0), 1),
        (|number| (if number < 2900 { 0 } else { 48_000_u32.wrapping_neg() }, 0), 1),
        (|number| (0, u64::from(number / 500) * 20_000_000), 5),
        (|number| (u32::from(number / 1000) * 960, u64::from(number / 700) * 50_000_000), 6),
    ];
    for (index, (change, steps)) in cases.into_iter().enumerate() {
        let report = of(&changed(3000, change));
        let [_, media] = &report.rows[..] else { panic!("{report}") };
        assert_eq!(figure(media, "media_clock_steps"), steps, "{index}: {report}");
        assert!(figure(media, "media_clock_ppm").as_f64().unwrap().abs() < 1.0, "{report}");
        assert!(media.measured.unwrap().max_ns.unwrap() < 300, "{index}: {report}");
        assert!(report.notes.is_empty(), "{index}: {report}");
    }
}

#[test]
fn stall_of_the_network_is_no_step_of_the_media_clock() {
    // Packets 1000 to 1399 wait for 400 ms; one packet is late; the last is late.
    let late = |number: u16| match number {
        1000..1400 => 400_000_000 - 998_000 * u64::from(number - 1000),
        2000 | 2999 => 300_000,
        2500 => 50_000_000,
        _ => 0,
    };
    let report = of(&changed(3000, |number| (0, late(number))));
    let media = &report.rows[1];
    assert_eq!(figure(media, "media_clock_steps"), 0, "{report}");
    assert!(media.measured.unwrap().max_ns.unwrap() > 300_000_000, "{report}");
}

#[test]
fn wrong_rate_is_reported_next_to_a_step() {
    // 44100 Hz taken for 48000 Hz, with a pause.
    let report = of(&changed(3000, |number| {
        (0, u64::from(number) * 88_435 + if number < 1500 { 0 } else { 500_000_000 })
    }));
    assert_eq!(figure(&report.rows[1], "media_clock_steps"), 1, "{report}");
    snapshot!(remarks(&report));
}
