//! The whole path with card drift, changing mappings, and underruns.

use tautline_proto::clock::ClockMapping;
use tautline_proto::endpoint::Author;
use tautline_proto::jitter_buffer::Resync;
use tautline_proto::time::{Frames, LocalTime, Span, WallTime};
use tautline_proto::units::Ppm;

use super::world::{SSRC, Scene, WALL, World, perfect, sample};

/// Deviation of each block from a period, in frames.
fn steps(world: &World) -> Vec<f64> {
    let media: Vec<_> = world.received.pulled.iter().filter_map(|pulled| pulled.media).collect();
    let period = world.scene.period.count() as f64;
    media.windows(2).map(|two| (two[1] - two[0]).as_f64() - period).collect()
}

/// One cent (578 ppm) in a block of 48 frames.
const CENT: f64 = 48.0 * 578e-6;

#[test]
fn a_card_that_drifts_is_resampled_and_stays_in_time() {
    for ppm in [-500.0, -100.0, 100.0, 500.0] {
        let card = Ppm::from_f64(ppm);
        let mut world = World::new(Scene { card, ..Scene::default() });
        for _ in 0..30_000 {
            world.period(perfect);
        }
        let counters = *world.receiver.counters();
        assert_eq!((counters.resyncs, counters.missing_frames, counters.lost), (0, 0, 0));
        let pitch = |step: &f64| (step + 48.0 * ppm * 1e-6).abs();
        assert!(steps(&world).iter().all(|step| pitch(step) <= CENT), "less than a cent");
        let drift = world.receiver.drift().expect("it is followed").as_f64();
        assert!((drift - ppm).abs() < 2.0, "{ppm}: {drift}");
        let off = world.received.passages.iter().map(|p| p.total().unwrap() - Span::from_millis(5));
        let off: Vec<_> = off.map(Span::abs).collect();
        let (worst, settled) = (off.iter().max().unwrap(), off[20_000..].iter().max().unwrap());
        assert!(*worst <= Span::from_micros(450), "{ppm}: {worst}");
        assert!(*settled <= Span::from_micros(3), "{ppm}: {settled}");
    }
}

#[test]
fn drifting_card_is_resampled_by_arrivals_alone() {
    let card = Ppm::from_f64(-100.0);
    let mut world = World::new(Scene { card, mapped: false, stamps: false, ..Scene::default() });
    for _ in 0..60_000 {
        world.period(perfect);
    }
    let counters = *world.receiver.counters();
    assert_eq!((counters.resyncs, counters.missing_frames, counters.lost), (0, 0, 0));
    assert!(steps(&world).iter().all(|step| step.abs() <= CENT), "less than a cent");
    assert!(counters.resampled_frames > 0, "{counters:?}");
}

#[test]
fn arrivals_that_jitter_do_not_make_the_sound_flap() {
    for jitter in [500, 2000, 8000] {
        let latency = Span::from_millis(20);
        let mut world =
            World::new(Scene { mapped: false, stamps: false, latency, ..Scene::default() });
        let mut random = 1_u32;
        for _ in 0..20_000 {
            world.period(|mut datagram| {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                datagram.arrives += Span::from_micros(i64::from((random >> 8) % jitter));
                vec![datagram]
            });
        }
        let counters = *world.receiver.counters();
        assert_eq!((counters.lost, counters.late, counters.missing_frames), (0, 0, 0), "{jitter}");
        // One correction while the fastest arrivals are found.
        assert!(counters.resyncs <= 1, "{jitter}: {counters:?}");
        let settled = &steps(&world)[2000..];
        assert!(settled.iter().all(|step| step.abs() <= CENT / 2.0), "{jitter}: {counters:?}");
    }
}

/// Half a second by arrivals, then 8 s with the clock.
fn mapped_late(path: Span) -> World {
    let mut world = World::new(Scene { mapped: false, ..Scene::default() });
    for period in 0..8500 {
        if period == 500 {
            world
                .receiver
                .set_clock(Author::of(SSRC), ClockMapping::known(WALL, Span::from_micros(10)));
        }
        world.period(|mut datagram| {
            datagram.arrives += path;
            vec![datagram]
        });
    }
    world
}

