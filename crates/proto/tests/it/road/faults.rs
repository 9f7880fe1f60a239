//! The whole path with lost, late, reordered, recut or foreign packets.

use tautline_dsp::format::SampleFormat;
use tautline_proto::jitter_buffer::Resync;
use tautline_proto::packet::StreamId;
use tautline_proto::packetizer::{Identity, Packetizer, PacketizerConfig};
use tautline_proto::time::{Frames, Span};
use tautline_proto::units::Channels;
use tautline_proto::wrap::Wrapped;

use super::form::{ANEW, PACK};
use super::world::{Chance, Datagram, SSRC, Scene, WALL, World, perfect};

#[test]
fn every_packet_is_lost_or_received_and_none_is_both() {
    for seed in 0..30 {
        let mut chance = Chance(seed);
        let mut world = World::new(Scene::default());
        let (mut burst, mut dropped, mut late) = (0, 0, 0);
        for _ in 0..2000 {
            world.period(|mut datagram| {
                if !(50..1950).contains(&datagram.number) {
                    return vec![datagram];
                }
                if burst == 0 && chance.below(40) == 0 {
                    burst = 1 + chance.below(30);
                }
                if burst > 0 {
                    burst -= 1;
                    dropped += 1;
                    return vec![];
                }
                match chance.below(10) {
                    0 => vec![datagram.clone(), datagram],
                    1 => {
                        datagram.arrives += Span::from_millis(9);
                        late += 1;
                        vec![datagram]
                    }
                    2 => {
                        datagram.arrives += Span::from_millis(2);
                        vec![datagram]
                    }
                    _ => vec![datagram],
                }
            });
        }
        for _ in 0..30 {
            world.pause();
        }
        let counters = *world.receiver.counters();
        let unique = counters.received - counters.duplicate;
        assert_eq!((counters.lost, counters.late), (dropped, late), "seed {seed}: {counters:?}");
        assert_eq!(counters.lost + unique, 2000, "seed {seed}: {counters:?}");
        assert_eq!(counters.missing_frames, 48 * (dropped + late), "seed {seed}: {counters:?}");
        assert_eq!(counters.resyncs, 0);
    }
}

#[test]
fn a_packet_that_is_late_in_part_is_late_and_not_lost() {
    // Half of a 20 ms packet is in time.
    let scene =
        Scene { packet: Frames::new(960), latency: Span::from_millis(25), ..Scene::default() };
    let mut world = World::new(scene);
    for _ in 0..1000 {
        world.period(|mut datagram| {
            if datagram.number == 20 {
                datagram.arrives += Span::from_millis(14);
            }
            vec![datagram]
        });
    }
    let counters = world.receiver.counters();
    assert_eq!((counters.lost, counters.late), (0, 1), "{counters:?}");
    assert!((400..=560).contains(&counters.missing_frames), "{counters:?}");
}

#[test]
fn a_packet_from_before_the_first_takes_no_loss_away() {
    let mut world = World::new(Scene::default());
    for _ in 0..200 {
        world.period(|mut datagram| match datagram.number {
            0 => {
                datagram.arrives += Span::from_millis(100);
                vec![datagram]
            }
            50 => vec![],
            _ => vec![datagram],
        });
    }
    let counters = world.receiver.counters();
    assert_eq!((counters.lost, counters.late), (1, 1), "{counters:?}");
}

#[test]
fn a_foreign_sender_of_another_coding_changes_nothing() {
    let mut world = World::new(Scene::default());
    let mut intruder = World::new(Scene { sample: SampleFormat::L16, ..Scene::default() });
    intruder.restart_sender(99);
    for _ in 0..500 {
        let mut strange = vec![];
        intruder.period(|d| {
            strange.push(d);
            vec![]
        });
        world.period(|d| [std::mem::take(&mut strange), vec![d]].concat());
    }
    let counters = world.receiver.counters();
    assert_eq!((counters.missing_frames, counters.invalid), (0, 0), "{counters:?}");
    assert!(counters.other_source > 480, "{counters:?}");
    assert!(world.received_whole_at_the_end());
}

