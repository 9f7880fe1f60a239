//! The test feeds the links and sets the clock.

mod cost;
mod senders;
mod zone;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use super::input::PAUSE_LENGTH;
use super::*;
use crate::control::VOLUME_RAMP;
use crate::monitor::sound::PacketTap;
use crate::monitor::sound::rings::rings;
use crate::receive_engine::repairers::repairers;
use rtrb::{Producer, RingBuffer};
use tautline_dsp::format::{self, SampleFormat};
use tautline_io::link::{Datagram, Link, LinkCounters, TransmitStamp};
use tautline_proto::endpoint::Arrival;
use tautline_proto::jitter_buffer::{JitterBuffer, JitterBufferConfig, ReceiveCommand};
use tautline_proto::packet::{Codings, StreamId};
use tautline_proto::packetizer::{BlockTimes, Identity, Packetizer, PacketizerConfig};
use tautline_proto::redundancy::Layout;
use tautline_proto::stream::Outgoing;
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::MediaTime;
use tautline_proto::units::Rate;
use tautline_proto::wire::rtp::{HEADER_BYTES, Header, PACK, RtpUnpack};
use tautline_proto::zone::ProgramRule;

const PACKET: usize = 48;
const TICK: Span = Span::from_millis(1);
const LATENCY: Span = Span::from_millis(5);
const FADE: f32 = 48.0;
/// Ticks after which a program plays at its full level.
const STARTED: u32 = 20;

type Queue = Arc<Mutex<VecDeque<(Vec<u8>, LocalTime)>>>;

struct Fed(Queue, LinkCounters);

impl Link for Fed {
    fn queue(&mut self, _: &Outgoing<'_>) -> bool {
        false
    }

    fn flush(&mut self) {}

    fn receive(&mut self, deliver: &mut dyn FnMut(Datagram<'_>)) {
        for (datagram, arrival) in self.0.lock().unwrap().drain(..) {
            let from = SocketAddr::from(([127, 0, 0, 1], 5004)).into();
            let arrival = Arrival::exact(from, arrival, arrival);
            deliver(Datagram { bytes: &datagram, arrival, truncated: false });
        }
    }

    fn transmit_stamps(&mut self, _: &mut dyn FnMut(TransmitStamp)) {}

    fn counters(&self) -> LinkCounters {
        self.1
    }
}

struct World {
    mixer: Mixer,
    queues: Vec<Queue>,
    coming: Producer<Replacement>,
    gone: Consumer<MixerInput>,
    levels: Vec<f32>,
    /// How much shorter than [`TICK`] the card's period is.
    fast: Span,
    sent: u32,
    tick: u32,
    played: Vec<f32>,
}

fn format() -> StreamFormat {
    let sample = SampleFormat::F32;
    StreamFormat {
        codec: None,
        rate: Rate::HZ_48000,
        channels: Channels::MONO,
        sample,
        packet: Frames::from_len(PACKET),
        payload_type: StreamFormat::default_payload_type(sample),
    }
}

fn incoming(queue: &Queue) -> MixerInput {
    let config = JitterBufferConfig::new(RtpUnpack::taking(Codings::Exactly), format(), LATENCY);
    let (commands, passages) = (RingBuffer::new(1).1, RingBuffer::new(1).0);
    let status = RingBuffer::new(1).0;
    let link = Box::new(Fed(Arc::clone(queue), LinkCounters::default()));
    let receiver = JitterBuffer::without_repairer(config);
    MixerInput::new(0, receiver, link, Gain::UNITY, commands, passages, status)
}

impl World {
    fn new(select: ProgramRule, levels: &[f32]) -> Self {
        let queues: Vec<Queue> = levels.iter().map(|_| Queue::default()).collect();
        let (coming, coming_out) = RingBuffer::new(2);
        let (gone_in, gone) = RingBuffer::new(2);
        let mixer = Mixer {
            inputs: queues.iter().map(incoming).collect(),
            shared: Vec::new(),
            succession: Succession::new(levels.len(), coming_out, gone_in),
            spares: repairers(levels.len(), levels.len()).1,
            gains: RingBuffer::new(1).1,
            programs: Programs::new(select, 16),
            zone: None,
            volume: Volume::over(Gain::UNITY, VOLUME_RAMP),
            gain: Gain::UNITY,
            map: ChannelMap::identity(1),
            channels: Channels::MONO,
            one: vec![0.0; PACKET].into(),
            sum: vec![0.0; PACKET].into(),
            passages: Passages::with_capacity(16),
            mouth: None,
            xruns: 0,
            lead: tautline_proto::lead::Lead::NONE,
            woke: LocalTime::ZERO,
            reported: LocalTime::ZERO,
        };
        let (levels, played) = (levels.into(), Vec::new());
        Self { mixer, queues, coming, gone, levels, fast: Span::ZERO, sent: 0, tick: 0, played }
    }

