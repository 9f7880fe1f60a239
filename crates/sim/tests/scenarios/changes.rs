//! Inaudible changes in a running stream.

use fastrand::Rng;
use tautline_dsp::format::SampleFormat;
use tautline_proto::redundancy::Redundancy;
use tautline_proto::send_policy::SendRefused;
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_sim::clock::{ClockError, TrueTime};
use tautline_sim::link::{Jitter, PathModel};
use tautline_sim::preset::Preset;
use tautline_sim::scenario::Scenario;
use tautline_sim::world::{Change, World};

#[test]
fn changed_coding_is_not_played() {
    let seed = 22;
    let mut path = Preset::Wired.path();
    (path.jitter, path.overtakes) = (Jitter::Uniform(Span::from_millis(4)), true);
    let mut scenario = Scenario::one_way(path, seed);
    scenario.network = "wired with 4 ms of jitter";
    scenario.latency = Span::from_millis(15);
    let mut world = World::new(scenario);
    world.run(Span::from_secs(2));
    for change in 0..500 {
        let sample = if change % 2 == 0 { SampleFormat::F32 } else { SampleFormat::L24 };
        world.change(Change::Sample(sample)).unwrap();
        world.run(Span::from_micros(50_013));
    }
    let received = &world.finish()[0];
    let reported = format!("wired with 4 ms of jitter, seed {seed}: {received}");
    assert!(received.counters.reordered > 1000, "{reported}");
    assert!(received.first_wrong.is_none() && received.damaged.is_empty(), "{reported}");
    assert_eq!((received.counters.lost, received.counters.late), (0, 0), "{reported}");
    assert_eq!((received.counters.missing_frames, received.counters.invalid), (0, 0), "{reported}");
}

// A rise repeats sound, a fall skips some, and a small change is resampled.

#[test]
fn a_latency_that_changes_leaves_no_gap() {
    let seed = 23;
    let mut world = World::new(Scenario::on(Preset::Wired, seed));
    world.run(Span::from_secs(2));
    let changes = [8, 5, 40, 12, 60, 6, 25, 4];
    for millis in changes {
        world.change(Change::Latency(Span::from_millis(millis))).unwrap();
        world.run(Span::from_secs(2));
    }
    let received = &world.finish()[0];
    let reported = format!("wired, seed {seed}: {received}");
    assert!(received.first_wrong.is_none(), "{reported}");
    assert_eq!((received.counters.lost, received.counters.late), (0, 0), "{reported}");
    assert_eq!(received.counters.missing_frames, 0, "{reported}");
    assert!(received.damaged.values().sum::<u64>() <= changes.len() as u64, "{reported}");
    assert!(received.longest_spoilt() <= Frames::new(72), "{reported}");
    assert!(received.error_at(0.999).unwrap() < Span::from_micros(60), "{reported}");
}

#[test]
fn changed_packet_time_is_inaudible() {
    let seed = 21;
    let mut scenario = Scenario::on(Preset::Wired, seed);
    scenario.latency = Span::from_millis(30);
    let mut world = World::new(scenario);
    world.run(Span::from_secs(2));
    for round in 0..6 {
        for packet in [6, 960, 72, 7, 480, 50, 48] {
            world.change(Change::Packet(Frames::new(packet))).unwrap();
            world.run(Span::from_micros(700_007 + 1_301 * round));
        }
    }
    let received = &world.finish()[0];
    let reported = format!("wired, seed {seed}: {received}");
    assert!(received.first_wrong.is_none() && received.damaged.is_empty(), "{reported}");
    assert_eq!((received.counters.lost, received.counters.late), (0, 0), "{reported}");
    assert_eq!((received.counters.missing_frames, received.counters.resyncs), (0, 0), "{reported}");
    assert!(received.error_at(1.0).unwrap() < Span::from_micros(60), "{reported}");
    assert!(received.blocks > 30_000, "{reported}");
}

#[test]
fn changed_redundancy_is_inaudible() {
    let seed = 24;
    let mut scenario = Scenario::on(Preset::Wired, seed);
    (scenario.latency, scenario.budget) = (Span::from_millis(20), Span::from_millis(10));
    let mut world = World::new(scenario);
    world.run(Span::from_secs(2));
    for _ in 0..20 {
        for requested in ["red:1", "fec:2", "off", "red:3", "fec:1"] {
            let requested: Redundancy = requested.parse().unwrap();
            world.change(Change::Redundancy(requested)).unwrap();
            world.run(Span::from_micros(211_003));
        }
    }
    let received = &world.finish()[0];
    let reported = format!("wired, seed {seed}: {received}");
    assert!(received.first_wrong.is_none() && received.damaged.is_empty(), "{reported}");
    assert_eq!((received.counters.lost, received.counters.late), (0, 0), "{reported}");
    assert_eq!((received.counters.missing_frames, received.counters.resyncs), (0, 0), "{reported}");
    assert_eq!((received.counters.duplicate, received.counters.invalid), (0, 0), "{reported}");
}

