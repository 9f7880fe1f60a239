//! Under test: the latency that follows arrivals, on a record of a minute with spikes up to 28 s, as
//! high as Roc Toolkit's report has them for a direct cable (qa report 20250210, `07--ether--spikes`:
//! peak jitter 6.15 ms, at which Roc kept 137 to 218 ms).

use tautline_proto::target_delay::LossTarget;
use tautline_proto::time::Span;
use tautline_sim::clock::TrueTime;
use tautline_sim::link::PathModel;
use tautline_sim::scenario::Scenario;
use tautline_sim::trace::Trace;
use tautline_sim::world::World;

const PEAK: Span = Span::from_micros(6_150);
/// A packet, the device's ring, and the record's own 0.8 ms when it is quiet.
const QUIET: Span = Span::from_micros(1_000 + 2_000 + 800);

#[test]
fn auto_latency_rides_out_spikes_and_comes_down_within_thirty_seconds() {
    let seed = 14;
    let trace = Trace::read(include_str!("../../traces/spikes.csv")).unwrap();
    let path = PathModel { trace: Some(trace), ..PathModel::ideal(Span::ZERO) };
    let mut scenario = Scenario::one_way(path, seed);
    scenario.network = "spikes";
    scenario.auto = Some(LossTarget::DEFAULT);
    let mut world = World::new(scenario);
    world.run(Span::from_secs(58));
    let heard = world.finish().remove(0);
    let told = format!("spikes, seed {seed}: {heard}");
    let highest = heard.offsets.iter().map(|(_, offset)| *offset).max().unwrap();
    assert!(highest <= PEAK + PEAK, "{highest}; {told}");
    // Spikes were waited for while they came, and are not any more.
    let at = |seconds: i64| {
        let before = |(at, _): &&(TrueTime, Span)| at.as_nanos() <= seconds * 1_000_000_000;
        heard.offsets.iter().rev().find(before).unwrap().1
    };
    assert!(at(28) > QUIET + Span::from_millis(2), "{}; {told}", at(28));
    assert!(at(58) < QUIET + Span::from_millis(1), "{}; {told}", at(58));
    // What was late is what the spikes brought that were higher than all before.
    assert!(heard.counters.late <= 20, "{told}");
}
