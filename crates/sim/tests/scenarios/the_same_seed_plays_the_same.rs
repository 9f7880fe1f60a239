//! Under test: the simulator itself, on the preset that draws the most, with two receivers and all
//! that follows the network: redundancy that sizes itself and a latency that follows arrivals.

use tautline_proto::counters::Counters;
use tautline_proto::redundancy::Redundancy;
use tautline_proto::target_delay::LossTarget;
use tautline_proto::time::Span;
use tautline_sim::preset::Preset;
use tautline_sim::scenario::Scenario;
use tautline_sim::world::play;

/// Every sample that each receiver played, as a digest, and what it counted.
fn played(seed: u64) -> Vec<(u64, Counters)> {
    let mut scenario = Scenario::on(Preset::WifiBad, seed);
    scenario.receivers.extend_from_within(..);
    scenario.latency = Span::from_millis(60);
    scenario.redundancy = Redundancy::Auto;
    scenario.budget = Span::from_millis(20);
    scenario.auto = Some(LossTarget::DEFAULT);
    let heard = play(scenario, Span::from_secs(20));
    heard.iter().map(|heard| (heard.digest, heard.counters)).collect()
}

#[test]
fn the_same_seed_plays_the_same() {
    let (one, again, other) = (played(5), played(5), played(6));
    assert_eq!(one, again, "wifi-bad, seed 5");
    for (number, (one, other)) in one.iter().zip(&other).enumerate() {
        assert_ne!(one.0, other.0, "wifi-bad, seeds 5 and 6, receiver {number}");
        assert!(one.1.repaired > 0, "wifi-bad, seed 5, receiver {number}: {:?}", one.1);
    }
    // They share what is sent, and nothing of their ways.
    assert_ne!(one[0].0, one[1].0, "wifi-bad, seed 5");
}
