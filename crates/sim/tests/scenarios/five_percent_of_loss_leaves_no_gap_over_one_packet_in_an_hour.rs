//! Under test: redundancy that sizes itself, within a budget of 10 ms. The network loses 5 % of
//! packets, each on its own; the reports are lost as often.

use tautline_proto::redundancy::Redundancy;
use tautline_proto::time::Span;
use tautline_sim::link::{Loss, PathModel};
use tautline_sim::preset::Preset;
use tautline_sim::scenario::Scenario;
use tautline_sim::world::play;

#[test]
fn five_percent_of_loss_leaves_no_gap_over_one_packet_in_an_hour() {
    let (seed, budget) = (21, Span::from_millis(10));
    let path = PathModel { loss: Loss::random(0.05), ..Preset::Wired.path() };
    let mut scenario = Scenario::one_way(path, seed);
    scenario.network = "wired with 5 % loss";
    (scenario.redundancy, scenario.budget) = (Redundancy::Auto, budget);
    // Without loss 4 ms do.
    scenario.latency = Span::from_millis(4) + budget;
    let heard = &play(scenario, Span::from_secs(3600))[0];
    let packets = heard.carried.len() as f64;
    let lost = heard.counters.lost;
    // If none of n is lost, fewer than 3/n are by 95 %; of a few, 3 more are reckoned.
    println!(
        "{lost} of {packets} packets stayed lost: {:.1e}, by 95 % less than {:.1e}; {} repaired; {:.0} \
         bytes a packet; gaps by frames {:?}",
        lost as f64 / packets,
        (lost as f64 + 3.0 + 1.7 * (lost as f64).sqrt()) / packets,
        heard.counters.repaired,
        heard.bytes as f64 / packets,
        heard.holes,
    );
    let told = format!("wired with 5 % loss, seed {seed}: {heard}");
    assert!(heard.counters.repaired > 170_000, "{told}");
    assert!(heard.holes.keys().all(|frames| *frames <= 48), "{:?}: {told}", heard.holes);
    assert!(heard.counters.late == 0 && heard.first_wrong.is_none(), "{told}");
}
