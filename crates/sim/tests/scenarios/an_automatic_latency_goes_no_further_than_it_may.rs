//! Under test: the latency that follows the packets and has an end, where packets come as a connection of TCP brings them
//! that loses some: what was lost is sent again, and all behind it waits and then comes at once.

use tautline_proto::target_delay::LossTarget;
use tautline_proto::time::Span;
use tautline_sim::heard::Heard;
use tautline_sim::link::{Holds, Jitter, PathModel};
use tautline_sim::scenario::Scenario;
use tautline_sim::world::World;

const MOST: Span = Span::from_millis(250);
const SECONDS: i64 = 60;

/// Of 100 ms there and back: each half second something is lost, which takes a round trip, or, where that is lost again,
/// several.
fn connection() -> PathModel {
    let length =
        Jitter::Pareto { scale: Span::from_millis(60), shape: 1.2, most: Span::from_millis(600) };
    let holds = Some(Holds { every: Span::from_millis(500), length });
    PathModel { holds, ..PathModel::ideal(Span::from_millis(50)) }
}

fn heard_by(path: PathModel, most: Option<Span>, seed: u64) -> Heard {
    let mut scenario = Scenario::one_way(path, seed);
    scenario.auto = Some(LossTarget::DEFAULT);
    scenario.auto_most = most;
    let mut world = World::new(scenario);
    world.run(Span::from_secs(SECONDS));
    world.finish().remove(0)
}

fn longest(heard: &Heard) -> Span {
    heard.offsets.iter().map(|(_, offset)| *offset).max().expect("it followed")
}

/// The share of packets that were late.
fn late(heard: &Heard) -> f64 {
    heard.counters.late as f64 / heard.counters.received as f64
}

#[test]
fn what_comes_later_than_it_may_is_late_and_the_rest_is_heard_in_time() {
    for seed in 1..=5 {
        let without = heard_by(connection(), None, seed);
        assert!(longest(&without) > Span::from_millis(400), "this proves nothing: {without}");
        let with = heard_by(connection(), Some(MOST), seed);
        let told = format!("seed {seed}: {with}; without an end {without}");
        assert!(longest(&with) <= MOST, "{}: {told}", longest(&with));
        // It is no latency that is kept short at any price: what comes within it is waited for.
        assert!(longest(&with) == MOST && late(&with) < 0.25, "{}: {told}", late(&with));
        assert!(late(&with) > late(&without), "{told}");
        assert_eq!(with.offsets, heard_by(connection(), Some(MOST), seed).offsets, "{told}");
    }
}

#[test]
fn a_way_that_takes_longer_than_it_may_is_heard_all_the_same() {
    // By a geostationary satellite, and Wi-Fi at its end.
    let jitter = Jitter::Uniform(Span::from_millis(20));
    let path = PathModel { jitter, ..PathModel::ideal(Span::from_millis(270)) };
    let heard = heard_by(path, Some(MOST), 7);
    let told = format!("seed 7: {heard}");
    assert!(late(&heard) < 0.005, "{}: {told}", late(&heard));
    assert!(longest(&heard) <= Span::from_millis(270 + 20 + 5), "{}: {told}", longest(&heard));
}
