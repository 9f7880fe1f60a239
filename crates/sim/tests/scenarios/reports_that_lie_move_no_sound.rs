//! Under test: reports of the sender that lie for ten seconds, every second one: sender reports from
//! the future, a clock that steps to and fro, answers after waits that cannot have been. The sound
//! stays where the truth in between has it.

use tautline_proto::time::Span;
use tautline_sim::clock::TrueTime;
use tautline_sim::fault::{Lie, SenderFault};
use tautline_sim::preset::Preset;
use tautline_sim::scenario::Scenario;
use tautline_sim::world::World;

#[test]
fn reports_that_lie_move_no_sound() {
    let spans = [-3_600_000, -1_000, -30, 30, 1_000, 3_600_000].map(Span::from_millis);
    for (seed, by) in (71..).zip(spans) {
        for lie in [Lie::Report(by), Lie::Clock(by), Lie::Wait(by)] {
            let mut scenario = Scenario::on(Preset::Wired, seed);
            let begins = TrueTime::from_nanos(20_000_000_000);
            let ends = begins.after(Span::from_secs(10));
            scenario.faults = vec![(begins, SenderFault::Lies(lie, ends))];
            // Who stamps packets is not asked when they were captured.
            scenario.stamps = !matches!(lie, Lie::Report(_));
            let mut world = World::new(scenario);
            world.run(begins.since(TrueTime::ZERO));
            let told = format!("wired, seed {seed}, {lie:?}");
            let resyncs = world.heard().next().map_or(0, |heard| heard.counters.resyncs);
            for _ in 0..1000 {
                world.run(Span::from_millis(20));
                let (at, look) = (world.now(), world.look(0).expect("it plays"));
                assert!(look.error.abs() <= look.uncertainty, "{told}: {look:?} at {at:?}");
                assert!(look.uncertainty < Span::from_micros(300), "{told}: {look:?} at {at:?}");
            }
            let (look, lies) = (world.look(0).expect("it plays"), u64::from(world.lies()));
            let heard = &world.finish()[0];
            assert!(heard.first_wrong.is_none() && heard.spoilt.is_empty(), "{told}: {heard}");
            assert_eq!(heard.counters.resyncs, resyncs, "{told}: {heard}");
            assert_eq!((look.steps, look.path_changes), (0, 0), "{told}: {look:?}");
            // Each is counted once, under its name.
            let counted = (heard.counters.doubted_reports, u64::from(look.refused));
            let expected = if matches!(lie, Lie::Report(_)) { (lies, 0) } else { (0, lies) };
            assert!(counted == expected && lies >= 10, "{told}: {counted:?}, not {expected:?}");
        }
    }
}