fn any(rng: &mut Rng) -> Change {
    match rng.u8(0..4) {
        0 => Change::Packet(Frames::new(rng.i64(6..=960))),
        1 => Change::Sample(if rng.bool() { SampleFormat::F32 } else { SampleFormat::L24 }),
        2 => Change::Latency(Span::from_micros(rng.i64(45_000..100_000))),
        _ => {
            let requested = ["off", "red:1", "red:2", "fec:1", "fec:3"][rng.usize(0..5)];
            Change::Redundancy(requested.parse::<Redundancy>().expect("a known kind"))
        }
    }
}

#[test]
fn whatever_changes_no_frame_is_missed() {
    for seed in 0..40 {
        let mut rng = Rng::with_seed(seed);
        let mut scenario = Scenario::one_way(PathModel::ideal(Span::from_micros(100)), seed);
        scenario.network = "ideal path";
        (scenario.latency, scenario.budget) = (Span::from_millis(60), Span::from_millis(10));
        scenario.sender.card.period = Frames::new([12, 48, 64, 240, 441][rng.usize(0..5)]);
        let mut world = World::new(scenario);
        world.run(Span::from_secs(1));
        for _ in 0..60 {
            let change = any(&mut rng);
            // A budget shorter than a packet repairs nothing.
            let refused = world.change(change).err();
            let no_repair = |refused| matches!(refused, SendRefused::NoRepair(_));
            assert!(refused.is_none_or(no_repair), "{change:?}: {refused:?}");
            world.run(Span::from_micros(rng.i64(1..300_000)));
            let received = world.received().next().unwrap();
            let reported = format!("ideal path, seed {seed}, after {change:?}: {received}");
            let missed =
                (received.counters.lost, received.counters.late, received.counters.missing_frames);
            assert_eq!(missed, (0, 0, 0), "{reported}");
            assert!(received.first_wrong.is_none(), "{reported}");
        }
    }
}

// A path that changes by 5 ms for good, one way or both, moves neither clocks nor sound.

const CHANGE: TrueTime = TrueTime::from_nanos(60_000_000_000);

#[test]
fn a_path_that_becomes_another_moves_no_sound() {
    // With Wi-Fi queues, knowing the clock to 150 µs takes most of a minute.
    for (preset, maximum) in [(Preset::Wired, 20), (Preset::Wifi5Ghz, 150)] {
        for (there, back) in [(5, 5), (5, 0), (0, 5), (-5, -5), (-5, 0), (0, -5)] {
            let seed = 33;
            let path = |by: i64| {
                let path = preset.path();
                let delay = path.delay + Span::from_millis(6);
                PathModel { delay, ..path }.longer_from(CHANGE, Span::from_millis(by))
            };
            let mut scenario = Scenario::one_way(path(there), seed);
            scenario.network = preset.name();
            scenario.receivers[0].back = path(back);
            scenario.latency = Span::from_millis(40);
            scenario.receivers[0].host.clock =
                ClockError::quartz(LocalTime::from_nanos(77_000_000_000), 40.0);
            let mut world = World::new(scenario);
            world.run(CHANGE.since(TrueTime::ZERO));
            let reported =
                format!("{} there {there} ms, back {back} ms, seed {seed}", preset.name());
            for _ in 0..3000 {
                world.run(Span::from_millis(20));
                let look = world.look(0).expect("it plays");
                let at = world.now().as_nanos() / 1_000_000;
                assert!(look.error.abs() <= look.uncertainty, "{reported}: {look:?} at {at} ms");
                assert!(
                    look.error.abs() <= Span::from_micros(maximum),
                    "{reported}: {look:?} at {at} ms"
                );
            }
            let look = world.look(0).expect("it plays");
            assert_eq!((look.steps, look.path_changes), (0, 1), "{reported}: {look:?}");
            let received = &world.finish()[0];
            assert_eq!(received.counters.resyncs, 0, "{reported}: {received}");
        }
    }
}
