//! Gains of a zone in the mix.

use tautline_proto::clock::{ClockEstimator, Exchange};
use tautline_proto::time::WallTime;
use tautline_proto::zone::{
    AnnouncementId, Arbiter, Claim, Class, Duck, Priority, ProgramRule, ReceivedClaim, Targets,
    ZoneGains, ZoneSettings,
};

use super::*;

const PROGRAM: f32 = 0.5;
const PAGE: f32 = 0.25;

fn at(millis: i64) -> LocalTime {
    LocalTime::ZERO + Span::from_millis(millis)
}

fn wall(millis: i64) -> WallTime {
    WallTime::of_local(at(millis), Span::ZERO)
}

/// Decision about a page of stream `ssrc` from 100 ms to 200 ms.
fn page(ssrc: u32) -> ZoneGains {
    let mut arbiter = Arbiter::new(ZoneSettings {
        numbers: vec![3],
        lead: Span::ZERO,
        rule: ProgramRule::Mix,
        programs: 0,
    });
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
        priority: Priority(100),
        rank: 0,
        starts: wall(100),
        ends: Some(wall(200)),
        sent: wall(1),
        longest: Span::from_secs(9),
        duck: Duck { down, hold, up, ..Duck::of(Class::Announcement) },
    };
    let targets = Targets::new(&[[0, 3]]).unwrap();
    arbiter.handle_claim(&ReceivedClaim { ssrc, claim, targets, clock }, at(1)).unwrap();
    arbiter.handle_sound(ssrc, wall(200), at(1));
    arbiter.gains()
}

/// A program, and an announcement port.
fn zone(select: Select) -> (World, Producer<ZoneGains>) {
    let mut world = World::new(select, &[PROGRAM, PAGE]);
    let (gains, coming) = RingBuffer::new(1);
    world.mixer.zone = Some(Box::new(ZoneMix::new(coming, RingBuffer::new(1).0)));
    world.mixer.inputs[1].announces = Some(WallTime::default());
    (world, gains)
}

/// Samples presented between two times.
fn played(world: &World, from: i64, to: i64) -> &[f32] {
    let begins = (LATENCY - TICK + TICK).as_nanos() / 1_000_000;
    let frame = |millis: i64| (millis - begins) as usize * PACKET;
    &world.played[frame(from)..frame(to)]
}

#[test]
fn unclaimed_stream_changes_no_bit_of_the_program() {
    for select in [Select::Mix, Select::Priority] {
        let (mut world, mut gains) = zone(select);
        world.play(60, &[0, 1]);
        gains.push(page(99)).unwrap();
        world.play(40, &[0, 1]);
        assert!(played(&world, 30, 99).iter().all(|sample| *sample == PROGRAM), "{select:?}");
    }
}

#[test]
fn claimed_stream_plays_at_its_time_and_the_program_returns() {
    for select in [Select::Mix, Select::Priority] {
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
