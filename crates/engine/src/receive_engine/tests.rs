//! Tests of many streams without a device.

use std::net::{SocketAddr, UdpSocket};
use std::num::NonZeroUsize;

use tautline_dsp::format::SampleFormat;
use tautline_io::thread::Scheduler;
use tautline_io::udp::UdpOptions;
use tautline_io::udp::pair::{OpenedStream, open_stream};
use tautline_proto::endpoint::Author;
use tautline_proto::jitter_buffer::JitterBufferConfig;
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{Frames, Span};
use tautline_proto::units::Rate;
use tautline_proto::wire::rtcp::RtcpReport;
use tautline_proto::wire::rtp::RtpUnpack;

use super::*;
use crate::plan::StreamPlan;

const OPTIONS: RunOptions = RunOptions {
    scheduler: Scheduler::Other,
    duration: None,
    stall_monitor: false,
    lock_memory: false,
    words: |note| Some(format!("{note:?}")),
};

fn stream() -> (SocketAddr, StreamPlan) {
    let options = UdpOptions::receiver("127.0.0.1:0".parse().unwrap());
    let opened = open_stream(&options, None).unwrap();
    let local = opened.addresses();
    let OpenedStream { link, control, .. } = opened;
    let plan = StreamPlan::new(
        local.0.to_string(),
        JitterBufferConfig::new(
            RtpUnpack::usual(),
            StreamFormat {
                codec: None,
                rate: Rate::HZ_48000,
                channels: Channels::STEREO,
                sample: SampleFormat::L16,
                packet: Frames::new(48),
                payload_type: StreamFormat::default_payload_type(SampleFormat::L16),
            },
            Span::from_millis(5),
        ),
        link,
        control,
    );
    (local.1, plan)
}

fn received(streams: Vec<StreamPlan>) -> ReceivedStreams {
    let device = Settings {
        rate: Rate::HZ_48000,
        channels: Channels::STEREO,
        period: Frames::new(48),
        periods: 2,
    };
    let engine = RecvEngine::new(RecvPlan::new(streams, device));
    engine.unwrap().begin(RunWatch::begin(&OPTIONS), &device).0
}

#[test]
fn report_on_a_shared_link_is_handled_once() {
    let (reports_to, plan) = stream();
    let mut received = received(vec![StreamPlan { senders: NonZeroUsize::new(4), ..plan }]);
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut report = [0; 200];
    let written = RtcpReport::new(0x5e4d).write(&mut report).unwrap();
    peer.send_to(&report[..written], reports_to).unwrap();
    assert_eq!(received.converse_until(now() + Span::from_secs(1)), 0, "the author is unknown");
    received.welcome(Author { ssrc: 0x5e4d, host: peer.local_addr().unwrap().ip().into() });
    for round in 0..3 {
        peer.send_to(&report[..written], reports_to).unwrap();
        assert_eq!(received.converse_until(now() + Span::from_secs(10)), 1, "report {round}");
        assert_eq!(received.converse_until(now()), 0, "report {round} again");
    }
}

#[test]
fn report_is_handled_by_its_stream_only() {
    let (reports_to, streams): (Vec<_>, Vec<_>) = (0..50).map(|_| stream()).unzip();
    let mut received = received(streams);
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    for reported in [7, 41] {
        peer.send_to(b"no report, but heard", reports_to[reported]).unwrap();
        assert_eq!(received.converse_until(now() + Span::from_secs(10)), 1, "of 50");
    }
    assert_eq!(received.converse_until(now()), 0, "no report was sent");
}

#[test]
fn station_without_packets_is_answered_at_its_port() {
    let (reports_to, plan) = stream();
    let plan = StreamPlan { announces: true, senders: NonZeroUsize::new(4), ..plan };
    let mut received = received(vec![plan]);
    let stations = [0x5e4d, 0x5e4e].map(|ssrc| {
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        peer.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
        let mut report = [0; 200];
        let written = RtcpReport::new(ssrc).write(&mut report).unwrap();
        peer.send_to(&report[..written], reports_to).unwrap();
        assert_eq!(received.converse_until(now() + Span::from_secs(10)), 1);
        peer
    });
    received.converse_until(now() + Span::from_secs(10));
    let mut answer = [0; 1500];
    stations.iter().for_each(|station| assert!(station.recv(&mut answer).unwrap() > 8));
}
