//! Gains of a zone in the mix.

use tautline_proto::clock::{ClockEstimator, Exchange};
use tautline_proto::time::WallTime;
use tautline_proto::zone::{
    AnnouncementId, Arbiter, Claim, Duck, Priority, ProgramRule, ReceivedClaim, Targets, ZoneGains,
    ZoneSettings,
};

use super::*;
use crate::plan::zone::{VolumeControl, ZoneVolumes};

const PROGRAM: f32 = 0.5;
const PAGE: f32 = 0.25;

fn at(millis: i64) -> LocalTime {
    LocalTime::ZERO + Span::from_millis(millis)
}

fn wall(millis: i64) -> WallTime {
    WallTime::of_local(at(millis), Span::ZERO)
}

/// Rank of the station in the zone.
const OWN: u16 = 9;

/// Decision about a page of stream `ssrc` from 100 ms to 200 ms.
fn page(ssrc: u32) -> ZoneGains {
    announcement(ssrc, Priority(100), 0, [0, 3])
}

fn announcement(ssrc: u32, priority: Priority, rank: u16, target: [u8; 2]) -> ZoneGains {
    let mut arbiter =
        Arbiter::new(ZoneSettings { numbers: vec![3], muted_by: vec![OWN], lead: Span::ZERO });
    let clock = ClockEstimator::new().observe(Exchange {
        requested: at(1),
        peer_received: wall(1),
        peer_answered: wall(1),
        answered: at(1),
        reading_error: Span::ZERO,
    });
    let [down, hold, up] = [20, 30, 50].map(Span::from_millis);
    let claim = Claim {
        id: AnnouncementId(1),
        priority,
        rank,
        starts: wall(100),
        ends: Some(wall(200)),
        sent: wall(1),
        longest: Span::from_secs(9),
        duck: Duck { down, hold, up, ..Duck::of(priority.class()) },
    };
    let targets = [target];
    let targets = Targets::new(&targets).unwrap();
    arbiter.handle_claim(&ReceivedClaim { ssrc, claim, targets, clock }, at(1)).unwrap();
    arbiter.handle_sound(ssrc, wall(200), at(1));
    arbiter.gains()
}

/// A program, and an announcement port.
fn zone(select: ProgramRule) -> (World, Producer<ZoneGains>) {
    let (world, gains, _) = zone_with_volumes(select);
    (world, gains)
}

fn zone_with_volumes(select: ProgramRule) -> (World, Producer<ZoneGains>, VolumeControl) {
    let mut world = World::new(select, &[PROGRAM, PAGE]);
    let ((gains, coming), volumes) = (RingBuffer::new(1), VolumeControl::default());
    world.mixer.zone = Some(Box::new(ZoneMix::new(coming, RingBuffer::new(1).0, volumes.clone())));
    world.mixer.inputs[1].announces = Some(WallTime::default());
    (world, gains, volumes)
}

/// Volumes of programs, announcements and emergencies.
fn volumes(factors: [f32; 3]) -> ZoneVolumes {
    let [program, announcement, emergency] = factors.map(|it| Gain::from_bits(it.to_bits()));
    ZoneVolumes { program, announcement, emergency }
}

/// Samples presented between two times.
fn played(world: &World, from: i64, to: i64) -> &[f32] {
    let begins = (LATENCY - TICK + TICK).as_nanos() / 1_000_000;
    let frame = |millis: i64| (millis - begins) as usize * PACKET;
    &world.played[frame(from)..frame(to)]
}

#[test]
fn unclaimed_stream_changes_no_bit_of_the_program() {
    for select in [ProgramRule::Mix, ProgramRule::Priority] {
        let (mut world, mut gains) = zone(select);
        world.play(60, &[0, 1]);
        gains.push(page(99)).unwrap();
        world.play(40, &[0, 1]);
        assert!(played(&world, 30, 99).iter().all(|sample| *sample == PROGRAM), "{select:?}");
    }
}

