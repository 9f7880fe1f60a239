//! Cost of a packet of 48 stereo frames, without I/O: 1 ms at 48 kHz.
//!
//! Every case is the steady state of a running stream: packets in order, each pulled one latency
//! later. Each packet's counters are written into one datagram in place, so its bytes are in the
//! cache, as after `recvmmsg`.

use divan::{Bencher, black_box};
use tautline_dsp::format::{self, SampleFormat};
use tautline_dsp::resample::Quality;
use tautline_proto::clock::ClockMapping;
use tautline_proto::endpoint::Author;
use tautline_proto::jitter_buffer::{JitterBuffer, JitterBufferConfig, PullTimes, Received};
use tautline_proto::packet::StreamId;
use tautline_proto::packetizer::{BlockTimes, Identity, Packetizer, PacketizerConfig};
use tautline_proto::playout::Playout;
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{Frames, LocalTime, MediaTime, Span};
use tautline_proto::units::{Channels, Rate};
use tautline_proto::wire::rtp::{NtpTime, PACK, RtpUnpack};

const FRAMES: i64 = 48;
const SAMPLES: usize = 2 * FRAMES as usize;
const PACKET: Span = Span::from_millis(1);
const LATENCY: Span = Span::from_millis(5);
/// Sender's wall clock minus its local clock.
const WALL: Span = Span::from_secs(1_000_000_000);
const SSRC: u32 = 0x7461_7574;

fn main() {
    // As in every program with a sender or a receiver.
    tautline_dsp::vector::prepare();
    divan::main();
}

const fn stream(sample: SampleFormat) -> StreamFormat {
    StreamFormat {
        codec: None,
        rate: Rate::HZ_48000,
        channels: Channels::STEREO,
        sample,
        packet: Frames::new(FRAMES),
        payload_type: StreamFormat::default_payload_type(sample),
    }
}

fn block() -> Vec<f32> {
    (0..SAMPLES).map(|index| (index as f32 * 0.37).sin() * 0.5).collect()
}

fn sender(sample: SampleFormat, stamps: bool) -> Packetizer {
    Packetizer::new(PacketizerConfig {
        wire: PACK,
        format: stream(sample),
        identity: Identity {
            stream: StreamId::from(SSRC),
            sequence: 65_000,
            timestamp: u32::MAX - 5_000,
        },
        period: Frames::new(FRAMES),
        stamps,
        wall_offset: WALL,
        redundancy: tautline_proto::redundancy::Layout::NONE,
        presented_after: Span::ZERO,
    })
}

struct Packets {
    datagram: Vec<u8>,
    stamps: bool,
    sequence: u16,
    timestamp: u32,
    capture: LocalTime,
}

impl Packets {
    fn new(sample: SampleFormat, stamps: bool) -> Self {
        let mut datagram = Vec::new();
        let capture = LocalTime::ZERO + Span::from_secs(1);
        let times = BlockTimes { capture, taken: capture + PACKET, now: capture + PACKET };
        sender(sample, stamps).push(&block(), times, |packet| {
            datagram.extend_from_slice(packet.datagram);
        });
        Self { datagram, stamps, sequence: 65_000, timestamp: u32::MAX - 5_000, capture }
    }

    fn next(&mut self) -> (&[u8], LocalTime) {
        self.sequence = self.sequence.wrapping_add(1);
        self.timestamp = self.timestamp.wrapping_add(FRAMES as u32);
        self.capture += PACKET;
        self.datagram[2..4].copy_from_slice(&self.sequence.to_be_bytes());
        self.datagram[4..8].copy_from_slice(&self.timestamp.to_be_bytes());
        if self.stamps {
            let wall = NtpTime::from_unix_nanos((self.capture + WALL).as_nanos());
            self.datagram[17..25].copy_from_slice(&wall.to_bits().to_be_bytes());
        }
        (&self.datagram, self.capture)
    }
}

fn receiver(sample: SampleFormat, mapped: bool) -> JitterBuffer {
    receiver_of(sample, mapped, Quality::default())
}

fn receiver_of(sample: SampleFormat, mapped: bool, resampler: Quality) -> JitterBuffer {
    let mut receiver = JitterBuffer::new(JitterBufferConfig {
        resampler,
        ..JitterBufferConfig::new(RtpUnpack::usual(), stream(sample), LATENCY)
    });
    if mapped {
        receiver.set_clock(Author::of(SSRC), ClockMapping::known(WALL, Span::from_micros(10)));
    }
    receiver
}

/// `JitterBuffer::handle` of one packet and `JitterBuffer::pull` of its frames, ledger included.
#[divan::bench(args = [(SampleFormat::L16, false), (SampleFormat::L16, true),
    (SampleFormat::L24, false), (SampleFormat::L24, true), (SampleFormat::F32, true)])]
