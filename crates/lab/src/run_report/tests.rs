use tautline_trial::snapshot;

use std::fmt::Write as _;

use super::*;

const HEAD: &str = "rtp_timestamp,capture,sender_taken,packed,handed,arrival,read,taken,written,dac,\
                    measured_ns,stream,late,resample_ns";

fn ledger(packets: i64) -> RunPackets {
    let mut text = format!("{HEAD}\n");
    for packet in 0..packets {
        let capture = 1_000_000_000 + packet * 1_000_000;
        let wakeup = if packet == 1_500 { 9_000_000 } else { 20_000 };
        let mut at = capture;
        let lengths = [1_000_000, 10_000, 5_000, 100_000, wakeup, 2_000_000, 9_000, 1_000_000];
        let ends = lengths.map(|length| {
            at += length;
            at.to_string()
        });
        let measured = if packet % 2 == 0 { (at - capture).to_string() } else { String::new() };
        let stream = packet % 2;
        writeln!(text, "{packet},{capture},{},{measured},{stream},0,0", ends.join(",")).unwrap();
    }
    text += "77,,,,,5,6,7,8,9,,0,0,0\nhalf a line";
    RunPackets::of(text.as_bytes()).unwrap()
}

#[test]
fn page_lists_the_worst_packets_of_the_text_report() {
    let packet = |rtp_timestamp, total_ns| {
        let stages = vec![("wakeup".into(), 7), ("buffer".into(), 3)];
        WorstPacket { rtp_timestamp, total_ns, stages }
    };
    let worst = vec![packet(480, None), packet(48, Some(10))];
    let stream = StreamReport { rate: 48_000, worst, ..StreamReport::default() };
    let report = Report { role: "recv".into(), streams: vec![stream], ..Report::default() };
    let listed = |ledger: Option<&RunPackets>| -> Vec<(i64, i64)> {
        let row = of_run(&report, ledger).rows.remove(0);
        let cause = row.worst[0].cause.as_ref().unwrap();
        assert!(cause.starts_with("wakeup 7ns, buffer 3ns"), "{cause}");
        row.worst.iter().map(|worst| (worst.at_ns, worst.value_ns)).collect()
    };
    assert_eq!(listed(None), [(9_000_000, 10), (0, 10)]);
    // Since the first packet of the log.
    assert_eq!(listed(Some(&ledger(4_000))), [(10_000_000, 10), (1_000_000, 10)]);
}

#[test]
fn row_has_every_packet_of_its_stream() {
    let ledger = ledger(4_000);
    let mut row = ReportRow::named("rtp://here");
    assert_eq!(ledger.add_to(&mut row, 0), None);
    assert_eq!(row.points.len(), 8);
    assert_eq!(row.points[0].values[1], (2_000_000, 1_000_000));
    assert!(row.points.iter().all(|points| points.values.len() == 2_000));
    assert_eq!(row.intervals.len(), 4);
    // Without measured sound, device times count.
    let mut other = ReportRow::named("the other");
    ledger.add_to(&mut other, 1);
    assert_eq!(other.measured.unwrap().count, 2_000);
    let mut none = ReportRow::named("a third");
    ledger.add_to(&mut none, 2);
    assert!(none.points.is_empty() && none.measured.is_none());
}

#[test]
fn long_run_shows_packets_around_the_worst_with_a_note() {
    let ledger = ledger(60_000);
    let worst = Worst { at_ns: 30_000_000_000, ..Worst::default() };
    let mut row = ReportRow { worst: vec![worst], ..ReportRow::named("rtp://here") };
    let note = ledger.add_to(&mut row, 0).unwrap();
    snapshot!(note);
    assert!(row.points[0].values.iter().any(|(at, _)| *at == 30_000_000_000));
    assert_eq!(row.measured.unwrap().count, 30_000, "figures are of all");
}

#[test]
fn invalid_packet_log_is_refused() {
    let refused = RunPackets::of("a,b\n1,2\n".as_bytes()).unwrap_err().to_string();
    snapshot!(refused);
    assert!(RunPackets::read(std::path::Path::new("/nowhere/at/all.csv")).is_err());
}
