//! Requested bytes per extra stream in a receiver.
#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up is over")]

use tautline_dsp::format::SampleFormat;
use tautline_engine::plan::{RecvPlan, StreamPlan};
use tautline_engine::receive_engine::RecvEngine;
use tautline_io::udp::UdpOptions;
use tautline_io::udp::pair::{OpenedStream, open_stream};
use tautline_proto::device::Settings;
use tautline_proto::jitter_buffer::JitterBufferConfig;
use tautline_proto::stream::{StreamFormat, packet_frames};
use tautline_proto::time::{Frames, Span};
use tautline_proto::units::{Channels, Rate};
use tautline_proto::wire::rtp::RtpUnpack;
use tautline_trial::{CountingAllocator, live_bytes};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const DEVICE: Settings = Settings {
    rate: Rate::HZ_48000,
    channels: Channels::STEREO,
    period: Frames::new(240),
    periods: 2,
};

fn stream(ptime: Span) -> StreamPlan {
    let options = UdpOptions::receiver("127.0.0.1:0".parse().unwrap());
    let opened = open_stream(&options, None).unwrap();
    let local = opened.addresses();
    let OpenedStream { link, control, .. } = opened;
    let sample = SampleFormat::L16;
    StreamPlan::new(
        local.0.to_string(),
        JitterBufferConfig::new(
            RtpUnpack::usual(),
            StreamFormat {
                codec: None,
                rate: Rate::HZ_48000,
                channels: Channels::STEREO,
                sample,
                packet: packet_frames(Rate::HZ_48000, ptime).unwrap(),
                payload_type: StreamFormat::default_payload_type(sample),
            },
            Span::from_millis(20),
        ),
        link,
        control,
    )
}

fn held_for(streams: usize, ptime: Span) -> i64 {
    let before = live_bytes();
    let engine =
        RecvEngine::new(RecvPlan::new((0..streams).map(|_| stream(ptime)).collect(), DEVICE))
            .unwrap();
    let held = live_bytes() - before;
    drop(engine);
    held
}

#[test]
fn extra_stream_at_20_ms_needs_under_1500_kilobytes() {
    for ptime in [Span::from_millis(1), Span::from_millis(5)] {
        held_for(1, ptime);
        let each = (held_for(12, ptime) - held_for(4, ptime)) / 8;
        // Includes per stream:
        // - three pending runs of sound at most, 1.2 kB each;
        // - codec formats and counters, 48 bytes; displayed bit rate, 80;
        // - late packets in reports, 112; latency range, 24;
        // - clock steps and evidence against the format, 1240, mostly in its status;
        // - presentation tolerance, 32; path measurements, 776.
        //
        // The measurement keeps another 0.13 MB of packets during playback.
        assert!(each <= 1_116_312, "{each} bytes with packets of {ptime}");
    }
}
