//! A receiver with arbitrary input does not panic, wrap, allocate, or output invalid sound.

mod operations;

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use tautline_dsp::format::SampleFormat;
use tautline_proto::jitter_buffer::JitterBufferConfig;
use tautline_proto::latency::LatencyRule;
use tautline_proto::packet::Codings;
use tautline_proto::receive_policy::receiver_with_room;
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{Frames, Span};
use tautline_proto::units::{Channels, Rate};
use tautline_proto::wire::rtp::RtpUnpack;
use tautline_trial::{allocator_calls, live_bytes};

use crate::road::toy;

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        // Previous failures run first.
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(
            "tests/receiver_bounds.proptest-regressions",
        ))),
        ..ProptestConfig::default()
    })]
    #[test]
    fn receiver_keeps_its_bounds_for_any_input(
        bytes in prop::collection::vec(any::<u8>(), 0..3000),
    ) {
        operations::play(&bytes, allocator_calls);
    }
}

#[test]
#[ignore = "soak: ten million operations"]
fn ten_million_operations_in_any_order_break_no_bound() {
    let (mut operations, mut seed) = (0, 0_u64);
    while operations < 10_000_000 {
        seed += 1;
        let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let bytes: Vec<u8> = (0..8192)
            .map(|_| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                (random >> 32) as u8
            })
            .collect();
        // Printed first, so the last line is the failing case.
        eprint!("\rseed {seed}, {operations} operations so far");
        operations += operations::play(&bytes, allocator_calls);
    }
    eprintln!();
}

#[test]
fn earlier_bound_violations_stay_fixed() {
    let once = include_bytes!("../../../../../fuzz/seeds/receiver/an-arrival-292-years-ago");
    operations::play(once, allocator_calls);
}

#[test]
fn the_receiver_of_a_call_takes_a_bounded_number_of_bytes() {
    let format = StreamFormat {
        rate: Rate::HZ_48000,
        channels: Channels::STEREO,
        sample: SampleFormat::L24,
        codec: None,
        packet: Frames::new(120),
        payload_type: 97,
    };
    let wire = RtpUnpack::taking(Codings::ByConvention);
    let mut config = JitterBufferConfig::new(wire, format, Span::from_millis(10));
    config.decoders = Some(toy::decoder);
    let before = live_bytes();
    let receiver = receiver_with_room(config, LatencyRule::AUTO);
    let taken = live_bytes() - before;
    assert!(receiver.longest_link_offset() >= Span::from_millis(400));
    assert!(taken <= 2_400_000, "{taken} bytes");
}
