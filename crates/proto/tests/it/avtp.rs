//! Presentation times in packets determine playback to the frame, despite losses, clock steps and
//! wraps.

use tautline_dsp::format::{SampleFormat, encode};
use tautline_proto::clock::ClockMapping;
use tautline_proto::endpoint::Author;
use tautline_proto::jitter_buffer::{JitterBuffer, JitterBufferConfig, PullTimes, ReceiveCommand};
use tautline_proto::ledger::PacketTrace;
use tautline_proto::packet::{Pack, StreamId};
use tautline_proto::packetizer::{BlockTimes, Identity, Packetizer, PacketizerConfig};
use tautline_proto::redundancy::Layout;
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::{Channels, Rate};
use tautline_proto::wire::avtp::{AafUnpack, ETHERNET_PACK, Encapsulation, UDP_PACK, format_of};

mod beginnings;
mod losses;
mod numbers;
mod runs;
mod steps;
mod talkers;

const RATE: Rate = Rate::HZ_48000;
const PDU: Frames = Frames::new(6);
const PERIOD: Frames = Frames::new(48);
const LATENCY: Span = Span::from_millis(20);
const STREAM: StreamId = StreamId(0x0222_3344_5566_0001);
/// Talker's clock minus ours. Presentation times wrap 20 ms after the first packet.
const WALL: Span = Span::from_nanos((400_000_000 << 32) - 1_040_000_000);

fn format(sample: SampleFormat) -> StreamFormat {
    StreamFormat {
        codec: None,
        rate: RATE,
        channels: Channels::MONO,
        sample,
        packet: PDU,
        payload_type: format_of(sample),
    }
}

/// Unique value per frame, exact in all codings.
fn sample(frame: i64) -> f32 {
    (frame.rem_euclid(30_000) + 1) as f32 / 32_768.0
}

fn config(
    wire: &'static dyn Pack,
    format: StreamFormat,
    identity: Identity,
    latency: Span,
    wall: Span,
) -> PacketizerConfig {
    PacketizerConfig {
        wire,
        format,
        identity,
        period: PERIOD,
        stamps: true,
        wall_offset: wall,
        redundancy: Layout::NONE,
        presented_after: latency,
    }
}

fn time_at(encapsulation: Encapsulation) -> usize {
    match encapsulation {
        Encapsulation::Ethernet => 12,
        Encapsulation::Udp => 16,
    }
}

struct Road {
    wire: &'static dyn Pack,
    latency: Span,
    wall: Span,
    passages: u64,
    passage: Option<PacketTrace>,
    sender: Packetizer,
    receiver: JitterBuffer,
    blocks: i64,
    packets: i64,
    /// DAC time of each frame, and its number if intact.
    received: Vec<(LocalTime, Option<i64>)>,
    concealed: i64,
    missing: i64,
    /// Offset of the talker's blocks from the card's, in frames.
    alongside: i64,
    /// Additional part of a frame.
    within: Span,
    /// Phase of the cards' frames.
    aside: Span,
}

const START: LocalTime = LocalTime::from_nanos(1_000_000_000);

impl Road {
    fn over(encapsulation: Encapsulation, coding: SampleFormat) -> Self {
        Self::of(encapsulation, format(coding), LATENCY)
    }

    fn of(encapsulation: Encapsulation, format: StreamFormat, latency: Span) -> Self {
        Self::by_wall(encapsulation, format, latency, WALL)
    }

    fn by_wall(
        encapsulation: Encapsulation,
        format: StreamFormat,
        latency: Span,
        wall: Span,
    ) -> Self {
        let pack = match encapsulation {
            Encapsulation::Ethernet => ETHERNET_PACK,
            Encapsulation::Udp => UDP_PACK,
        };
        let identity = Identity { stream: STREAM, sequence: 0, timestamp: 0 };
        let sender = Packetizer::new(config(pack, format, identity, latency, wall));
        let wire = AafUnpack::of(encapsulation, Some(STREAM));
        let mut receiver = JitterBuffer::new(JitterBufferConfig::new(wire, format, latency));
        let clock = ClockMapping::known(wall, Span::from_micros(1));
        receiver.set_clock(Author::of(STREAM.ssrc()), clock);
        let received = Vec::new();
        Self {
            wire: pack,
            latency,
            wall,
            passages: 0,
            passage: None,
            sender,
            receiver,
            blocks: 0,
            packets: 0,
            received,
            concealed: 0,
            missing: 0,
            alongside: 0,
            within: Span::ZERO,
            aside: Span::ZERO,
        }
    }

