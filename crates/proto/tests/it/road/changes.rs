//! The whole path with format changes.

use tautline_dsp::format::SampleFormat;
use tautline_proto::endpoint::Author;
use tautline_proto::stream::{PTIME_RANGE, StreamFormat, packet_frames};
use tautline_proto::time::{Frames, Span};
use tautline_proto::units::{Channels, Rate};
use tautline_proto::wrap::Wrapped;

use crate::reformat::Reformat;

use super::world::{Chance, SSRC, Scene, World, perfect, sample};

const CODINGS: [SampleFormat; 3] = [SampleFormat::L16, SampleFormat::L24, SampleFormat::F32];

/// Sufficient for all packet lengths and periods here.
const PATIENT: Span = Span::from_millis(60);

fn set_sample(world: &mut World, coding: SampleFormat) -> bool {
    world.sender.set_sample(coding, StreamFormat::default_payload_type(coding))
}

#[track_caller]
fn received_without_gap(world: &World, reported: &str) {
    let counters = world.receiver.counters();
    assert_eq!((counters.lost, counters.late, counters.missing_frames), (0, 0, 0), "{reported}");
    assert_eq!((counters.resyncs, counters.resampled_frames), (0, 0), "{reported}");
    assert_eq!((counters.invalid, counters.on_probation), (0, 0), "{reported}");
    // After the fade-in.
    let received = &world.sound()[..];
    let fits =
        |at: usize, index: i64| (0..3).all(|n| received[at + n as usize] == sample(index + n));
    let begins = received.iter().position(|sample| *sample != 0.0).expect("sound") + 40;
    let first = (0..32_003).find(|index| fits(begins, *index)).expect("its frame");
    for (received, index) in received[begins..].iter().zip(first..) {
        assert_eq!(*received, sample(index), "frame {index}, {reported}");
    }
}

#[test]
fn a_change_of_packet_time_misses_no_frame() {
    for period in [48, 12, 240, 100] {
        let ptimes = [6, 48, 7, 960, 6, 72, 48, 480, 50, 48];
        let scene = Scene { period: Frames::new(period), latency: PATIENT, ..Scene::default() };
        let mut world = World::new(scene);
        for (step, packet) in ptimes.into_iter().enumerate() {
            assert!(world.sender.set_packet(Frames::new(packet)));
            // Another phase at each change.
            let frames = 48_000 / 4 + 131 * step as i64;
            (0..frames / period).for_each(|_| world.period(perfect));
            let format = world.receiver.format();
            assert_eq!(format.packet, Frames::new(packet), "period {period}, step {step}");
        }
        received_without_gap(&world, &format!("period {period}"));
    }
}

#[test]
fn a_change_of_coding_misses_no_frame() {
    let mut world = World::new(Scene { packet: Frames::new(72), ..Scene::default() });
    for step in 0..12 {
        let coding = CODINGS[step % 3];
        assert!(set_sample(&mut world, coding));
        (0..100 + step).for_each(|_| world.period(perfect));
        assert_eq!(world.receiver.format().sample, coding, "step {step}");
    }
    received_without_gap(&world, "codings");
}

#[test]
fn reordered_packets_keep_their_own_coding() {
    let mut world = World::new(Scene { latency: Span::from_millis(12), ..Scene::default() });
    for step in 0..60 {
        set_sample(&mut world, CODINGS[step % 3]);
        for odd in [false, true, false] {
            world.period(|mut datagram| {
                let delay = if odd { Span::from_micros(3500) } else { Span::ZERO };
                datagram.arrives += delay;
                vec![datagram]
            });
        }
    }
    assert!(world.receiver.counters().reordered > 40, "{:?}", world.receiver.counters());
    received_without_gap(&world, "overtaking");
}

#[test]
fn packet_age_at_departure_is_within_the_format() {
    for period in [48, 64, 240] {
        let mut chance = Chance(period as u32);
        let scene = Scene { period: Frames::new(period), latency: PATIENT, ..Scene::default() };
        let mut world = World::new(scene);
        for _ in 0..200 {
            let packet = Frames::new(6 + i64::from(chance.below(955)));
            assert!(world.sender.set_packet(packet));
            let mut format = *world.receiver.format();
            format.packet = packet;
            let age = format.packing_age(Frames::new(period));
            for block in 0..1 + chance.below(40) {
                world.period(|datagram| {
                    let instants = datagram.head().instants.expect("stamps");
                    // The first block completes an earlier packet.
                    assert!(block == 0 || instants.packed <= age, "{period}, {instants:?}, {age}");
                    vec![datagram]
                });
            }
        }
        received_without_gap(&world, &format!("period {period}"));
    }
}

