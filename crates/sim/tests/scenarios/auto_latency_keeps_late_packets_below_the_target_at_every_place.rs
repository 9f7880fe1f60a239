//! Under test: the latency that follows arrivals, on every preset, once it has seen what happens
//! there: after the first minute. What is lost does not raise it.

use tautline_proto::target_delay::LossTarget;
use tautline_proto::time::Span;
use tautline_sim::preset::Preset;
use tautline_sim::scenario::Scenario;
use tautline_sim::world::World;

#[test]
fn auto_latency_keeps_late_packets_below_the_target_at_every_place() {
    // The most that each place should need: its delay, its holds or its jitter's tail, 3 ms of
    // packet and ring, and half as much again of what varies.
    let most = [
        (Preset::Wired, 4),
        (Preset::SwitchUnderLoad, 6),
        (Preset::Wifi5Ghz, 22),
        (Preset::WifiBad, 215),
        (Preset::Wan, 15),
        (Preset::Satellite, 330),
    ];
    assert_eq!(most.map(|(preset, _)| preset), Preset::ALL);
    for (preset, most) in most {
        let seed = 15;
        let mut scenario = Scenario::on(preset, seed);
        scenario.auto = Some(LossTarget::DEFAULT);
        let mut world = World::new(scenario);
        world.run(Span::from_secs(60));
        let before = world.heard().next().unwrap().counters.late;
        world.run(Span::from_secs(540));
        let heard = world.finish().remove(0);
        let told = format!("{}, seed {seed}: {heard}", preset.name());
        // One in ten thousand of 540 000, and as much again by chance: late packets come in bursts.
        assert!(heard.counters.late - before <= 108, "{told}");
        let (_, last) = heard.offsets.last().unwrap();
        assert!(*last < Span::from_millis(most), "{last}; {told}");
    }
}