#[test]
fn late_mapping_moves_the_sound_once() {
    let world = mapped_late(Span::from_millis(2));
    let counters = world.receiver.counters();
    assert_eq!((counters.resyncs, counters.lost, counters.late), (1, 0, 0), "{counters:?}");
    let resyncs: Vec<_> = world.received.pulled.iter().filter_map(|pulled| pulled.resync).collect();
    assert_eq!(resyncs, [Resync::Moved]);
    let error = world.latency_of_the_last() - Span::from_millis(5);
    assert!(error.abs() <= Span::from_micros(42), "{error}");
}

#[test]
fn a_mapping_that_changes_little_is_followed_without_a_jump() {
    let world = mapped_late(Span::ZERO);
    let counters = world.receiver.counters();
    assert_eq!((counters.resyncs, counters.missing_frames), (0, 0), "{counters:?}");
    assert!(steps(&world).iter().all(|step| step.abs() <= CENT), "less than a cent");
    let error = world.latency_of_the_last() - Span::from_millis(5);
    assert!(error.abs() <= Span::from_micros(42), "{error}");
}

/// Actual error and reported uncertainty, in microseconds.
fn mapping(wrong: i64, sure: i64) -> ClockMapping {
    ClockMapping::known(WALL + Span::from_micros(wrong), Span::from_micros(sure))
}

#[test]
fn a_mapping_that_becomes_surer_is_followed() {
    for (wrong, resyncs) in [(500, 0), (1500, 1)] {
        let mut world = World::new(Scene { latency: Span::from_millis(10), ..Scene::default() });
        world.receiver.set_clock(Author::of(SSRC), mapping(wrong, 2000));
        for _ in 0..500 {
            world.period(perfect);
        }
        world.receiver.set_clock(Author::of(SSRC), mapping(0, 20));
        for _ in 0..8000 {
            world.period(perfect);
        }
        assert_eq!(world.receiver.counters().resyncs, resyncs, "{wrong}");
        let error = world.latency_of_the_last() - Span::from_millis(10);
        assert!(error.abs() <= Span::from_micros(42), "{wrong}: {error}");
    }
}

#[test]
fn a_mapping_that_becomes_less_sure_resamples_nothing() {
    let mut world = World::new(Scene { latency: Span::from_millis(10), ..Scene::default() });
    for (wrong, sure) in [(0, 20), (-900, 1000)] {
        world.receiver.set_clock(Author::of(SSRC), mapping(wrong, sure));
        for _ in 0..500 {
            world.period(perfect);
        }
    }
    let counters = world.receiver.counters();
    assert_eq!((counters.resyncs, counters.resampled_frames), (0, 0), "{counters:?}");
}

#[test]
fn device_silence_is_skipped_without_resync() {
    let mut world = World::new(Scene { latency: Span::from_millis(8), ..Scene::default() });
    for period in 0..1000 {
        if period % 100 == 50 {
            let skipped = Frames::new(48 * (1 + period / 400) + 7);
            world.stall(world.scene.rate.span_of(skipped) + Span::from_nanos(1), true);
        }
        world.period(perfect);
    }
    let counters = world.receiver.counters();
    assert_eq!((counters.resyncs, counters.resampled_frames), (0, 0), "{counters:?}");
    assert_eq!((counters.lost, counters.late, counters.missing_frames), (0, 0, 0), "{counters:?}");
    let error = world.latency_of_the_last() - Span::from_millis(8);
    assert!(error.abs() <= Span::from_micros(42), "{error}");
    assert_eq!(steps(&world).iter().filter(|step| **step > 0.0).count(), 10);
}

#[test]
fn the_sound_is_moved_with_fades_and_without_a_click() {
    let mut world = World::new(Scene::default());
    for period in 0..400 {
        match period {
            100 => world.receiver.set_link_offset(Span::from_millis(8)),
            // Frames exist on both sides of the cut.
            200 => world.receiver.set_link_offset(Span::from_micros(6_500)),
            _ => {}
        }
        world.period(perfect);
    }
    assert_eq!(world.receiver.counters().resyncs, 2);
    let moved = world.received.pulled.iter().rposition(|pulled| pulled.resync.is_some()).unwrap();
    let sound = world.sound();
    let (before, after) = (sound[moved * 48 - 1], sound[moved * 48]);
    let last = (0..).find(|index| sample(*index) == before).unwrap();
    let next = sample(last + 1);
    assert!((after - next).abs() < 0.05, "{before}, then {after}; without the move {next}");
}

