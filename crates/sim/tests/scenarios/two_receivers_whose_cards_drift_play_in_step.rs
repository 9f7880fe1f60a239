//! Under test: two receivers of one stream by RTCP alone. Their hosts' clocks run and wander, and
//! their cards drift the other way round; how far apart they play one frame is told from the sound,
//! by true time.

use tautline_proto::time::Span;
use tautline_sim::preset::Preset;
use tautline_sim::scenario::Scenario;
use tautline_sim::world::World;

#[test]
fn two_receivers_whose_cards_drift_play_in_step() {
    let places = [(Preset::SwitchUnderLoad, 100, 500), (Preset::Wired, 20, 100)];
    for (preset, most_median, most) in places {
        let seed = 35;
        let mut world = World::new(Scenario::two_apart(preset, seed));
        // The servo follows once the error has left what the clocks cannot tell.
        world.run(Span::from_secs(20));
        let begun: Vec<usize> = world.heard().map(|heard| heard.errors.len()).collect();
        let mut apart = Vec::new();
        world.run(Span::from_secs(280));
        let heard: Vec<_> = world.heard().zip(begun).map(|(h, begun)| &h.errors[begun..]).collect();
        // Blocks of a millisecond follow each other at both, a hundredth of a per cent apart.
        for (one, other) in heard[0].iter().zip(heard[1]) {
            apart.push((*one - *other).abs());
        }
        apart.sort_unstable();
        let at = |share: f64| apart[(apart.len() as f64 * share) as usize];
        let told = format!(
            "{}, seed {seed}: apart {} (p50), {} (p99.9)",
            preset.name(),
            at(0.5),
            at(0.999)
        );
        assert!(at(0.5) < Span::from_micros(most_median), "{told}");
        assert!(at(0.999) < Span::from_micros(most), "{told}");
        for heard in world.finish() {
            assert_eq!(heard.counters.resyncs, 0, "{told}: {heard}");
        }
    }
}
