//! Arbitrary operations on a receiver, for the property test and the fuzz target `receiver`.

#[path = "bytes.rs"]
pub(crate) mod bytes;

use tautline_dsp::format::SampleFormat;
use tautline_dsp::resample::Quality;
use tautline_proto::clock::{ClockEstimator, ClockMapping, Exchange};
use tautline_proto::endpoint::Author;
use tautline_proto::jitter_buffer::{JitterBuffer, JitterBufferConfig, PullTimes};
use tautline_proto::packet::Codings;
use tautline_proto::packet::Instants;
use tautline_proto::placement::Due;
use tautline_proto::source::Source;
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{Frames, LocalTime, MediaPoint, Span, WallTime};
use tautline_proto::units::{Channels, Rate};
use tautline_proto::wire::ntp::NtpTime;
use tautline_proto::wire::rtp::{Header, RtpUnpack, SenderStamps};

use bytes::Bytes;

struct Run {
    receiver: JitterBuffer,
    clock: ClockEstimator,
    config: JitterBufferConfig,
    now: LocalTime,
    header: Header,
    datagram: Vec<u8>,
    out: Vec<f32>,
    allocations: fn() -> u64,
}

const SSRCS: [u32; 3] = [1, 0x8000_0000, u32::MAX];
const FORMATS: [SampleFormat; 3] = [SampleFormat::L16, SampleFormat::L24, SampleFormat::F32];
/// Exceeds all playout buffers here.
const MAX_FRAMES: usize = 1 << 17;

/// Returns the number of operations. Panics if a bound is broken. `allocations` counts this
/// thread's.
pub(crate) fn play(bytes: &[u8], allocations: fn() -> u64) -> u64 {
    let mut bytes = Bytes(bytes);
    let mut run = Run::new(&mut bytes, allocations);
    let mut operations = 0;
    while !bytes.0.is_empty() {
        run.step(&mut bytes);
        operations += 1;
    }
    operations
}

impl Run {
    fn new(bytes: &mut Bytes<'_>, allocations: fn() -> u64) -> Self {
        let rate = Rate::SUPPORTED[usize::from(bytes.byte()) % Rate::SUPPORTED.len()];
        let sample = FORMATS[usize::from(bytes.byte()) % 3];
        let channels = [1, 2, 3, 64][usize::from(bytes.byte()) % 4];
        let packet = Frames::new(i64::from(bytes.byte()) + 1);
        let format = StreamFormat {
            codec: None,
            rate: Rate::new(rate).expect("one of the supported"),
            channels: Channels::new(channels).expect("within the bounds"),
            sample,
            packet,
            payload_type: StreamFormat::default_payload_type(sample),
        };
        let codings = [Codings::Exactly, Codings::Any, Codings::ByConvention];
        let config = JitterBufferConfig {
            wire: RtpUnpack::taking(codings[usize::from(bytes.byte()) % 3]),
            link_offset: Span::from_millis(i64::from(bytes.byte() % 101)),
            resampler: Quality::ALL[usize::from(bytes.byte()) % 3],
            ..JitterBufferConfig::new(RtpUnpack::usual(), format, Span::ZERO)
        };
        let header = Header {
            sequence: bytes.short(),
            timestamp: bytes.word(),
            ssrc: SSRCS[0],
            marker: true,
            payload_type: format.payload_type,
            stamps: None,
        };
        let mut receiver = JitterBuffer::new(config.clone());
        receiver.measure_unannounced(Span::from_millis(2), true);
        Self {
            receiver,
            clock: ClockEstimator::new(),
            config,
            now: LocalTime::from_nanos(bytes.long(1) / 2),
            header,
            datagram: Vec::with_capacity(1 << 17),
            out: vec![0.0; MAX_FRAMES],
            allocations,
        }
    }