    /// Silences the talker for these periods. `again` restarts its program.
    fn pause(&mut self, periods: i64, again: bool) {
        for _ in 0..periods {
            self.pull(START + RATE.span_of(Frames::new((self.blocks + 1) * PERIOD.count())));
        }
        self.alongside += 3;
        if again {
            let identity = Identity { stream: STREAM, sequence: 117, timestamp: 0 };
            let (format, latency) = (*self.sender.format(), self.latency);
            self.sender = Packetizer::new(config(self.wire, format, identity, latency, self.wall));
        }
    }

    /// `change` may modify packets, or drop them by `false`.
    fn play(&mut self, periods: i64, mut change: impl FnMut(i64, &mut [u8]) -> bool) {
        self.carry(periods, |receiver, packet, datagram, now| {
            if change(packet, datagram) {
                receiver.handle(datagram, now, now);
            }
        });
    }

    fn carry(
        &mut self,
        periods: i64,
        mut network: impl FnMut(&mut JitterBuffer, i64, &mut [u8], LocalTime),
    ) {
        for _ in 0..periods {
            let first = self.blocks * PERIOD.count() + self.alongside;
            let capture = START + RATE.span_of(Frames::new(first)) + self.within;
            let block: Vec<f32> = (first..first + PERIOD.count()).map(sample).collect();
            let now = capture + RATE.span_of(PERIOD);
            let Self { sender, receiver, packets, .. } = self;
            sender.push(&block, BlockTimes { capture, taken: now, now }, |packet| {
                network(receiver, *packets, packet.datagram, now);
                *packets += 1;
            });
            self.pull(START + RATE.span_of(Frames::new((self.blocks + 1) * PERIOD.count())));
        }
    }

    fn pull(&mut self, now: LocalTime) {
        let mut out = [0.0; 48];
        let meets = now + Span::from_millis(1) + self.aside;
        let times = PullTimes { now, meets, skipped: Frames::ZERO, clock: None };
        let Self { receiver, passages, passage, .. } = self;
        let pulled = receiver.pull(&mut out, times, |newest| {
            *passages += 1;
            *passage = Some(newest);
        });
        self.concealed += pulled.concealed.count();
        let begun = meets >= START + self.latency;
        self.missing += if begun { pulled.missing.count() } else { 0 };
        for (index, value) in out.iter().enumerate() {
            let frame = (value * 32_768.0) as i64 - 1;
            let whole = (0..30_000).contains(&frame) && sample(frame) == *value;
            let at = meets + RATE.span_of(Frames::from_len(index));
            self.received.push((at, whole.then_some(frame)));
        }
        self.blocks += 1;
    }

    /// Frames missing at their time, after the first one present.
    fn not_received(&self) -> Vec<i64> {
        let due = |at: LocalTime| {
            let since = at - self.latency - START;
            RATE.frames_nearest(since).count()
        };
        let first = self
            .received
            .iter()
            .position(|(_, frame)| frame.is_some())
            .expect("nothing was played");
        let played = self.received[first..].iter().map(|(at, frame)| (due(*at), *frame));
        played
            .filter(|(due, frame)| *frame != Some(due.rem_euclid(30_000)))
            .map(|(due, _)| due)
            .collect()
    }
}

#[test]
fn frames_play_at_their_presentation_time_across_a_wrap() {
    for encapsulation in [Encapsulation::Ethernet, Encapsulation::Udp] {
        for coding in SampleFormat::ALL {
            let mut road = Road::over(encapsulation, coding);
            road.play(6000, |_, _| true);
            assert_eq!(road.not_received(), [], "{encapsulation:?}, {coding:?}");
            let counters = road.receiver.counters();
            assert_eq!((counters.resyncs, counters.lost, counters.invalid), (0, 0, 0));
        }
    }
}