#[test]
fn a_sender_of_another_coding_may_follow_one_that_left() {
    let mut world = World::new(Scene::default());
    let mut follower = World::new(Scene { sample: SampleFormat::L16, ..Scene::default() });
    follower.restart_sender(99);
    for _ in 0..100 {
        world.period(perfect);
        follower.pause();
    }
    for _ in 0..60 {
        world.pause();
        follower.pause();
    }
    for _ in 0..500 {
        follower.period(|d| {
            world.on_the_way.push(d);
            vec![]
        });
        world.pause();
    }
    assert_eq!(world.receiver.format().sample, SampleFormat::L16);
    assert_eq!(world.receiver.counters().resyncs, 1);
    assert!(world.received_whole_at_the_end());
}

/// A program that restarts without a pause.
fn restarted(scene: Scene, identity: Identity) -> Packetizer {
    let format = *World::new(scene).receiver.format();
    Packetizer::new(PacketizerConfig {
        wire: PACK,
        format,
        identity,
        period: scene.period,
        stamps: scene.stamps,
        wall_offset: WALL,
        redundancy: tautline_proto::redundancy::Layout::NONE,
        presented_after: Span::ZERO,
    })
}

#[test]
fn restart_with_the_old_ssrc_is_followed() {
    for marked in [true, false] {
        let mut world = World::new(Scene::default());
        for _ in 0..300 {
            world.period(perfect);
        }
        let identity =
            Identity { stream: StreamId::from(SSRC), sequence: 20_000, timestamp: 0x5555_0000 };
        world.sender = restarted(world.scene, identity);
        for _ in 0..600 {
            world.period(|mut datagram| {
                if !marked {
                    datagram = datagram.saying(|head| head.begins = false);
                }
                vec![datagram]
            });
        }
        let counters = world.receiver.counters();
        assert_eq!((counters.resyncs, counters.lost), (1, 0), "marked {marked}: {counters:?}");
        let resync = world.received.pulled.iter().find_map(|pulled| pulled.resync);
        assert_eq!(resync, Some(Resync::NewSource));
        assert!(world.received_whole_at_the_end(), "marked {marked}");
        let error = world.latency_of_the_last() - Span::from_millis(5);
        assert!(error.abs() <= Span::from_micros(21), "marked {marked}: {error}");
    }
}

#[test]
fn new_ssrc_plays_after_the_old_one_is_silent() {
    let mut world = World::new(Scene::default());
    for _ in 0..300 {
        world.period(perfect);
    }
    world.restart_sender(7);
    for _ in 0..600 {
        world.period(perfect);
    }
    let counters = world.receiver.counters();
    assert_eq!((counters.resyncs, counters.lost), (1, 0), "{counters:?}");
    assert!((38..=42).contains(&counters.other_source), "{counters:?}");
    assert!(counters.missing_frames <= 48 * 45, "{counters:?}");
    assert!(world.received_whole_at_the_end());
}

#[test]
fn losses_of_an_earlier_sender_are_not_reported_to_the_next() {
    let mut world = World::new(Scene::default());
    for number in 0..300 {
        world.period(|datagram| if number % 50 == 7 { vec![] } else { vec![datagram] });
    }
    let earlier = world.receiver.losses().unwrap();
    assert_eq!((earlier.ssrc, earlier.lost, earlier.tally.missing), (SSRC, 6, 6));
    world.restart_sender(7);
    for _ in 0..600 {
        world.period(perfect);
    }
    let losses = world.receiver.losses().unwrap();
    assert_eq!((losses.ssrc, losses.lost, losses.tally.missing), (7, 0, 0), "{losses:?}");
    assert_eq!(world.receiver.counters().lost, 6);
}

#[test]
fn packets_in_flight_at_a_media_jump_are_not_lost() {
    let mut world = World::new(Scene { latency: Span::from_millis(50), ..Scene::default() });
    for _ in 0..300 {
        world.period(perfect);
    }
    for _ in 0..30 {
        world.pause();
    }
    for _ in 0..600 {
        world.period(perfect);
    }
    let counters = world.receiver.counters();
    assert_eq!((counters.lost, counters.late), (0, 0), "{counters:?}");
    assert!((1..=2).contains(&counters.resyncs), "{counters:?}");
}

