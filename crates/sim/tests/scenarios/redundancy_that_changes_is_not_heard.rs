//! Under test: sender and receiver when what packets carry of earlier ones changes in the middle of a
//! stream that loses packets: what is carried repairs, and nothing else is heard of the change.

use tautline_proto::redundancy::Redundancy;
use tautline_proto::time::Span;
use tautline_sim::preset::Preset;
use tautline_sim::scenario::Scenario;
use tautline_sim::world::{Change, World};

#[test]
fn redundancy_that_changes_is_not_heard() {
    let seed = 24;
    let mut scenario = Scenario::on(Preset::Wired, seed);
    (scenario.latency, scenario.budget) = (Span::from_millis(20), Span::from_millis(10));
    let mut world = World::new(scenario);
    world.run(Span::from_secs(2));
    for _ in 0..20 {
        for asked in ["red:1", "code:2", "off", "red:3", "code:1"] {
            let asked: Redundancy = asked.parse().unwrap();
            world.change(Change::Redundancy(asked)).unwrap();
            world.run(Span::from_micros(211_003));
        }
    }
    let heard = &world.finish()[0];
    let told = format!("wired, seed {seed}: {heard}");
    assert!(heard.first_wrong.is_none() && heard.spoilt.is_empty(), "{told}");
    assert_eq!((heard.counters.lost, heard.counters.late), (0, 0), "{told}");
    assert_eq!((heard.counters.missing_frames, heard.counters.resyncs), (0, 0), "{told}");
    assert_eq!((heard.counters.duplicate, heard.counters.invalid), (0, 0), "{told}");
}
