//! Under test: the same packets over two networks, which lose independently. Without redundancy
//! nothing is lost but what both lose; with it nothing, even where either loses 20 % in bursts.

use tautline_proto::redundancy::Redundancy;
use tautline_proto::time::Span;
use tautline_sim::heard::Heard;
use tautline_sim::link::{Loss, PathModel};
use tautline_sim::preset::Preset;
use tautline_sim::scenario::Scenario;
use tautline_sim::world::play;

fn heard(seed: u64, loss: Loss, redundancy: Redundancy, seconds: i64) -> Heard {
    let path = PathModel { loss, ..Preset::Wired.path() };
    let mut scenario = Scenario::one_way(path.clone(), seed);
    scenario.network = "wired twice, with losses";
    // The other network is slower by more than a packet.
    let other = PathModel { delay: Span::from_millis(2), ..path };
    scenario.receivers[0].also_there = Some(other);
    (scenario.redundancy, scenario.budget) = (redundancy, Span::from_millis(20));
    scenario.latency = Span::from_millis(26);
    play(scenario, Span::from_secs(seconds)).remove(0)
}

#[test]
fn two_networks_lose_only_what_both_lose() {
    for (seed, loss) in [(41, Loss::random(0.05)), (42, Loss::bursts(0.2, 3.0))] {
        let heard = heard(seed, loss, Redundancy::Off, 600);
        let (lost, bound) = (heard.counters.lost, heard.beyond_repair(0));
        println!("off: {lost} lost of {}, {bound} on both networks", heard.carried.len());
        // The last are lost when the end comes before their turn.
        assert!(
            bound > 1000 && (bound - 8..=bound).contains(&lost),
            "seed {seed}: {lost}, {bound}"
        );
        assert!(heard.counters.duplicate > 300_000, "seed {seed}: {heard}");
        assert!(heard.first_wrong.is_none(), "seed {seed}: {heard}");
    }
}

#[test]
fn two_networks_and_a_code_lose_nothing() {
    for (seed, loss) in [(43, Loss::random(0.05)), (44, Loss::bursts(0.2, 3.0))] {
        let heard = heard(seed, loss, Redundancy::Code(4), 600);
        let told = format!("wired twice, seed {seed}: {heard}");
        println!("code:4: {} lost, {} repaired", heard.counters.lost, heard.counters.repaired);
        assert!(heard.counters.repaired > 1000, "{told}");
        assert_eq!((heard.counters.lost, heard.counters.late), (0, 0), "{told}");
        assert_eq!((heard.holes.len(), heard.first_wrong), (0, None), "{told}");
    }
}