    fn step(&mut self, bytes: &mut Bytes<'_>) {
        match bytes.byte() % 16 {
            0..=5 => self.packet(bytes),
            6 => {
                self.header.sequence = bytes.short();
                self.packet(bytes);
            }
            7 => {
                self.header.timestamp = bytes.word();
                self.packet(bytes);
            }
            8 => {
                self.write(bytes);
                for _ in 0..bytes.byte() % 4 + 1 {
                    let at = usize::from(bytes.short()) % self.datagram.len();
                    self.datagram[at] = bytes.byte();
                }
                self.datagram.truncate(usize::from(bytes.short()) % 4000 + 1);
                self.handle(self.now);
            }
            9 => self.garbage(bytes),
            10..=12 => {
                let frames = match bytes.byte() {
                    u8::MAX => usize::from(bytes.short()) * 2,
                    few => usize::from(few) * 4,
                };
                self.now += self.config.format.rate.span_of(Frames::from_len(frames));
                self.pull(frames, self.now, Frames::ZERO);
            }
            13 => {
                let meets = LocalTime::from_nanos(bytes.long(1));
                let frames = usize::from(bytes.short()) * 2;
                self.pull(frames, meets, Frames::new(bytes.long(1)));
            }
            14 => self.learn(bytes),
            _ => self.now += Span::from_micros(i64::from(bytes.word())),
        }
    }

    fn packet(&mut self, bytes: &mut Bytes<'_>) {
        self.write(bytes);
        let arrival = match bytes.byte() {
            0 => LocalTime::from_nanos(bytes.long(1)),
            late => self.now + Span::from_micros(i64::from(late) * 20),
        };
        self.handle(arrival);
    }

    fn write(&mut self, bytes: &mut Bytes<'_>) {
        let kind = bytes.byte();
        self.header.ssrc = SSRCS[usize::from(kind & 3) % 3];
        self.header.marker = kind & 4 != 0;
        self.header.payload_type = match kind & 0x30 {
            0x30 => bytes.byte(),
            _ => self.receiver.format().payload_type,
        };
        let capture = if kind & 0x80 == 0 { self.now.as_nanos() } else { bytes.long(1) };
        self.header.stamps = (kind & 0x40 != 0).then(|| SenderStamps {
            capture: NtpTime::from_unix_nanos(capture),
            instants: (kind & 8 != 0).then(|| Instants {
                taken: Span::from_micros(i64::from(bytes.byte())),
                ..Instants::default()
            }),
        });
        let frames = usize::from(bytes.byte()) + 1;
        let repair_data = carried(bytes, frames * self.receiver.format().frame_bytes());
        self.datagram.clear();
        self.datagram.resize(self.header.bytes_with(repair_data.len()), 0);
        self.header.write_with(&repair_data, &mut self.datagram);
        let length = self.datagram.len() + frames * self.receiver.format().frame_bytes();
        let value = bytes.byte();
        self.datagram.resize(length, value);
        self.header.sequence = self.header.sequence.wrapping_add(1);
        self.header.timestamp = self.header.timestamp.wrapping_add(frames as u32);
    }

    fn garbage(&mut self, bytes: &mut Bytes<'_>) {
        let length = usize::from(bytes.byte()).min(bytes.0.len());
        let (garbage, rest) = bytes.0.split_at(length);
        self.datagram.clear();
        self.datagram.extend_from_slice(garbage);
        bytes.0 = rest;
        self.handle(self.now);
    }

    fn handle(&mut self, arrival: LocalTime) {
        let before = (self.allocations)();
        let _ = self.receiver.handle(&self.datagram, arrival, self.now);
        assert_eq!((self.allocations)(), before, "a packet allocates nothing");
    }

    fn pull(&mut self, frames: usize, meets: LocalTime, skipped: Frames) {
        let channels = self.config.format.channels.count();
        let out = &mut self.out[..frames.min(MAX_FRAMES / channels) * channels];
        out.fill(f32::NAN);
        let times = PullTimes { now: self.now, meets, skipped, clock: None };
        let before = (self.allocations)();
        let pulled = self.receiver.pull(out, times, |passage| {
            let _ = passage.total();
        });
        assert_eq!((self.allocations)(), before, "a block allocates nothing");
        // Look-ahead of the kernel, and drift.
        let frames = out.len() / channels;
        let maximum = frames + frames / 500 + self.config.resampler.half() + 2;
        assert!(pulled.missing.as_len() <= maximum, "{pulled:?}");
        let integers = self.config.format.sample != SampleFormat::F32
            && self.config.wire.codings() != Codings::ByConvention;
        if integers {
            // A fade may add two sounds; the absolute weights of a kernel sum to less than four.
            assert!(out.iter().all(|sample| sample.abs() <= 8.0), "finite and within bounds");
        }
        if let (Some(due), Some(place)) = (self.receiver.placement().due(meets), pulled.media) {
            self.check_in_time(&due, place);
        }
    }

