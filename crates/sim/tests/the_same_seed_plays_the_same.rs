//! Under test: the simulator itself, on the preset that draws the most.

use tautline_proto::time::Span;
use tautline_sim::preset::Preset;
use tautline_sim::world::Scenario;

#[test]
fn the_same_seed_plays_the_same() {
    let run = |seed| {
        let scenario = Scenario::one_way(Preset::WifiBad.path(), seed);
        scenario.play(Span::from_secs(20))[0].to_string()
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}
