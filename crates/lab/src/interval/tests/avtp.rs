use super::*;

/// 6 frames of 16-bit stereo at 48 kHz, as ALSA's plugin `aaf` writes.
#[derive(Clone)]
struct Aaf {
    number: u8,
    presented: Option<u32>,
    sparse: bool,
}

impl Aaf {
    fn packet(&self) -> Vec<u8> {
        let flags = 0x80 | u8::from(self.presented.is_some());
        let mut packet =
            vec![0x02, flags, self.number, 0, 0x02, 0x11, 0x22, 0x33, 0x44, 0x55, 0, 7];
        packet.extend(self.presented.unwrap_or(0).to_be_bytes());
        packet.extend([4, 0x50, 2, 16, 0, 24, if self.sparse { 0x10 } else { 0 }, 0]);
        packet.extend([0; 24]);
        packet
    }

    fn in_ethernet(&self) -> Vec<u8> {
        let mut frame = vec![0x91, 0xe0, 0xf0, 0, 0xfe, 1, 2, 2, 2, 2, 2, 2];
        frame.extend([0x81, 0, 0x60, 2, 0x22, 0xf0]);
        frame.extend(self.packet());
        // Minimum frame size.
        frame.resize(frame.len().max(68), 0);
        frame
    }

    fn in_udp(&self) -> Vec<u8> {
        let datagram = [&0x8000_0000_u32.to_be_bytes()[..], &self.packet()].concat();
        let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        packet.extend([5000, 17_220, 8 + datagram.len() as u16, 0].map(u16::to_be_bytes).concat());
        packet.extend(datagram);
        tagged(&packet)
    }
}

const STEP: u64 = 125_000;

fn nth(n: u64) -> Aaf {
    let presented = (u32::MAX - 12_500_000).wrapping_add((STEP * n) as u32);
    Aaf { number: n as u8, presented: Some(presented), sparse: false }
}

fn captured(numbers: impl IntoIterator<Item = u64>, frame: impl Fn(u64) -> Vec<u8>) -> Vec<u8> {
    let at = |n: u64| TODAY + STEP * n + if n % 10 == 5 { 2000 } else { 0 };
    let all: Vec<_> = numbers.into_iter().map(|n| (at(n), frame(n))).collect();
    PLAIN.file(&all)
}

#[test]
fn intervals_of_avtp_are_measured_in_ethernet_and_udp() {
    let name = "AAF 02:11:22:33:44:55:0007 to";
    for (frame, to) in [
        (Aaf::in_ethernet as fn(&Aaf) -> Vec<u8>, "91:E0:F0:00:FE:01"),
        (Aaf::in_udp, "10.0.0.2:17220"),
    ] {
        let report = of(&captured(0..1000, |n| frame(&nth(n))));
        let [row, media] = &report.rows[..] else { panic!("{report}") };
        assert_eq!(row.name, format!("{name} {to}"));
        assert_eq!(row.configured, Some(Span::from_micros(125)), "{report}");
        let measured = row.measured.unwrap();
        assert_eq!((measured.count, measured.range_ns), (999, Some(4000)), "{report}");
        assert_eq!(row.missed, Some(Missed::of(0, 1000)), "{report}");
        assert_eq!(row.published[0].value_ns, 1154, "the plugin's own figure stands next to it");
        assert!((media.measured.unwrap().max_ns.unwrap() - 2000).abs() <= 10, "{report}");
        assert!(report.notes.is_empty(), "{report}");
    }
}

#[test]
fn long_avtp_loss_is_counted_by_presentation_times() {
    for (gap, missed) in [(100..110, 10), (100..356, 256), (100..700, 600)] {
        let kept = (0..2000).filter(|n| !gap.contains(n));
        let report = of(&captured(kept, |n| nth(n).in_ethernet()));
        assert_eq!(report.rows[0].missed, Some(Missed::of(missed, 2000)), "{gap:?}: {report}");
    }
}

#[test]
fn packets_without_a_presentation_time_count_by_their_numbers() {
    // Only every eighth packet has a time.
    let sparse = |n: u64| {
        let timed = nth(n);
        let presented = timed.presented.filter(|_| n.is_multiple_of(8));
        Aaf { presented, sparse: true, ..timed }.in_ethernet()
    };
    let report = of(&captured((0..800).filter(|n| !(300..310).contains(n)), sparse));
    let [row, media] = &report.rows[..] else { panic!("{report}") };
    assert_eq!(row.missed, Some(Missed::of(10, 800)), "{report}");
    assert_eq!(row.configured, Some(Span::from_micros(125)));
    assert_eq!(media.measured.unwrap().count, 99, "304 is lost: {report}");
    let untimed = of(&captured(0..100, |n| Aaf { presented: None, ..nth(n) }.in_ethernet()));
    assert_eq!(untimed.rows.len(), 1, "no presentation time, no media clock: {untimed}");
}

#[test]
fn talker_that_pauses_begins_a_second_row() {
    let frames = (0..100).chain(20_000..20_050);
    let report = of(&captured(frames, |n| nth(n).in_ethernet()));
    let counts: Vec<_> = report.rows.iter().step_by(2).map(|row| row.missed).collect();
    assert_eq!(counts, [Some(Missed::of(0, 100)), Some(Missed::of(0, 50))], "{report}");
}

#[test]
fn rtp_and_avtp_in_one_capture_are_separate_streams() {
    let mut all: Vec<_> = (0..50).map(|n| (TODAY + STEP * n, nth(n).in_ethernet())).collect();
    all.extend(frames(0..30));
    all.sort();
    let report = of(&PLAIN.file(&all));
    let names: Vec<_> = report.rows.iter().step_by(2).map(|row| &row.name[..8]).collect();
    assert_eq!(names, ["AAF 02:1", "00000abc"], "{report}");
}
