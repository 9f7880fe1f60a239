//! Under test: sender and receiver when the coding of samples changes in the middle of a stream, and
//! packets of both codings overtake each other on the way.

use tautline_dsp::format::SampleFormat;
use tautline_proto::time::Span;
use tautline_sim::link::Jitter;
use tautline_sim::preset::Preset;
use tautline_sim::scenario::Scenario;
use tautline_sim::world::{Change, World};

#[test]
fn a_coding_that_changes_is_not_heard() {
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
    let heard = &world.finish()[0];
    let told = format!("wired with 4 ms of jitter, seed {seed}: {heard}");
    assert!(heard.counters.reordered > 1000, "{told}");
    assert!(heard.first_wrong.is_none() && heard.spoilt.is_empty(), "{told}");
    assert_eq!((heard.counters.lost, heard.counters.late), (0, 0), "{told}");
    assert_eq!((heard.counters.missing_frames, heard.counters.invalid), (0, 0), "{told}");
}
