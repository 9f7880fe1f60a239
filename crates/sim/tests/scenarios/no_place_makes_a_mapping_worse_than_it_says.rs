//! Under test: the estimate of the sender's clock on every preset, between hosts whose clocks are
//! 100 ppm apart and wander. The networks delay, hold, lose, reorder and duplicate.

use tautline_proto::placement::Basis;
use tautline_proto::time::{LocalTime, Span};
use tautline_proto::units::Ppm;
use tautline_sim::clock::ClockError;
use tautline_sim::preset::Preset;
use tautline_sim::scenario::Scenario;
use tautline_sim::world::World;

/// By so much the median may be off in the second minute: what queues alike on both ways leaves
/// little.
const MEDIAN: [(Preset, i64); 6] = [
    (Preset::Wired, 10),
    (Preset::SwitchUnderLoad, 30),
    (Preset::Wifi5Ghz, 60),
    (Preset::WifiBad, 100),
    (Preset::Wan, 60),
    // Sound queues one way only, and the reports behind it.
    (Preset::Satellite, 3000),
];

#[test]
fn no_place_makes_a_mapping_worse_than_it_says() {
    assert_eq!(MEDIAN.map(|(preset, _)| preset), Preset::ALL);
    for (preset, most) in MEDIAN {
        for (seed, wander) in [(31, 0.01), (32, 0.1)] {
            let mut scenario = Scenario::on(preset, seed);
            scenario.latency = Span::from_millis(600);
            let clock = |start, ppm| ClockError {
                start: LocalTime::from_nanos(start),
                rate: Ppm::from_f64(ppm),
                wander: Ppm::from_f64(wander),
            };
            scenario.sender.clock = clock(5_000_000_000_000, -50.0);
            scenario.receivers[0].host.clock = clock(77_000_000_000, 50.0);
            let mut world = World::new(scenario);
            let mut errors = Vec::new();
            for beat in 0..6000 {
                world.run(Span::from_millis(20));
                let told = format!("{}, seed {seed}, {} ms", preset.name(), 20 * beat);
                let Some(look) = world.look(0).filter(|look| look.basis == Basis::Clock) else {
                    assert!(beat < 100, "{told}: no clock is mapped");
                    continue;
                };
                assert!(look.error.abs() <= look.uncertainty, "{told}: {look:?}");
                assert_eq!(look.steps, 0, "{told}: {look:?}");
                if beat >= 3000 {
                    errors.push(look.error.abs());
                }
            }
            errors.sort_unstable();
            let median = errors[errors.len() / 2];
            let told = format!("{}, seed {seed}: {median}", preset.name());
            assert!(median <= Span::from_micros(most), "{told}");
        }
    }
}