#[test]
fn format_change_keeps_numbers_and_time_without_marker() {
    let mut world = World::new(Scene { latency: PATIENT, ..Scene::default() });
    let mut chance = Chance(7);
    let mut next: Option<(Wrapped, Wrapped)> = None;
    for _ in 0..300 {
        world.sender.set_packet(Frames::new(6 + i64::from(chance.below(900))));
        set_sample(&mut world, CODINGS[chance.below(3) as usize]);
        for _ in 0..1 + chance.below(12) {
            world.period(|datagram| {
                let head = datagram.head();
                let coding = CODINGS
                    .into_iter()
                    .find(|s| StreamFormat::default_payload_type(*s) == head.coding)
                    .expect("a payload type of ours");
                let frames = datagram.payload().len() / coding.bytes() / 2;
                assert_eq!(head.begins, next.is_none());
                if let Some(due) = next {
                    assert_eq!((head.number, head.media), due);
                }
                next = Some((head.number.plus(1), head.media.plus(frames as i64)));
                vec![datagram]
            });
        }
    }
    received_without_gap(&world, "numbers");
}

#[test]
fn changes_at_any_time_and_of_any_kind_miss_no_frame() {
    for seed in 0..60 {
        let mut chance = Chance(seed);
        let periods = [12, 48, 64, 240, 441];
        let scene = Scene {
            period: Frames::new(periods[chance.below(5) as usize]),
            latency: PATIENT,
            ..Scene::default()
        };
        let mut world = World::new(scene);
        for _ in 0..40 {
            (0..1 + chance.below(40)).for_each(|_| world.period(perfect));
            match chance.below(3) {
                0 => {
                    set_sample(&mut world, CODINGS[chance.below(3) as usize]);
                }
                1 => {
                    let packet = Frames::new(6 + i64::from(chance.below(955)));
                    assert!(world.sender.set_packet(packet));
                }
                _ => {
                    let ptime = Span::from_micros(125 * i64::from(1 + chance.below(160)));
                    let packet = packet_frames(Rate::HZ_48000, ptime).expect("a packet time");
                    assert!(world.sender.set_packet(packet));
                    set_sample(&mut world, CODINGS[chance.below(3) as usize]);
                }
            }
        }
        (0..100).for_each(|_| world.period(perfect));
        received_without_gap(&world, &format!("seed {seed}"));
    }
}

#[test]
fn change_too_large_for_a_datagram_is_rejected() {
    let channels = Channels::new(64).expect("64 channels");
    let scene = Scene { channels, rate: Rate::HZ_48000, latency: PATIENT, ..Scene::default() };
    let mut world = World::new(scene);
    let longest = Rate::HZ_48000.frames_within(PTIME_RANGE.1);
    assert!(!world.sender.set_packet(longest), "64 channels of 20 ms");
    assert!(!world.sender.set_packet(Frames::ZERO), "no packet is empty");
    // 340 frames fit at three bytes per sample, 255 at four.
    assert!(world.sender.set_packet(Frames::new(300)));
    assert!(!set_sample(&mut world, SampleFormat::F32));
    (0..400).for_each(|_| world.period(perfect));
    let format = *world.receiver.format();
    assert_eq!((format.packet, format.sample), (Frames::new(300), SampleFormat::L24));
    received_without_gap(&world, "64 channels");
}

#[test]
fn a_change_of_latency_misses_no_frame_whichever_way_it_goes() {
    for seed in 0..20 {
        let mut chance = Chance(seed);
        let mut world = World::new(Scene::default());
        let longest = world.receiver.longest_link_offset().as_nanos() / 1_000_000;
        (0..200).for_each(|_| world.period(perfect));
        let (mut latency, mut steps) = (5, 0);
        while steps < 20 {
            let next = 3 + i64::from(chance.below(longest as u32 - 3));
            let reported = format!("seed {seed}, step {steps}, from {latency} to {next} ms");
            world.receiver.set_link_offset(Span::from_millis(next));
            // Small changes are resampled: 5 s per millisecond.
            let periods = if (next - latency).abs() <= 1 { 6000 } else { 200 };
            (0..periods).for_each(|_| world.period(perfect));
            let counters = world.receiver.counters();
            let missed = (counters.lost, counters.late, counters.missing_frames);
            assert_eq!(missed, (0, 0, 0), "{reported}: {counters:?}");
            let reached = world.latency_of_the_last();
            let off = (reached - Span::from_millis(next)).abs();
            assert!(off < Span::from_micros(60), "{reported}: {reached}");
            (latency, steps) = (next, steps + 1);
        }
    }
}

#[test]
fn sender_returns_after_its_goodbye() {
    let mut world = World::new(Scene::default());
    (0..1000).for_each(|_| world.period(perfect));
    let said_goodbye = |world: &World| world.receiver.source().map(|source| source.said_goodbye());
    world.receiver.say_goodbye(Author::of(SSRC));
    // Packets in flight have no effect.
    (0..10).for_each(|_| world.period(perfect));
    assert_eq!(said_goodbye(&world), Some(true));
    (0..500).for_each(|_| world.period(|_| vec![]));
    (0..1000).for_each(|_| world.period(perfect));
    assert_eq!(said_goodbye(&world), Some(false));
    assert!(world.received_whole_at_the_end());
}
