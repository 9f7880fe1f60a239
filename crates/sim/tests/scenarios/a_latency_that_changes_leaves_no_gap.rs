//! Under test: the receiver when another latency is chosen while it plays: more repeats sound, less
//! leaves some out, a little is followed by resampling; nothing is missing.

use tautline_proto::time::{Frames, Span};
use tautline_sim::preset::Preset;
use tautline_sim::scenario::Scenario;
use tautline_sim::world::{Change, World};

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
    let heard = &world.finish()[0];
    let told = format!("wired, seed {seed}: {heard}");
    assert!(heard.first_wrong.is_none(), "{told}");
    assert_eq!((heard.counters.lost, heard.counters.late), (0, 0), "{told}");
    assert_eq!(heard.counters.missing_frames, 0, "{told}");
    // Each change is one fade over, and its error is over within it.
    assert!(heard.spoilt.values().sum::<u64>() <= changes.len() as u64, "{told}");
    assert!(heard.longest_spoilt() <= Frames::new(72), "{told}");
    assert!(heard.error_at(0.999).unwrap() < Span::from_micros(60), "{told}");
}