    fn bequeath(&mut self, index: usize, level: f32) -> usize {
        self.bequeath_at(index, level, None)
    }

    fn bequeath_at(&mut self, place: usize, level: f32, joins: Option<LocalTime>) -> usize {
        let queue = Queue::default();
        let mut successor = incoming(&queue);
        successor.number = self.queues.len();
        successor.await_turn(Gain::UNITY);
        self.queues.push(queue);
        self.levels.push(level);
        let replacement = Replacement { place, joins, input: successor };
        self.coming.push(replacement).unwrap_or_else(|_| panic!("the ring is full"));
        self.queues.len() - 1
    }

    fn play(&mut self, ticks: u32, sending: &[usize]) -> &[f32] {
        let from = self.played.len();
        for _ in 0..ticks {
            let now = LocalTime::ZERO + (TICK - self.fast).times(i64::from(self.tick) + 1);
            while LocalTime::ZERO + TICK.times(i64::from(self.sent) + 1) <= now {
                for stream in sending {
                    self.send(*stream, LocalTime::ZERO + TICK.times(i64::from(self.sent) + 1));
                }
                self.sent += 1;
            }
            let mut block = [0.0; PACKET];
            let meets = now + LATENCY - TICK;
            let samples = &mut block;
            let mut side = Side { samples, meets, uncertainty: Span::ZERO, skipped: Frames::ZERO };
            self.mixer.apply_commands();
            self.mixer.play(&mut side, now, None);
            self.played.extend_from_slice(&block);
            self.tick += 1;
        }
        &self.played[from..]
    }

    fn send(&self, stream: usize, now: LocalTime) {
        let header = Header {
            sequence: self.sent as u16,
            timestamp: self.sent * PACKET as u32,
            ssrc: stream as u32 + 1,
            marker: false,
            payload_type: format().payload_type,
            stamps: None,
        };
        let mut datagram = vec![0; HEADER_BYTES + PACKET * 4];
        header.write(&mut datagram);
        let samples = [self.levels[stream]; PACKET];
        format::encode(SampleFormat::F32, &samples, &mut datagram[HEADER_BYTES..]);
        self.queues[stream].lock().unwrap().push_back((datagram, now));
    }

