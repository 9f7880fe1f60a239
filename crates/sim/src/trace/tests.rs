use tautline_trial::snapshot;

use super::*;
use crate::recipe::{spikes, write_delays};

fn micros(text: &str) -> Vec<(i64, Option<i64>)> {
    let trace = Trace::read(text).unwrap();
    let micros = |span: Span| span.as_nanos() / 1000;
    trace.packets().iter().map(|packet| (micros(packet.sent), packet.delay.map(micros))).collect()
}

#[test]
fn delays_at_an_interval_are_read() {
    let text = "# a record\n\ndelay_us every 2.5ms\n250\n-\n99.9\n";
    assert_eq!(micros(text), [(0, Some(250)), (2500, None), (5000, Some(99))]);
}

#[test]
fn a_file_of_a_spreadsheet_is_read() {
    let text = "\u{feff}delay_us every 1ms\r\n250\r\n300\r\n";
    assert_eq!(micros(text), [(0, Some(250)), (1000, Some(300))]);
}

#[test]
fn instants_are_read_and_need_not_begin_at_zero() {
    let text = "sent_s,arrived_s\n7.0,7.0005\n7.001,\n7.002,7.0121\n";
    assert_eq!(micros(text), [(0, Some(500)), (1000, None), (2000, Some(10_100))]);
}

#[test]
fn receivers_packet_log_shows_losses_as_holes() {
    // Reordered packets across the timestamp wrap, with another stream in between.
    let text = "rtp_timestamp,capture,sender_taken,packed,handed,arrival,read,stream,late\n\
                4294967248,0,0,0,1000000,1200000,0,0,0\n\
                7,0,0,0,5000000,9200000,0,1,0\n\
                96,0,0,0,4000000,4300000,0,0,0\n\
                0,0,0,0,2000000,2250000,0,0,0\n\
                144,0,0,0,,5250000,0,0,0\n";
    assert_eq!(micros(text), [(0, Some(200)), (1000, Some(250)), (2000, None), (3000, Some(300))]);
}

#[test]
fn losses_are_in_order_although_the_clock_mapping_moved_back() {
    let text = "rtp_timestamp,handed,arrival\n0,9000000,9100000\n48,2000000,9200000\n\
                144,5000000,9400000\n192,10000000,11000000\n";
    let sent = micros(text).into_iter().map(|(sent, _)| sent).collect::<Vec<_>>();
    assert_eq!(sent, [0, 0, 0, 0, 1000]);
}

#[test]
fn packet_log_with_any_timestamps_is_read() {
    let text = format!(
        "rtp_timestamp,handed,arrival\n{},0,1\n{},1000,2000\n9,2000,3000\n",
        i64::MAX,
        i64::MIN
    );
    let trace = Trace::read(&text).unwrap();
    let arrived = trace.packets().iter().filter(|packet| packet.delay.is_some()).count();
    // As 32-bit numbers they are -1, 0 and 9: eight are missing.
    assert_eq!((trace.packets().len(), arrived), (11, 3));
}

#[test]
fn short_packet_log_reports_no_millions_of_losses() {
    let mut text = "rtp_timestamp,handed,arrival\n0,0,1\n".to_owned();
    for packet in 0..1000 {
        text += &format!("{},{packet}000,{packet}500\n", packet * 10_001 + 1);
    }
    let trace = Trace::read(&text).unwrap();
    assert!(trace.packets().len() <= 10_000 + 17 * 1001, "{}", trace.packets().len());
    assert_eq!(trace.packets().iter().filter(|packet| packet.delay.is_some()).count(), 1001);
}

#[test]
fn invalid_trace_line_is_refused_with_a_hint() {
    for text in [
        "",
        "# x\ndelay,lost\n",
        "delay_us every 0ms\n1\n",
        "delay_us every 1ms\n5\n\nx\n",
        "delay_us every 1ms\n-5\n5\n",
        "sent_s,arrived_s\n1.0\n",
        "sent_s,arrived_s\n1.0,0.9\n",
        "sent_s,arrived_s\n1.0,1.1\n0.9,1.2\n",
        "delay_us every 1ms\n-\n7\n",
        "rtp_timestamp,handed,arrival\nx,1,2\n",
    ] {
        let error = Trace::read(text).unwrap_err().to_string();
        snapshot!(format!("{text:?}"), error);
    }
}

#[test]
fn a_record_begins_again_or_ends_with_its_least_delay() {
    let trace = Trace::read("delay_us every 1ms\n300\n-\n200\n").unwrap();
    let at = |trace: &Trace, millis| trace.at(Span::from_millis(millis)).map(Span::as_nanos);
    let again: Vec<_> = (0..6).map(|millis| at(&trace, millis)).collect();
    assert_eq!(again, [Some(300_000), None, Some(200_000)].repeat(2));
    let once = trace.once();
    assert_eq!((at(&once, 1), at(&once, 3), at(&once, 4)), (None, Some(200_000), Some(200_000)));
}

#[test]
fn a_record_that_is_written_reads_back() {
    let trace = Trace::read("delay_us every 1ms\n300.5\n-\n200\n").unwrap();
    let text = write_delays(&trace, Span::from_millis(1), "why\n\nand how");
    assert!(text.starts_with("# why\n#\n# and how\ndelay_us every 1ms\n300.5\n"), "{text}");
    assert_eq!(Trace::read(&text), Ok(trace));
}

#[test]
fn the_record_of_a_cable_in_the_tree_is_of_microseconds() {
    let trace = Trace::read(include_str!("../../traces/veth.csv")).unwrap();
    let mut delays: Vec<Span> = trace.packets().iter().filter_map(|packet| packet.delay).collect();
    delays.sort_unstable();
    assert_eq!((trace.packets().len(), delays.len()), (10_001, 9_994));
    assert!(delays[5_000] < Span::from_micros(10) && delays[9_993] < Span::from_micros(100));
}

#[test]
fn recorded_spikes_equal_their_recipe() {
    let text = include_str!("../../traces/spikes.csv");
    assert!(text == spikes(1), "crates/sim/traces/spikes.csv is not what its first lines say");
    let trace = Trace::read(text).unwrap();
    let highest = |from: usize, to: usize| {
        trace.packets()[from..to].iter().filter_map(|packet| packet.delay).max().unwrap()
    };
    assert_eq!(trace.length(), Span::from_secs(60));
    assert_eq!(highest(0, 28_100), Span::from_micros(6_150));
    assert!(highest(28_100, 60_000) < Span::from_millis(2));
}
