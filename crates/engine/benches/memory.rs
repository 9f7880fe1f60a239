//! Memory of a receiver over a simulated hour: 3.6 million 1 ms packets through jitter buffer and
//! statistics.
#![expect(clippy::print_stdout, reason = "a bench prints what it measured")]
#![expect(clippy::unwrap_used, reason = "a bench that cannot set itself up is over")]

use tautline_dsp::format::SampleFormat;
use tautline_proto::clock::ClockMapping;
use tautline_proto::endpoint::Author;
use tautline_proto::jitter_buffer::{JitterBuffer, JitterBufferConfig, PullTimes};
use tautline_proto::ledger::{PacketTrace, Stage};
use tautline_proto::packet::StreamId;
use tautline_proto::packetizer::{BlockTimes, Identity, Packetizer, PacketizerConfig};
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::{Channels, Rate};
use tautline_proto::wire::rtp::{PACK, RtpUnpack};
use tautline_report::distribution::Distribution;

const HOUR: usize = 3_600_000;
const WARM_UP: usize = 60_000;
const PERIOD: Span = Span::from_millis(1);
const LATENCY: Span = Span::from_millis(5);
const WALL: Span = Span::from_secs(1_000_000_000);
const SSRC: u32 = 1;

fn main() {
    let mut run = Run::new();
    (0..WARM_UP).for_each(|_| run.period());
    let before = resident();
    (0..HOUR).for_each(|_| run.period());
    let after = resident();
    let counted = run.receiver.counters();
    assert_eq!((counted.lost, counted.received), (0, (HOUR + WARM_UP) as u64), "{counted:?}");
    println!("memory: {before} kB before, {after} kB after {HOUR} packets");
}

struct Run {
    sender: Packetizer,
    receiver: JitterBuffer,
    stages: [Distribution; Stage::ALL.len()],
    capture: LocalTime,
    /// Spreads the distributions as a real network does.
    wander: i64,
}

impl Run {
    fn new() -> Self {
        let format = StreamFormat {
            codec: None,
            rate: Rate::HZ_48000,
            channels: Channels::STEREO,
            sample: SampleFormat::L16,
            packet: Frames::new(48),
            payload_type: 96,
        };
        let mut receiver =
            JitterBuffer::new(JitterBufferConfig::new(RtpUnpack::usual(), format, LATENCY));
        receiver.set_clock(Author::of(SSRC), ClockMapping::known(WALL, Span::from_micros(10)));
        let identity = Identity { stream: StreamId::from(SSRC), sequence: 0, timestamp: 0 };
        Self {
            sender: Packetizer::new(PacketizerConfig {
                wire: PACK,
                format,
                identity,
                period: format.packet,
                stamps: true,
                wall_offset: WALL,
                redundancy: tautline_proto::redundancy::Layout::NONE,
                presented_after: Span::ZERO,
            }),
            receiver,
            stages: Default::default(),
            capture: LocalTime::ZERO + Span::from_secs(1),
            wander: 1,
        }
    }

    fn period(&mut self) {
        let capture = self.capture;
        self.capture += PERIOD;
        self.wander = self.wander.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let taken = capture + PERIOD;
        let arrival = taken + Span::from_nanos((self.wander >> 33).rem_euclid(900_000));
        let times = BlockTimes { capture, taken, now: taken };
        let Self { sender, receiver, stages, .. } = self;
        sender.push(&[0.25; 96], times, |packet| {
            receiver.handle(packet.datagram, arrival, arrival);
        });
        let meets = capture + LATENCY - PERIOD;
        let times = PullTimes { now: taken + PERIOD, meets, skipped: Frames::ZERO, clock: None };
        receiver.pull(&mut [0.0; 96], times, |passage: PacketTrace| {
            for (stage, distribution) in Stage::ALL.into_iter().zip(&mut *stages) {
                passage.stage(stage).into_iter().for_each(|span| distribution.record(span));
            }
        });
    }
}

/// `VmRSS` of proc_pid_status(5), in kB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse().unwrap()
}