    fn steepest(&self) -> f32 {
        self.played.windows(2).map(|pair| (pair[1] - pair[0]).abs()).fold(0.0, f32::max)
    }
}

fn ends(block: &[f32]) -> f32 {
    *block.last().unwrap()
}

#[test]
fn one_stream_is_bit_exact() {
    let level = 0.123_456_79;
    for select in [ProgramRule::Mix, ProgramRule::Priority, ProgramRule::FirstAlive] {
        let mut world = World::new(select, &[level]);
        world.play(3, &[0]);
        assert!(world.play(10, &[0]).iter().all(|sample| *sample == level));
    }
}

#[test]
fn mixer_reports_the_audible_streams() {
    let mut world = World::new(ProgramRule::Mix, &[0.25, 0.25, 0.0]);
    let (mut hearing, _ear, mouth) =
        crate::monitor::sound::hearing(Rate::HZ_48000, 1, Frames::new(48));
    world.mixer.mouth = Some(mouth);
    let found = |world: &World| {
        let mouth = world.mixer.mouth.as_ref().unwrap();
        [0, 1, 2].map(|place| mouth.may_be_found(place, 3))
    };
    let at = |world: &World| LocalTime::ZERO + TICK.times(i64::from(world.tick)) + LATENCY - TICK;
    world.play(20, &[0, 2]);
    let alone = at(&world);
    assert_eq!(found(&world), [true, false, false], "the third is silent");
    world.play(20, &[0, 1, 2]);
    let mixed = at(&world);
    assert_eq!(found(&world), [false; 3]);
    world.play(100, &[1, 2]);
    assert_eq!(found(&world), [false, true, false], "the first has ended");
    hearing.listen();
    let only = |place, from, to| hearing.voices.only(place, from, to);
    assert!(only(0, LocalTime::ZERO, alone) && !only(1, LocalTime::ZERO, alone));
    assert!(!only(0, mixed, mixed) && !only(1, mixed, mixed));
    assert!(only(1, at(&world), at(&world)) && !only(0, at(&world), at(&world)));
}

#[test]
fn pending_frames_are_sent_at_once_if_no_packet_follows() {
    let mut world = World::new(ProgramRule::Mix, &[0.5]);
    let (writer, mut reported) = rings(48 * PACKET, 48);
    let longest = Frames::from_len(8 * PACKET);
    world.mixer.inputs[0].tap = Some(PacketTap::new(writer, 0, longest));
    world.mixer.mouth = Some(crate::monitor::sound::hearing(Rate::HZ_48000, 1, Frames::new(48)).2);
    let mut reported = || {
        let mut runs = Vec::new();
        reported.read(|media: MediaTime, samples| {
            assert!(samples.iter().all(|sample| *sample == 0.5));
            runs.push((media.as_frames(), Frames::from_len(samples.len())));
        });
        runs
    };
    world.play(11, &[0]);
    assert_eq!(reported(), [(0, longest)]);
    world.play(1, &[]);
    assert_eq!(reported(), [(longest.count(), Frames::from_len(3 * PACKET))]);
    world.play(9, &[0]);
    let after = longest + Frames::from_len(4 * PACKET);
    assert_eq!(reported(), [(after.count(), longest)], "one was left out");
}

#[test]
fn jitter_is_reported_in_frames() {
    let mut world = World::new(ProgramRule::Mix, &[0.5]);
    let (status, mut reported) = RingBuffer::new(1);
    world.mixer.inputs[0].status = status;
    for tick in 0..200 {
        // Half of the packets are 0.5 ms early; RFC 3550 A.8 finds all that jitter.
        let now = LocalTime::ZERO + TICK.times(tick + 1);
        world.send(0, if tick % 2 == 0 { now } else { now - TICK.half() });
        world.play(1, &[]);
    }
    world.mixer.inputs[0].notify(LocalTime::ZERO, 0, None);
    let receiving = reported.pop().unwrap().stream.receiving.unwrap();
    assert_eq!(receiving.jitter, 24);
}

#[test]
fn link_counters_are_reported_with_the_stream() {
    let mut world = World::new(ProgramRule::Mix, &[0.5]);
    let (status, mut reported) = RingBuffer::new(1);
    world.mixer.inputs[0].status = status;
    let counters =
        LinkCounters { auth_failed: 7, kernel_drops: 3, ring_drops: 2, ..LinkCounters::default() };
    world.mixer.inputs[0].link = Box::new(Fed(Queue::default(), counters));
    world.mixer.inputs[0].notify(LocalTime::ZERO, 0, None);
    let counters = reported.pop().unwrap().stream.counters;
    assert_eq!((counters.auth_failed, counters.socket_drops), (7, 5));
}

#[test]
fn two_streams_add_up_with_their_gains() {
    let mut world = World::new(ProgramRule::Mix, &[0.25, 0.5]);
    world.mixer.inputs[1].gain = Gain::from_db(20.0 * 0.5_f64.log10()).unwrap();
    world.mixer.gain = Gain::from_db(20.0 * 2.0_f64.log10()).unwrap();
    world.play(13, &[0, 1]);
    assert!(world.play(10, &[0, 1]).iter().all(|sample| (sample - 1.0).abs() < 1e-6));
}

#[test]
fn only_streams_with_redundancy_keep_a_repairer() {
    let mut world = World::new(ProgramRule::Mix, &[0.0; 6]);
    let waiting = world.mixer.spares.left();
    assert!(waiting < 6);
    world.mixer.inputs[3].receiver.set_link_offset(LATENCY.times(2));
    let mut sender = Packetizer::new(PacketizerConfig {
        wire: PACK,
        format: format(),
        identity: Identity { stream: StreamId(9), sequence: 0, timestamp: 0 },
        period: format().packet,
        stamps: true,
        wall_offset: Span::ZERO,
        redundancy: Layout::copies(1, 1),
        presented_after: Span::ZERO,
    });
    for tick in 0..20 {
        let now = LocalTime::ZERO + TICK.times(i64::from(tick) + 1);
        let times = BlockTimes { capture: now - TICK, taken: now, now };
        let queue = &world.queues[3];
        sender.push(&[0.5; PACKET], times, |packet| {
            if ![1, 7].contains(&tick) {
                queue.lock().unwrap().push_back((packet.datagram.to_vec(), now));
            }
        });
        world.play(1, &[0, 1, 2, 4, 5]);
    }
    let repaired = world.mixer.inputs.iter().map(|input| input.receiver.counters().repaired);
    assert_eq!(repaired.collect::<Vec<_>>(), [0, 0, 0, 2, 0, 0]);
    assert_eq!(world.mixer.spares.left(), waiting - 1);
}

#[test]
fn stream_that_never_arrived_is_not_active() {
    let mut world = World::new(ProgramRule::Priority, &[0.5, 0.25]);
    world.play(STARTED, &[1]);
    assert_eq!(world.mixer.programs.chosen(), Some(1));
    assert!(!world.mixer.inputs[0].alive);
    assert_eq!(ends(world.play(10, &[1])), 0.25);
}

/// The stopped stream renders 47 frames instead of 48 now and then: all of them are missing.
#[test]
fn stopped_stream_stays_inactive_on_a_fast_card() {
    let mut world = World::new(ProgramRule::Priority, &[0.5, 0.25]);
    world.fast = Span::from_nanos(60);
    for input in &mut world.mixer.inputs {
        input.receiver.set_link_offset(LATENCY.times(2));
    }
    world.play(10_000, &[0, 1]);
    assert_eq!(world.mixer.programs.chosen(), Some(0));
    world.play(300, &[1]);
    assert_eq!(world.mixer.programs.chosen(), Some(1));
    let music = world.play(10_000, &[1]);
    assert!(music.iter().all(|sample| *sample > 0.24), "the music is muted");
}

#[test]
fn pause_is_reported_after_a_while_and_ends_with_sound() {
    let mut world = World::new(ProgramRule::Mix, &[0.5]);
    let ticks = |span: Span| (span.as_nanos() / TICK.as_nanos()) as u32;
    let quiet = |world: &World| {
        let now = LocalTime::ZERO + TICK.times(i64::from(world.tick));
        world.mixer.inputs[0].is_quiet(now)
    };
    world.play(20, &[0]);
    assert!(!quiet(&world));
    world.levels[0] = 0.0005;
    world.play(ticks(PAUSE_LENGTH) - 2, &[0]);
    assert!(!quiet(&world));
    world.play(4, &[0]);
    assert!(quiet(&world));
    world.levels[0] = 0.002;
    world.play(1, &[0]);
    assert!(!quiet(&world));
}

#[test]
fn silence_without_active_streams() {
    let mut world = World::new(ProgramRule::FirstAlive, &[0.5, 0.25]);
    assert!(world.play(200, &[]).iter().all(|sample| *sample == 0.0));
    assert_eq!(world.mixer.programs.chosen(), None);
}

#[test]
fn priority_falls_back_and_returns_without_a_click() {
    let mut world = World::new(ProgramRule::Priority, &[0.5, -0.5]);
    assert_eq!(ends(world.play(STARTED, &[0, 1])), 0.5);
    let timeout = (Programs::TIMEOUT.as_nanos() / TICK.as_nanos()) as u32;
    assert_eq!(ends(world.play(timeout - 1, &[1])), 0.0);
    assert_eq!(ends(world.play(13, &[1])), -0.5);
    assert_eq!(ends(world.play(13, &[0, 1])), 0.5);
    // Two crossing ramps, each at most 1.5 times as steep as a straight one.
    let allowed = 0.5 * core::f32::consts::FRAC_PI_2 / FADE + 1.5 / PACKET as f32;
    assert!(world.steepest() <= allowed, "{} is a click", world.steepest());
}

#[test]
fn a_stream_that_cannot_be_played_is_never_selected() {
    for select in [ProgramRule::Priority, ProgramRule::FirstAlive] {
        let mut world = World::new(select, &[0.5, 0.25]);
        world.mixer.inputs[0].receiver.apply(ReceiveCommand::Mute(true));
        assert_eq!(ends(world.play(STARTED, &[0, 1])), 0.25);
    }
}

#[test]
fn first_alive_keeps_the_first_stream_until_it_is_silent() {
    let mut world = World::new(ProgramRule::FirstAlive, &[0.5, 0.25]);
    assert_eq!(ends(world.play(STARTED, &[1])), 0.25);
    assert_eq!(ends(world.play(150, &[0, 1])), 0.25);
    assert_eq!(ends(world.play(150, &[0])), 0.5);
    assert_eq!(ends(world.play(10, &[0, 1])), 0.5);
}

#[test]
fn a_block_longer_than_the_room_is_filled_in_pieces() {
    let mut world = World::new(ProgramRule::Mix, &[0.5]);
    world.play(3, &[0]);
    for _ in 0..3 {
        let now = LocalTime::ZERO + TICK.times(i64::from(world.tick) + 1);
        world.send(0, now);
        world.tick += 1;
        world.sent += 1;
    }
    let mut samples = [0.0; 3 * PACKET];
    let now = LocalTime::ZERO + TICK.times(4);
    let meets = now + LATENCY - TICK;
    let mut side =
        Side { samples: &mut samples, meets, uncertainty: Span::ZERO, skipped: Frames::ZERO };
    world.mixer.play(&mut side, now, None);
    assert!(samples.iter().all(|sample| *sample == 0.5));
}

const WAITED: u32 = 1_200;

fn numbers(gone: &mut Consumer<MixerInput>) -> Vec<usize> {
    core::iter::from_fn(|| gone.pop().ok()).map(|input| input.number).collect()
}

#[test]
fn successor_takes_over_without_gap_or_click() {
    let mut world = World::new(ProgramRule::Mix, &[0.5]);
    world.play(20, &[0]);
    let successor = world.bequeath(0, 0.5);
    let received = world.play(WAITED, &[0, successor]);
    assert!(received.iter().all(|sample| (sample - 0.5).abs() < 1e-6));
    assert_eq!(numbers(&mut world.gone), [0]);
    assert_eq!(world.mixer.inputs[0].number, successor);
    assert_eq!(ends(world.play(200, &[successor])), 0.5);
}

#[test]
fn successor_with_other_sound_is_cross_faded() {
    let mut world = World::new(ProgramRule::Priority, &[0.5, 0.25]);
    world.play(20, &[0, 1]);
    let successor = world.bequeath(0, -0.5);
    assert_eq!(ends(world.play(WAITED, &[0, 1, successor])), -0.5);
    assert_eq!(numbers(&mut world.gone), [0]);
    // A smooth ramp is at most 1.5 times as steep as a straight one.
    let ramp = 1.5 / VOLUME_RAMP as f32;
    let fade_in = 0.5 * core::f32::consts::FRAC_PI_2 / FADE + 1.5 * 0.5 / PACKET as f32;
    assert!(world.steepest() <= fade_in, "{}", world.steepest());
    let crossed = &world.played[100 * PACKET..];
    let steepest = crossed.windows(2).map(|pair| (pair[1] - pair[0]).abs());
    assert!(steepest.fold(0.0, f32::max) <= ramp + 1e-6);
}

/// Frame at which a world plays presentation time `at`.
fn frame_at(at: LocalTime) -> usize {
    Rate::HZ_48000.frames_nearest(at - (LocalTime::ZERO + LATENCY)).as_len()
}

#[test]
fn timed_successor_takes_over_at_its_frame_with_equal_power() {
    // Without a clock, a successor waits for a second.
    let at = LocalTime::ZERO + LATENCY + TICK.times(1500) + TICK.half();
    let mut world = World::new(ProgramRule::Mix, &[0.5]);
    world.play(20, &[0]);
    let successor = world.bequeath_at(0, -0.25, Some(at));
    world.play(2000, &[0, successor]);
    let begin = frame_at(at);
    let (before, crossed) = world.played.split_at(begin + 1);
    assert!(before[20 * PACKET..].iter().all(|sample| *sample == 0.5));
    let length = Rate::HZ_48000.frames_nearest(Span::from_millis(30)).as_len();
    for (number, sample) in crossed[..length - 1].iter().enumerate() {
        let angle = (number + 1) as f32 / length as f32 * core::f32::consts::FRAC_PI_2;
        let expected = 0.5 * angle.cos() - 0.25 * angle.sin();
        assert!((sample - expected).abs() < 1e-4, "{number}: {sample} {expected}");
    }
    assert!(crossed[length..].iter().all(|sample| *sample == -0.25));
    assert_eq!(numbers(&mut world.gone), [0]);
}

#[test]
fn late_timed_successor_takes_over_once_it_has_sound() {
    let mut world = World::new(ProgramRule::Mix, &[0.5]);
    world.play(20, &[0]);
    let successor = world.bequeath_at(0, -0.25, Some(LocalTime::ZERO));
    assert!(world.play(500, &[0]).iter().all(|sample| *sample == 0.5));
    world.play(WAITED, &[0, successor]);
    assert_eq!(ends(&world.played), -0.25);
    let steps = world.played[20 * PACKET..].windows(2).map(|pair| (pair[1] - pair[0]).abs());
    let steepest = steps.fold(0.0, f32::max);
    assert!(steepest < 0.001, "{steepest}");
}

#[test]
fn timed_successor_that_fell_silent_does_not_take_over() {
    let at = LocalTime::ZERO + LATENCY + TICK.times(3000);
    let mut world = World::new(ProgramRule::Mix, &[0.5]);
    let (writer, _reported) = rings(48 * PACKET, 48);
    world.mixer.inputs[0].tap = Some(PacketTap::new(writer, 0, Frames::from_len(8 * PACKET)));
    world.play(20, &[0]);
    let successor = world.bequeath_at(0, -0.25, Some(at));
    world.play(1500, &[0, successor]);
    assert!(world.play(2000, &[0]).iter().all(|sample| *sample == 0.5));
    world.play(WAITED, &[0, successor]);
    assert_eq!(ends(&world.played), -0.25);
    let inputs = &world.mixer.inputs;
    assert!(inputs[0].number == successor && inputs[0].tap.is_some(), "the tap stays at the place");
}

#[test]
fn successor_without_sound_changes_nothing() {
    let mut world = World::new(ProgramRule::Mix, &[0.5]);
    world.play(20, &[0]);
    world.bequeath(0, -0.5);
    assert!(world.play(2 * WAITED, &[0]).iter().all(|sample| *sample == 0.5));
    assert_eq!(numbers(&mut world.gone), Vec::<usize>::new());
}

#[test]
fn pending_stream_can_itself_be_replaced() {
    let mut world = World::new(ProgramRule::Mix, &[0.5]);
    world.play(20, &[0]);
    let first = world.bequeath(0, -0.5);
    world.play(20, &[0, first]);
    let second = world.bequeath(0, 0.5);
    let received = world.play(WAITED, &[0, first, second]);
    assert!(
        received.iter().all(|sample| (sample - 0.5).abs() < 1e-6),
        "the first was never played"
    );
    assert_eq!(numbers(&mut world.gone), [first, 0]);
    assert_eq!(world.mixer.inputs[0].number, second);
}

#[test]
fn a_change_of_gain_makes_no_click() {
    let mut world = World::new(ProgramRule::Mix, &[0.5]);
    world.play(20, &[0]);
    let from = world.played.len();
    world.mixer.inputs[0].gain = Gain::from_db(-40.0).unwrap();
    world.play(20, &[0]);
    world.mixer.gain = Gain::SILENCE;
    world.play(4, &[0]);
    world.mixer.inputs[0].gain = Gain::UNITY;
    world.mixer.gain = Gain::UNITY;
    assert_eq!(ends(world.play(20, &[0])), 0.5);
    let bend = |three: &[f32]| (three[0] - 2.0 * three[1] + three[2]).abs();
    let sharpest = world.played[from..].windows(3).map(bend).fold(0.0, f32::max);
    // Two ramps, each of curvature up to 6/n² and slope up to 1.5/n.
    let n = VOLUME_RAMP as f32;
    assert!(sharpest < 0.5 * (2.0 * 6.0 + 2.0 * 1.5 * 1.5) / (n * n) + 1e-6, "{sharpest}");
}