#[test]
fn an_outage_longer_than_the_numbers_go_round_is_counted() {
    let mut road = Road::over(Encapsulation::Ethernet, SampleFormat::L24);
    road.play(200, |_, _| true);
    road.play(1000, |packet, _| !(1700..2000).contains(&packet));
    assert_eq!(road.receiver.counters().lost, 300);
    let not_received = road.not_received();
    assert!(
        not_received.iter().all(|frame| (10_200..12_000 + 96).contains(frame)),
        "{not_received:?}"
    );
}

#[test]
fn paused_or_restarted_talker_resyncs_once_without_loss() {
    for encapsulation in [Encapsulation::Ethernet, Encapsulation::Udp] {
        // Pauses shorter than the playout, longer than a wrap, and of several seconds.
        for (pause, again) in [(12, true), (46, true), (46, false), (600, true), (5_000, false)] {
            let mut road = Road::over(encapsulation, SampleFormat::L16);
            road.play(500, |_, _| true);
            road.pause(pause, again);
            road.play(500, |_, _| true);
            let reported = format!("{encapsulation:?}, {pause} ms, {again}");
            let counters = *road.receiver.counters();
            assert_eq!((counters.lost, counters.resyncs), (0, 1), "{reported}: {counters:?}");
            assert_eq!((counters.duplicate, counters.on_probation), (0, 1), "{reported}");
            let not_received = road.not_received();
            let (ended, begins) = (500 * 48, (500 + pause) * 48 + 3);
            let whole = |frame: &i64| (ended..begins + 6 + 96).contains(frame);
            assert!(not_received.iter().all(whole), "{reported}: {not_received:?}");
            assert!(not_received.len() as i64 >= begins - ended, "{reported}");
        }
    }
}

#[test]
fn announced_restart_resyncs_at_once_and_is_counted() {
    // An xrun of 30 ms, reported as a whole or in parts.
    for parts in [1, 2, 3, 30] {
        let mut road = Road::over(Encapsulation::Ethernet, SampleFormat::L16);
        road.play(500, |_, _| true);
        let now = START + RATE.span_of(Frames::new(road.blocks * PERIOD.count()));
        for _ in 0..parts {
            road.sender.skip(Frames::new(30 / parts * PERIOD.count()), now, |_| {});
        }
        for _ in 0..30 {
            road.pull(START + RATE.span_of(Frames::new((road.blocks + 1) * PERIOD.count())));
        }
        road.play(500, |_, _| true);
        let counters = *road.receiver.counters();
        let counted =
            (counters.media_clock_restarts, counters.resyncs, counters.lost, counters.on_probation);
        assert_eq!(counted, (1, 1, 0, 0), "in {parts}: {counters:?}");
    }
}

#[test]
fn sound_before_a_restart_plays_to_its_end() {
    let eighth = |eighths| RATE.span_of(Frames::new(1)).times(eighths).divided(8);
    for (eighths, aside) in (0..8).flat_map(|eighths| [(eighths, 1), (eighths, 3), (eighths, 5)]) {
        let mut road = Road::over(Encapsulation::Ethernet, SampleFormat::L16);
        road.aside = eighth(aside);
        road.play(500, |_, _| true);
        road.pause(12, true);
        road.within = eighth(eighths);
        road.play(500, |_, _| true);
        let reported = format!("{eighths}/8 of a frame, {aside}/8 aside");
        let not_received = road.not_received();
        let before = not_received.iter().filter(|frame| **frame < 500 * 48).count();
        assert_eq!(before, 0, "{reported}: {not_received:?}");
        let after = &road.received[road.received.len() - 400 * 48..];
        let frames: Vec<i64> = after.iter().filter_map(|(_, frame)| *frame).collect();
        assert_eq!(frames.len(), after.len(), "{reported}: later frames are copied too");
        let counters = *road.receiver.counters();
        assert_eq!((counters.lost, counters.resyncs), (0, 1), "{reported}: {counters:?}");
    }
}

