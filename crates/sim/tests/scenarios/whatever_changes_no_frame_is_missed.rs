//! Under test: sender and receiver when anything changes at any time, on a path that does nothing to
//! packets.

use fastrand::Rng;
use tautline_dsp::format::SampleFormat;
use tautline_proto::redundancy::Redundancy;
use tautline_proto::send_policy::SendRefused;
use tautline_proto::time::{Frames, Span};
use tautline_sim::link::PathModel;
use tautline_sim::scenario::Scenario;
use tautline_sim::world::{Change, World};

fn any(rng: &mut Rng) -> Change {
    match rng.u8(0..4) {
        0 => Change::Packet(Frames::new(rng.i64(6..=960))),
        1 => Change::Sample(if rng.bool() { SampleFormat::F32 } else { SampleFormat::L24 }),
        2 => Change::Latency(Span::from_micros(rng.i64(45_000..100_000))),
        _ => {
            let asked = ["off", "red:1", "red:2", "code:1", "code:3"][rng.usize(0..5)];
            Change::Redundancy(asked.parse::<Redundancy>().expect("a known kind"))
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
            // A budget that holds no packet of the present length repairs nothing, and is refused.
            let refused = world.change(change).err();
            let no_repair = |refused| matches!(refused, SendRefused::NoRepair(_));
            assert!(refused.is_none_or(no_repair), "{change:?}: {refused:?}");
            world.run(Span::from_micros(rng.i64(1..300_000)));
            let heard = world.heard().next().unwrap();
            let told = format!("ideal path, seed {seed}, after {change:?}: {heard}");
            let missed = (heard.counters.lost, heard.counters.late, heard.counters.missing_frames);
            assert_eq!(missed, (0, 0, 0), "{told}");
            assert!(heard.first_wrong.is_none(), "{told}");
        }
    }
}
