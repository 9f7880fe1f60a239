//! Under test: the estimate of the sender's clock as the path becomes 5 ms longer or shorter, one
//! way or both, for good. The clocks stay where they are, and so does the sound.

use tautline_proto::time::{LocalTime, Span};
use tautline_sim::clock::{ClockError, TrueTime};
use tautline_sim::link::PathModel;
use tautline_sim::preset::Preset;
use tautline_sim::scenario::Scenario;
use tautline_sim::world::World;

const CHANGE: TrueTime = TrueTime::from_nanos(60_000_000_000);

#[test]
fn a_path_that_becomes_another_moves_no_sound() {
    // The queues of Wi-Fi take most of a minute to say where the clock is to 150 µs.
    for (preset, most) in [(Preset::Wired, 20), (Preset::Wifi5Ghz, 150)] {
        for (there, back) in [(5, 5), (5, 0), (0, 5), (-5, -5), (-5, 0), (0, -5)] {
            let seed = 33;
            let path = |by: i64| {
                let path = preset.path();
                let delay = path.delay + Span::from_millis(6);
                PathModel { delay, ..path }.longer_from(CHANGE, Span::from_millis(by))
            };
            let mut scenario = Scenario::one_way(path(there), seed);
            scenario.network = preset.name();
            scenario.receivers[0].back = path(back);
            scenario.latency = Span::from_millis(40);
            scenario.receivers[0].host.clock =
                ClockError::quartz(LocalTime::from_nanos(77_000_000_000), 40.0);
            let mut world = World::new(scenario);
            world.run(CHANGE.since(TrueTime::ZERO));
            let told = format!("{} there {there} ms, back {back} ms, seed {seed}", preset.name());
            for _ in 0..3000 {
                world.run(Span::from_millis(20));
                let look = world.look(0).expect("it plays");
                let at = world.now().as_nanos() / 1_000_000;
                assert!(look.error.abs() <= look.uncertainty, "{told}: {look:?} at {at} ms");
                assert!(look.error.abs() <= Span::from_micros(most), "{told}: {look:?} at {at} ms");
            }
            let look = world.look(0).expect("it plays");
            assert_eq!((look.steps, look.path_changes), (0, 1), "{told}: {look:?}");
            let heard = &world.finish()[0];
            assert_eq!(heard.counters.resyncs, 0, "{told}: {heard}");
        }
    }
}