#[test]
fn packet_with_a_far_time_disturbs_nothing() {
    for (restarts, millis) in [0, 8]
        .into_iter()
        .flat_map(|bit| [-2000, -1000, -30, 30, 1000, 1500, 4000].map(|millis| (bit, millis)))
    {
        let mut road = Road::over(Encapsulation::Ethernet, SampleFormat::L16);
        for strays in 0..8 {
            let mut stray = Vec::new();
            road.play(100, |packet, bytes| {
                if packet % 100 == 99 {
                    stray = bytes.to_vec();
                }
                true
            });
            stray[1] ^= restarts;
            stray[2] = stray[2].wrapping_add(strays);
            let reported = u32::from_be_bytes([12, 13, 14, 15].map(|at| stray[at]));
            let away = Span::from_millis(millis).as_nanos() as u32;
            stray[12..16].copy_from_slice(&reported.wrapping_add(away).to_be_bytes());
            let now = START + RATE.span_of(Frames::new(road.blocks * PERIOD.count()));
            road.receiver.handle(&stray, now, now);
        }
        road.play(100, |_, _| true);
        let (counters, reported) = (*road.receiver.counters(), format!("{restarts} {millis} ms"));
        assert_eq!(road.not_received(), [], "{reported}: {counters:?}");
        assert_eq!(
            (counters.resyncs, counters.lost, counters.on_probation),
            (0, 0, 8),
            "{reported}"
        );
    }
}

#[test]
fn one_frame_packets_play_and_overflow_is_reported() {
    // More packets in flight than 125 µs has: 960 for 2048 places, and 4800.
    for (latency, all) in [(LATENCY, true), (Span::from_millis(100), false)] {
        let format = StreamFormat { packet: Frames::new(1), ..format(SampleFormat::L24) };
        let mut road = Road::of(Encapsulation::Ethernet, format, latency);
        road.play(1000, |_, _| true);
        assert_eq!(road.not_received(), []);
        let counters = *road.receiver.counters();
        let of_all =
            (counters.received, counters.lost, counters.underrun_discarded, counters.resyncs);
        assert_eq!(of_all, (48_000, 0, 0, 0), "{counters:?}");
        assert_eq!(counters.trace_overflow == 0, all, "{counters:?}");
        let waiting = RATE.frames_within(latency).count().unsigned_abs();
        let reported = road.passages + counters.trace_overflow;
        assert!((48_000 - waiting..=48_000).contains(&reported), "{reported}: {counters:?}");
    }
}

#[test]
fn capture_time_is_unknown_without_the_talkers_latency() {
    let mut road = Road::over(Encapsulation::Ethernet, SampleFormat::L16);
    let config = JitterBufferConfig {
        captures_reported: false,
        ..JitterBufferConfig::new(
            AafUnpack::of(Encapsulation::Ethernet, Some(STREAM)),
            format(SampleFormat::L16),
            LATENCY,
        )
    };
    road.receiver = JitterBuffer::new(config);
    road.receiver.set_presentation_clock(ClockMapping::known(WALL, Span::from_micros(1)));
    road.play(100, |_, _| true);
    assert_eq!(road.not_received(), [], "it plays at its presentation time");
    let passage = road.passage.expect("a packet was played");
    assert_eq!((passage.origin, passage.total(), passage.sender_stage()), (None, None, None));
    assert_eq!(passage.dac - passage.reference.unwrap(), LATENCY);
    road.receiver.apply(ReceiveCommand::PresentedAfter(Some(LATENCY)));
    road.play(100, |_, _| true);
    assert_eq!(road.passage.unwrap().total(), Some(LATENCY));
    road.receiver.apply(ReceiveCommand::PresentedAfter(None));
    road.play(100, |_, _| true);
    assert_eq!(road.passage.unwrap().origin, None);
}