fn handle_and_pull(bencher: Bencher<'_, '_>, (sample, stamps): (SampleFormat, bool)) {
    let mut packets = Packets::new(sample, stamps);
    let mut receiver = receiver(sample, stamps);
    let mut out = [0.0; SAMPLES];
    let mut checksum = 0_u64;
    bencher.bench_local(|| {
        let (datagram, capture) = packets.next();
        let now = capture + PACKET + Span::from_micros(100);
        let received = receiver.handle(black_box(datagram), now, now);
        assert!(matches!(received, Received::Placed(_)), "{received:?}");
        let times = PullTimes {
            now,
            meets: capture + LATENCY - PACKET,
            skipped: Frames::ZERO,
            clock: None,
        };
        let pulled = receiver.pull(black_box(&mut out), times, |passage| {
            checksum += black_box(passage).media.as_frames().unsigned_abs() & 1;
        });
        black_box(pulled);
    });
    assert_eq!(receiver.counters().lost, 0);
    assert!(receiver.counters().resyncs <= 1, "{:?}", receiver.counters());
}

/// One second of a stream whose card is 200 ppm fast and that loses one packet in twenty: servo,
/// resampler and concealment for 950 packets.
#[divan::bench(args = Quality::ALL, sample_count = 20)]
fn second_of_drift_and_loss(bencher: Bencher<'_, '_>, quality: Quality) {
    let mut packets = Packets::new(SampleFormat::L24, true);
    let mut receiver = receiver_of(SampleFormat::L24, true, quality);
    let mut out = [0.0; SAMPLES];
    let mut meets = LocalTime::ZERO + Span::from_secs(1) + LATENCY - PACKET;
    let mut number = 0_u64;
    let mut second = || {
        for _ in 0..1000 {
            let (datagram, capture) = packets.next();
            let now = capture + PACKET + Span::from_micros(100);
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            if number >> 32 > u64::from(u32::MAX / 20) {
                receiver.handle(black_box(datagram), now, now);
            }
            // The card plays a block in slightly less than 1 ms, so sometimes two.
            while meets <= capture + LATENCY - PACKET {
                let times = PullTimes { now, meets, skipped: Frames::ZERO, clock: None };
                black_box(receiver.pull(black_box(&mut out), times, |passage| {
                    black_box(passage);
                }));
                meets += PACKET - Span::from_nanos(200);
            }
        }
    };
    (0..10).for_each(|_| second());
    bencher.bench_local(second);
    let counters = receiver.counters();
    assert!(counters.resampled_frames > 100_000 && counters.lost > 100, "{counters:?}");
    assert_eq!(counters.resyncs, 0);
}

/// Playout buffer only: sample conversion in, copy out.
#[divan::bench(args = [SampleFormat::L16, SampleFormat::L24, SampleFormat::F32])]
fn place_and_pull(bencher: Bencher<'_, '_>, sample: SampleFormat) {
    let format = stream(sample);
    let payload = vec![0x11; format.payload_bytes()];
    let mut playout = Playout::new(Rate::HZ_48000, Channels::STEREO, Frames::new(12_960));
    let mut out = [0.0; SAMPLES];
    let mut media = MediaTime::ZERO;
    playout.move_to(media);
    bencher.bench_local(|| {
        let placed = playout.place(media, sample, black_box(&payload));
        media += Frames::new(FRAMES);
        (placed, playout.pull(black_box(&mut out)))
    });
}

/// `Packetizer::push` of a block that completes one packet.
#[divan::bench(args = [(SampleFormat::L16, false), (SampleFormat::L16, true),
    (SampleFormat::L24, true), (SampleFormat::F32, true)])]
fn push(bencher: Bencher<'_, '_>, (sample, stamps): (SampleFormat, bool)) {
    let mut sender = sender(sample, stamps);
    let block = block();
    let mut capture = LocalTime::ZERO;
    bencher.bench_local(|| {
        capture += PACKET;
        let now = capture + PACKET;
        let times = BlockTimes { capture, taken: now, now };
        sender.push(black_box(&block), times, |packet| {
            black_box(&packet);
        });
    });
}

#[divan::bench(args = [SampleFormat::L16, SampleFormat::L24, SampleFormat::F32])]
fn encode(bencher: Bencher<'_, '_>, sample: SampleFormat) {
    let (block, mut bytes) = (block(), [0; 4 * SAMPLES]);
    bencher.bench_local(|| {
        let bytes = &mut bytes[..SAMPLES * sample.bytes()];
        format::encode(sample, black_box(&block), black_box(bytes));
    });
}

#[divan::bench(args = [SampleFormat::L16, SampleFormat::L24, SampleFormat::F32])]
fn decode(bencher: Bencher<'_, '_>, sample: SampleFormat) {
    let (bytes, mut out) = ([0x11; 4 * SAMPLES], [0.0; SAMPLES]);
    bencher.bench_local(|| {
        let bytes = &bytes[..SAMPLES * sample.bytes()];
        format::decode(sample, black_box(bytes), black_box(&mut out));
    });
}
