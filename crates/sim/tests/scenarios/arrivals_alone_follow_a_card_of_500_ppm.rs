//! Under test: placement where no report comes: the line below all arrivals has the rate of the
//! sender's card and does not chase the jitter of the path.

use tautline_proto::placement::Basis;
use tautline_proto::time::Span;
use tautline_sim::card::CardModel;
use tautline_sim::preset::Preset;
use tautline_sim::scenario::{HostModel, Scenario};
use tautline_sim::world::World;

#[test]
fn arrivals_alone_follow_a_card_of_500_ppm() {
    let most = [
        (Preset::Wired, 5),
        (Preset::SwitchUnderLoad, 20),
        (Preset::Wifi5Ghz, 40),
        (Preset::WifiBad, 100),
        (Preset::Wan, 40),
    ];
    for (preset, most) in most {
        for ppm in [-500.0, 500.0] {
            let seed = 34;
            let mut scenario = Scenario::on(preset, seed);
            scenario.reports = false;
            scenario.latency = Span::from_millis(200);
            scenario.sender = HostModel::with_card(CardModel::off_by(ppm));
            let mut world = World::new(scenario);
            world.run(Span::from_secs(20));
            let mut errors = Vec::new();
            for _ in 0..2000 {
                world.run(Span::from_millis(20));
                let look = world.look(0).expect("it plays");
                assert_eq!(look.basis, Basis::Arrival);
                errors.push(look.error);
            }
            // What is left is the path's own delay, which nobody can see from here.
            let least = errors.iter().copied().min().expect("some");
            let greatest = errors.iter().copied().max().expect("some");
            let told =
                format!("{} at {ppm} ppm, seed {seed}: {least} to {greatest}", preset.name());
            assert!(greatest - least <= Span::from_micros(2 * most), "{told}");
            let shortest = preset.path().delay;
            let off = (least + (greatest - least).half() - shortest).abs();
            assert!(off <= Span::from_micros(500), "{told}");
        }
    }
}
