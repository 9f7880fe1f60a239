use tautline_dsp::format::SampleFormat;

use super::*;
use crate::redundancy::ETHERNET;
use crate::send_policy::Regulator;
use crate::time::{Frames, LocalTime};
use crate::units::{Channels, Rate};

fn format(channels: u32, packet: i64) -> StreamFormat {
    StreamFormat {
        codec: None,
        rate: Rate::HZ_48000,
        channels: Channels::new(channels).expect("within the bounds"),
        sample: SampleFormat::L24,
        packet: Frames::new(packet),
        payload_type: 97,
    }
}

fn within(millis: i64) -> Bounds {
    Bounds {
        wire: crate::wire::rtp::PACK,
        budget: Span::from_millis(millis),
        stamps: true,
        max_bytes: ETHERNET,
        max_asked: 24,
    }
}

#[test]
fn redundancy_request_parses_back() {
    for text in ["off", "red:1", "red:24", "fec:3", "auto"] {
        assert_eq!(
            text.parse::<Redundancy>().map(|requested| requested.to_string()),
            Ok(text.to_owned())
        );
    }
    for text in ["", "red", "red:", "red:0", "fec:25", "fec:x", "on", "AUTO", "red:-1"] {
        let reported = text.parse::<Redundancy>().map_err(|error| error.to_string());
        assert!(reported.is_err_and(|reported| reported.contains("write off")), "{text}");
    }
}

#[test]
fn the_window_is_the_packets_that_leave_within_the_budget() {
    assert_eq!(within(10).window(&format(2, 48)), 10);
    assert_eq!(within(10).window(&format(2, 120)), 4);
    assert_eq!(within(1).window(&format(2, 120)), 0);
    assert_eq!(within(100).window(&format(2, 6)), super::MAX_WINDOW);
}

#[test]
fn as_many_symbols_fit_as_an_ethernet_frame_has_room_for() {
    for (channels, packet) in [(1, 48), (2, 48), (2, 96), (8, 12)] {
        let (bounds, format) = (within(10), format(channels, packet));
        let maximum = bounds.max_symbols(&format);
        // Header, extension header, stamps, and a header per 255 bytes of repair data.
        let bytes = |symbols: usize| {
            let repair_data = 1 + symbols * (3 + format.payload_bytes());
            let extension: usize = 10 + 14 + repair_data + 2 * repair_data.div_ceil(255);
            12 + 4 + extension.next_multiple_of(4) + format.payload_bytes()
        };
        assert!(
            maximum >= 1 && bytes(maximum) <= ETHERNET,
            "{maximum} of {channels} times {packet}"
        );
        assert!(bytes(maximum + 1) > ETHERNET, "{maximum} of {channels} times {packet}");
    }
}

#[test]
fn a_budget_that_shrinks_is_kept_at_once() {
    let mut regulator = Regulator::new(Redundancy::Copies(2), within(10));
    let format = format(1, 48);
    regulator.poll(LocalTime::ZERO, &format, Losses::UNKNOWN);
    regulator.keep_to(within(10));
    assert_eq!(regulator.poll(LocalTime::ZERO, &format, Losses::UNKNOWN), None);
    regulator.keep_to(within(4));
    let less = regulator.poll(LocalTime::ZERO, &format, Losses::UNKNOWN);
    assert_eq!(less.map(|layout| layout.window()), Some(4));
}

#[test]
fn redundancy_has_its_cost_in_bytes() {
    let (bounds, format) = (within(10), format(1, 48));
    let cost = |layout| bounds.cost(&format, &layout);
    assert_eq!(cost(Layout::NONE), 0);
    // Two copies of 144 bytes with 3 bytes each, 1 byte of repair data and 2 headers; 26 bytes of
    // stamps with two headers; padding.
    assert_eq!(cost(Layout::copies(2, 10)), (4 + 26 + 295 + 4_usize).next_multiple_of(4) - 28);
    assert_eq!(cost(Layout::repeated(10)), 12 + 28 + 144);
}

#[test]
fn too_long_packet_is_repeated_whole() {
    let long = format(8, 48);
    let layout = Redundancy::Code(1).layout(&long, &within(10), Losses::UNKNOWN);
    assert_eq!((layout.repeat(), layout.reaches().len()), (Some(10), 0));
    let quiet = Redundancy::Auto.layout(&long, &within(10), Losses::NONE);
    assert_eq!((quiet.repeat(), quiet.window()), (None, 0));
    let late = Redundancy::Code(1).layout(&long, &within(0), Losses::UNKNOWN);
    assert_eq!(late.window(), 0, "no budget holds no packet");
}

#[test]
fn more_is_carried_at_once_and_less_after_ten_seconds() {
    let mut regulator = Regulator::new(Redundancy::Auto, within(10));
    let (format, at) = (format(1, 48), |seconds| LocalTime::ZERO + Span::from_secs(seconds));
    let (few, many) = (Losses::UNKNOWN, Losses { share: 0.2, burst: 3.0 });
    let first = regulator.poll(at(0), &format, few).expect("something to begin with");
    assert_eq!(first.reaches().len(), 1);
    assert_eq!(regulator.poll(at(1), &format, few), None);
    let more = regulator.poll(at(2), &format, many).expect("more immediately");
    assert!(more.reaches().len() > 1);
    for second in 3..13 {
        assert_eq!(regulator.poll(at(second), &format, few), None, "after {second} s");
    }
    assert_eq!(regulator.poll(at(14), &format, few), Some(first));
}

#[test]
fn another_packet_time_is_met_at_once() {
    let mut regulator = Regulator::new(Redundancy::Copies(2), within(10));
    let now = LocalTime::ZERO;
    let long = regulator.poll(now, &format(1, 96), Losses::NONE).expect("something to begin with");
    let short = regulator.poll(now, &format(1, 48), Losses::NONE).expect("another window");
    assert_eq!((long.window(), short.window()), (5, 10));
    regulator.set(Redundancy::Off, within(10));
    assert_eq!(
        regulator.poll(now, &format(1, 48), Losses::NONE).map(|none| none.window()),
        Some(0)
    );
}