#[test]
fn talker_uses_its_newest_clock_and_marks_uncertainty() {
    let mut road = Road::over(Encapsulation::Ethernet, SampleFormat::L24);
    let reported = |road: &mut Road| {
        let mut reported = Vec::new();
        road.play(1, |_, packet| {
            reported.push((packet[3], u32::from_be_bytes([12, 13, 14, 15].map(|at| packet[at]))));
            true
        });
        reported[0]
    };
    let (sure, before) = reported(&mut road);
    let on = Span::from_micros(300);
    road.sender.set_presentation_clock(ClockMapping::known(WALL + on, Span::ZERO), true);
    let (uncertain, after) = reported(&mut road);
    assert_eq!((sure, uncertain), (0, 1));
    let between = (RATE.span_of(PERIOD) + on).as_nanos() as u32;
    assert_eq!(after.wrapping_sub(before), between);
}

#[test]
fn captured_foreign_talker_plays_bit_exact() {
    const CAPTURED: &[u8] = include_bytes!("../data/aaf-class-a.pcap");
    const SOUND: &[u8] = include_bytes!("../data/sound-s16le.raw");
    // Nanosecond timestamps in UTC. The talker's TAI is 37 s ahead.
    assert_eq!(CAPTURED[..4], [0x4D, 0x3C, 0xB2, 0xA1]);
    let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| CAPTURED[at + byte]));
    let (mut at, mut arrived) = (24, Vec::new());
    while at < CAPTURED.len() {
        let arrival = i64::from(word(at)) * 1_000_000_000 + i64::from(word(at + 4));
        let len = word(at + 8) as usize;
        arrived.push((arrival, &CAPTURED[at + 16 + 14..at + 16 + len]));
        at += 16 + len;
    }
    let first = arrived[0].0;
    let local = |arrival: i64| START + Span::from_nanos(arrival - first);
    let format = StreamFormat { channels: Channels::STEREO, ..format(SampleFormat::L16) };
    let wire = AafUnpack::of(Encapsulation::Ethernet, Some(StreamId(0xAABB_CCDD_EEFF_0001)));
    let offset = Span::from_nanos(first + 37_000_000_000 - START.as_nanos());
    // Packets arrived 50 ms before presentation.
    let latency = Span::from_millis(60);
    let mut receiver = JitterBuffer::new(JitterBufferConfig::new(wire, format, latency));
    receiver.set_clock(Author::of(0xEEFF_0001), ClockMapping::known(offset, Span::from_micros(1)));
    let (mut arrived, mut received, mut now) = (arrived.into_iter().peekable(), Vec::new(), START);
    while arrived.peek().is_some() || now < START + Span::from_millis(600) {
        while let Some((arrival, pdu)) = arrived.next_if(|(arrival, _)| local(*arrival) <= now) {
            receiver.handle(pdu, local(arrival), now);
        }
        let mut out = [0.0; 96];
        let meets = now + Span::from_millis(1);
        let times = PullTimes { now, meets, skipped: Frames::ZERO, clock: None };
        let pulled = receiver.pull(&mut out, times, |_| {});
        if pulled.media.is_some() {
            received.extend(out);
        }
        now += RATE.span_of(PERIOD);
    }
    let mut bytes = vec![0; 2 * received.len()];
    encode(SampleFormat::L16, &received, &mut bytes);
    let played: Vec<u8> = SOUND.chunks_exact(2).flat_map(|sample| [sample[1], sample[0]]).collect();
    let whole = played.len().min(3393 * 24);
    let begin =
        bytes.windows(480).position(|window| window == &played[..480]).expect("the sound begins");
    assert!(bytes[begin..begin + whole] == played[..whole], "not bit-exact");
    let counters = receiver.counters();
    assert_eq!((counters.received, counters.invalid, counters.lost), (3393, 0, 0));
}

#[test]
fn uncertain_clock_packets_are_counted_and_played() {
    for (encapsulation, byte) in [(Encapsulation::Ethernet, 3), (Encapsulation::Udp, 7)] {
        let mut road = Road::over(encapsulation, SampleFormat::L24);
        road.play(100, |packet, datagram| {
            datagram[byte] |= u8::from((100..140).contains(&packet));
            true
        });
        assert_eq!(road.not_received(), []);
        assert_eq!(road.receiver.counters().uncertain_clock, 40);
    }
}
