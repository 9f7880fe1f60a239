//! Under test: the simulator itself, on the preset that draws the most.

use tautline_proto::time::Span;
use tautline_sim::preset::Preset;
use tautline_sim::scenario::Scenario;
use tautline_sim::world::play;

#[test]
fn the_same_seed_plays_the_same() {
    let run = |seed| {
        let scenario = Scenario::one_way(Preset::WifiBad.path(), seed);
        play(scenario, Span::from_secs(20))[0].to_string()
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}