#[test]
fn a_latency_of_a_tenth_of_a_second_is_kept_by_arrivals_too() {
    let latency = Span::from_millis(100);
    let mut world = World::new(Scene { mapped: false, stamps: false, latency, ..Scene::default() });
    let start = LocalTime::from_nanos(1_000_000_000);
    for _ in 0..1000 {
        world.period(perfect);
    }
    let captured = start + world.scene.rate.span_of(Frames::new(20_000));
    // The path delay of 100 µs is unknown.
    let error =
        world.received_at(20_000).expect("heard") - captured - latency - Span::from_micros(100);
    assert!(error.abs() <= Span::from_micros(21), "{error}");
    assert!(world.sound()[30_000..].iter().all(|sample| *sample != 0.0));
}

#[test]
fn stalled_device_continues_with_packets_received_meanwhile() {
    for reported in [true, false] {
        let mut world = World::new(Scene { latency: Span::from_millis(50), ..Scene::default() });
        for period in 0..3000 {
            if period == 1000 {
                world.stall(Span::from_secs(1), reported);
            }
            world.period(perfect);
        }
        let counters = *world.receiver.counters();
        assert_eq!((counters.too_early, counters.lost), (0, 0), "{reported}: {counters:?}");
        assert!(counters.missing_frames == 0, "{reported}: {counters:?}");
        assert_eq!(counters.resyncs, u64::from(!reported), "{counters:?}");
        let error = world.latency_of_the_last() - Span::from_millis(50);
        assert!(error.abs() <= Span::from_micros(42), "{reported}: {error}");
    }
}

#[test]
fn mapping_expires_after_10_s() {
    use tautline_proto::clock::{ClockEstimator, Exchange};
    use tautline_proto::placement::Basis;

    let mut world = World::new(Scene { mapped: false, ..Scene::default() });
    let answered = world.now;
    let wall = WallTime::of_local(answered, WALL);
    let requested = answered - Span::from_micros(40);
    let (peer_received, peer_answered) =
        (wall + Span::from_micros(-20), wall + Span::from_micros(-20));
    let reading_error = Span::ZERO;
    let exchange = Exchange { requested, peer_received, peer_answered, answered, reading_error };
    let mapping = ClockEstimator::new().observe(exchange).expect("nothing contradicts it");
    world.receiver.set_clock(Author::of(SSRC), mapping);
    let basis = |world: &World| world.receiver.placement().due(world.now).map(|due| due.basis);
    for _ in 0..9_000 {
        world.period(perfect);
    }
    assert_eq!(basis(&world), Some(Basis::Clock));
    let unsure = world.receiver.placement().due(world.now).unwrap().uncertainty;
    assert!(unsure > Span::from_micros(20 + 130), "it grows by 15 ppm: {unsure}");
    for _ in 0..2_000 {
        world.period(perfect);
    }
    assert_eq!(basis(&world), Some(Basis::Arrival));
    // The path delay is too little for a restart.
    let counters = world.receiver.counters();
    assert_eq!((counters.resyncs, counters.missing_frames), (0, 0), "{counters:?}");
}

#[test]
fn shared_clock_cards_are_copied_despite_wandering_times() {
    for one_clock in [true, false] {
        let wander = Span::from_micros(80);
        let mut world = World::new(Scene { one_clock, wander, ..Scene::default() });
        for _ in 0..20_000 {
            world.period(perfect);
        }
        let counters = *world.receiver.counters();
        assert_eq!((counters.resyncs, counters.missing_frames, counters.lost), (0, 0, 0));
        assert_eq!(counters.resampled_frames == 0, one_clock, "{counters:?}");
        assert!(world.receiver.drift().is_none() || !one_clock);
        assert!(world.received_whole_at_the_end() || !one_clock);
    }
}

#[test]
fn proof_of_a_shared_clock_moves_the_place_once() {
    let mut world = World::new(Scene { mapped: false, ..Scene::default() });
    for _ in 0..400 {
        world.period(perfect);
    }
    world.share_clock();
    for _ in 0..3000 {
        world.period(perfect);
    }
    let counters = *world.receiver.counters();
    assert_eq!((counters.resampled_frames, counters.resyncs), (0, 1));
    assert_eq!(world.latency_of_the_last(), world.scene.latency);
    assert!(world.received_whole_at_the_end());
}