    /// To within the clock uncertainty and a millisecond.
    fn check_in_time(&self, due: &Due, place: MediaPoint) {
        // Positions are checked again after the line moved 0.1 ms within a second, or 1 ms in ten.
        // No sound is further away.
        const NEAR: Span = Span::from_secs(10);
        let rate = self.config.format.rate;
        let newest = self.receiver.source().map(Source::end);
        let away = newest.map_or(Span::MAX, |end| rate.span_of(due.point.frame - end).abs());
        if away > NEAR || due.uncertainty > Span::from_secs(3600) {
            return;
        }
        let maximum = due.tolerance(rate.frame_length())
            + Span::from_millis(1)
            + rate.span_of(Frames::new(1));
        let away = rate.span_of_fine(due.point - place);
        assert!(away.abs() <= maximum, "{place:?} is played and {due:?} is due");
    }

    fn exchange(&mut self, bytes: &mut Bytes<'_>) -> Option<ClockMapping> {
        let lies = bytes.byte();
        let mut instant = |lie: u8, early: u8| match lies & lie {
            0 => self.now.as_nanos().saturating_sub(i64::from(early) * 10_000),
            _ => bytes.long(1),
        };
        let exchange = Exchange {
            requested: LocalTime::from_nanos(instant(1, 9)),
            peer_received: WallTime::from_unix_nanos(instant(2, 6)),
            peer_answered: WallTime::from_unix_nanos(instant(4, 5)),
            answered: LocalTime::from_nanos(instant(8, 0)),
            reading_error: Span::from_micros(i64::from(bytes.byte())),
        };
        self.clock.observe(exchange)
    }

    fn learn(&mut self, bytes: &mut Bytes<'_>) {
        let ssrc = SSRCS[usize::from(bytes.byte()) % 3];
        match bytes.byte() % 8 {
            6 | 7 => {
                if let Some(mapping) = self.exchange(bytes) {
                    self.receiver.set_clock(Author::of(ssrc), mapping);
                }
            }
            0 | 1 => {
                let (offset, sure) =
                    (Span::from_nanos(bytes.long(1)), Span::from_nanos(bytes.long(1)));
                self.receiver.set_clock(Author::of(ssrc), ClockMapping::known(offset, sure.abs()));
            }
            2 => {
                // Packets with stamps are captured now.
                let sure = Span::from_micros(i64::from(bytes.byte()));
                self.receiver.set_clock(Author::of(ssrc), ClockMapping::known(Span::ZERO, sure));
            }
            3 => self.receiver.set_link_offset(Span::from_nanos(bytes.long(1))),
            4 => {
                let wall = WallTime::from_unix_nanos(bytes.long(1));
                self.receiver.observe_report(Author::of(ssrc), bytes.word(), wall);
            }
            _ => self.receiver.say_goodbye(Author::of(ssrc)),
        }
    }
}

/// Redundancy: usually none, otherwise mostly valid symbols.
fn carried(bytes: &mut Bytes<'_>, payload: usize) -> Vec<u8> {
    let kind = bytes.byte();
    if kind & 0xC0 != 0xC0 || payload > 2000 {
        return Vec::new();
    }
    let symbols = kind & 7;
    let mut repair_data = vec![symbols];
    for _ in 0..symbols {
        let oldest = bytes.byte() % if kind & 0x20 == 0 { 16 } else { 0xFF };
        repair_data.extend([oldest, bytes.byte() % oldest.max(1) + 1, bytes.byte() | 0x80]);
    }
    let data = usize::from(symbols) * payload + usize::from(kind & 0x18 == 0x18);
    repair_data.resize(repair_data.len() + data, bytes.byte());
    repair_data
}