#[test]
fn claimed_stream_plays_at_its_time_and_the_program_returns() {
    for select in [ProgramRule::Mix, ProgramRule::Priority] {
        let (mut world, mut gains) = zone(select);
        world.play(60, &[0, 1]);
        gains.push(page(2)).unwrap();
        world.play(300, &[0, 1]);
        let all = |from, to, level: f32| {
            let near = |sample: &f32| (sample - level).abs() < 1e-6;
            assert!(played(&world, from, to).iter().all(near), "{select:?} {from} to {to}");
        };
        assert!(played(&world, 30, 100).iter().all(|sample| *sample == PROGRAM));
        assert_eq!(played(&world, 100, 101)[0], PROGRAM + PAGE, "from the first frame on");
        all(120, 200, PROGRAM * 0.1 + PAGE);
        all(200, 230, PROGRAM * 0.1);
        assert!(played(&world, 280, 360).iter().all(|sample| *sample == PROGRAM));
    }
}

#[test]
fn room_of_the_station_is_silent_during_its_page() {
    // One page that other zones play, one that addresses the room, too.
    for target in [[0, 8], [0, 3]] {
        let (mut world, mut gains) = zone(ProgramRule::Mix);
        world.play(60, &[0, 1]);
        gains.push(announcement(2, Priority(100), OWN, target)).unwrap();
        world.play(300, &[0, 1]);
        assert!(played(&world, 30, 100).iter().all(|sample| *sample == PROGRAM));
        assert!(played(&world, 110, 200).iter().all(|sample| *sample == 0.0), "{target:?}");
        assert!(played(&world, 290, 360).iter().all(|sample| *sample == PROGRAM));
    }
}

#[test]
fn announcement_has_its_own_volume_from_its_first_frame_on() {
    for (priority, level) in [(100, 0.5), (240, 0.25)] {
        let (mut world, mut gains, control) = zone_with_volumes(ProgramRule::Mix);
        control.set(volumes([0.0, 0.5, 0.25]));
        gains.push(announcement(2, Priority(priority), 0, [0, 3])).unwrap();
        world.play(97, &[0]);
        world.play(200, &[0, 1]);
        assert!(played(&world, 30, 100).iter().all(|sample| *sample == 0.0));
        let page = played(&world, 100, 200);
        let first = page.iter().position(|sample| *sample != 0.0).unwrap();
        assert!(first < 480, "{first}");
        assert!(page[first..].iter().all(|sample| *sample == PAGE * level), "{priority}");
    }
}

#[test]
fn emergency_has_its_volume_while_it_plays() {
    let (mut world, mut gains, control) = zone_with_volumes(ProgramRule::Mix);
    control.set(volumes([0.0, 0.0, 1.0]));
    world.play(60, &[0, 1]);
    gains.push(announcement(2, Priority(240), 0, [0, 3])).unwrap();
    world.play(240, &[0, 1]);
    assert!(played(&world, 30, 100).iter().all(|sample| *sample == 0.0));
    // The program keeps its volume while it fades.
    assert!(played(&world, 100, 120).iter().all(|sample| (0.0..=PAGE).contains(sample)));
    assert!(played(&world, 120, 200).iter().all(|sample| *sample == PAGE));
    assert!(played(&world, 200, 290).iter().all(|sample| *sample == 0.0));
}

#[test]
fn changed_volume_ramps_over_10_ms() {
    let (mut world, _gains, control) = zone_with_volumes(ProgramRule::Mix);
    world.play(60, &[0]);
    control.set(volumes([0.0, 1.0, 1.0]));
    let ramp = world.play(20, &[0]);
    assert_eq!(ramp.iter().filter(|sample| **sample != 0.0).count(), VOLUME_RAMP - 1);
}

#[test]
fn new_source_has_the_volume_of_programs() {
    for joins in [None, Some(at(90))] {
        let (mut world, _gains, control) = zone_with_volumes(ProgramRule::Mix);
        control.set(volumes([0.5, 1.0, 1.0]));
        world.play(60, &[0]);
        let new = world.bequeath_at(0, 0.75, joins);
        // Without a clock of the sender, it waits for a second. Powers add up.
        let all = world.play(1200, &[0, new]);
        assert!(all.iter().all(|sample| *sample < 0.46), "{joins:?}");
        assert!(all[1150 * PACKET..].iter().all(|sample| *sample == 0.375), "{joins:?}");
    }
}
