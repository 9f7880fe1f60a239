//! Announced age of a packet's first frame.

use proptest::prelude::*;
use tautline_dsp::format::SampleFormat;
use tautline_proto::packet::StreamId;
use tautline_proto::packetizer::{BlockTimes, Identity, Packetizer, PacketizerConfig};
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::{Channels, Rate};
use tautline_proto::wire::rtp::PACK;

fn format(rate: Rate, packet: i64) -> StreamFormat {
    StreamFormat {
        codec: None,
        rate,
        channels: Channels::MONO,
        sample: SampleFormat::L16,
        packet: Frames::new(packet),
        payload_type: 96,
    }
}

fn oldest(format: StreamFormat, period: i64) -> Span {
    let mut sender = Packetizer::new(PacketizerConfig {
        wire: PACK,
        format,
        identity: Identity { stream: StreamId(1), sequence: 0, timestamp: 0 },
        period: Frames::new(period),
        stamps: false,
        wall_offset: Span::ZERO,
        redundancy: tautline_proto::redundancy::Layout::NONE,
        presented_after: Span::ZERO,
    });
    let block = vec![0.0; period as usize];
    let mut oldest = Span::ZERO;
    // Phases repeat after this many periods.
    for index in 0..=format.packet.count() {
        let at = |frame| LocalTime::ZERO + format.rate.span_of(Frames::new(frame));
        let (capture, now) = (at(index * period), at((index + 1) * period));
        sender.push(&block, BlockTimes { capture, taken: now, now }, |packet| {
            let instants = packet.instants;
            oldest = oldest.max(instants.packed - instants.capture);
            assert!(instants.packed <= instants.due + Span::from_nanos(3), "due before complete");
        });
    }
    oldest
}

proptest! {
    #[test]
    fn the_packing_age_is_the_oldest_first_frame_there_is(
        packet in 1_i64..200,
        period in 1_i64..200,
        hertz in prop::sample::select(&Rate::SUPPORTED[..]),
    ) {
        let format = format(Rate::new(hertz).unwrap(), packet);
        let (said, seen) = (format.packing_age(Frames::new(period)), oldest(format, period));
        // Times are rounded separately.
        prop_assert!((said - seen).abs() <= Span::from_nanos(3), "said {said}, seen {seen}");
    }
}

#[test]
fn packing_age_is_the_longer_if_period_and_packet_divide() {
    let rate = Rate::HZ_48000;
    let age = |packet, period| format(rate, packet).packing_age(Frames::new(period));
    assert_eq!(age(48, 240), Span::from_millis(5));
    assert_eq!(age(240, 48), Span::from_millis(5));
    assert_eq!(age(48, 48), Span::from_millis(1));
}