#[test]
fn packets_that_an_outage_swallowed_are_lost_however_many() {
    // The second exceeds the sequence numbers.
    for swallowed in [10_000, 70_000] {
        let mut world = World::new(Scene::default());
        for _ in 0..swallowed + 1000 {
            world.period(|datagram| {
                let goes = (300..300 + swallowed).contains(&datagram.number);
                if goes { vec![] } else { vec![datagram] }
            });
        }
        let counters = world.receiver.counters();
        assert_eq!((counters.lost, counters.on_probation), (swallowed as u64, 0), "{counters:?}");
        assert_eq!(counters.resyncs, 1, "{counters:?}");
        assert!(world.received_whole_at_the_end(), "{counters:?}");
    }
}

#[test]
fn outage_with_skipped_card_frames_is_counted() {
    let scene = Scene { packet: Frames::new(6), ..Scene::default() };
    let mut world = World::new(scene);
    for period in 0..2400 {
        if [900, 1300].contains(&period) {
            world.skip(Frames::new(100));
        }
        world.period(|datagram| {
            let goes = (2400..13_400).contains(&datagram.number);
            if goes { vec![] } else { vec![datagram] }
        });
    }
    let counters = world.receiver.counters();
    assert_eq!((counters.lost, counters.on_probation), (11_000, 0), "{counters:?}");
    assert_eq!(counters.resyncs, 1, "{counters:?}");
    assert!(world.received_whole_at_the_end(), "{counters:?}");
}

fn renumbered(datagram: Datagram, by: u16) -> Datagram {
    datagram.saying(|head| head.number = head.number.plus(by.into()))
}

#[test]
fn restarted_sequence_numbers_lose_no_frame() {
    for by in ANEW {
        let mut world = World::new(Scene { latency: Span::from_millis(20), ..Scene::default() });
        for _ in 0..5000 {
            world.period(|datagram| match datagram.number {
                1000 => vec![],
                1001 => {
                    let arrives = datagram.arrives + Span::from_millis(3);
                    vec![renumbered(Datagram { arrives, ..datagram }, by)]
                }
                0..1000 => vec![datagram],
                _ => vec![renumbered(datagram, by)],
            });
        }
        let counters = world.receiver.counters();
        assert_eq!((counters.lost, counters.on_probation), (1, 0), "{by}: {counters:?}");
        assert_eq!((counters.resyncs, counters.missing_frames), (0, 48), "{by}: {counters:?}");
        assert_eq!((counters.reordered, counters.duplicate), (1, 0), "{by}: {counters:?}");
        assert!(world.received_whole_at_the_end(), "{by}: {counters:?}");
        assert!(
            world.received.passages.len() > 4970,
            "{by}: {} heard",
            world.received.passages.len()
        );
    }
}

#[test]
fn sixty_four_channels_at_100_ms_are_played_completely() {
    let channels = Channels::new(64).unwrap();
    let latency = Span::from_millis(100);
    let mut world = World::new(Scene { channels, latency, ..Scene::default() });
    for _ in 0..700 {
        world.period(perfect);
    }
    assert!(world.received_whole_at_the_end());
    assert!((world.latency_of_the_last() - latency).abs() <= Span::from_micros(21));
}

fn marked(datagram: Datagram) -> Datagram {
    datagram.saying(|head| head.begins = true)
}

#[test]
fn a_marker_on_every_packet_means_nothing() {
    let mut world = World::new(Scene::default());
    for _ in 0..1000 {
        world.period(|datagram| match datagram.number {
            // A packet too old for this run, then a gap due before its end is known.
            400 => {
                let old = datagram.clone().saying(|head| {
                    head.number = Wrapped::of(20_000, head.number.bits);
                });
                vec![marked(old), marked(datagram)]
            }
            500..510 => vec![],
            _ => vec![marked(datagram)],
        });
    }
    let counters = world.receiver.counters();
    assert_eq!((counters.resyncs, counters.lost), (0, 10), "{counters:?}");
    assert_eq!(counters.missing_frames, 480, "{counters:?}");
    assert!(world.received_whole_at_the_end());
}
