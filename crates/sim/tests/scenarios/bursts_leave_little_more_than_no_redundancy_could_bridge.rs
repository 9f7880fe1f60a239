//! Under test: redundancy against bursts: 20 % lost, three packets in a row on average, at budgets
//! of 3, 10, 20 and 40 ms. What nothing could bring back is told from the very losses: packets of
//! which every datagram was lost from their own to the last that the budget allows.
//!
//! At 20 ms nearly half of what a budget could save hangs on a single datagram amid the losses, so
//! whoever wants all of it must put a copy of every packet into nearly every datagram: the path
//! carries jumbo frames there. At 40 ms such chances are rare and a code does.

use tautline_proto::redundancy::Redundancy;
use tautline_proto::time::Span;
use tautline_sim::heard::Heard;
use tautline_sim::link::{Loss, PathModel};
use tautline_sim::preset::Preset;
use tautline_sim::scenario::Scenario;
use tautline_sim::world::play;

fn heard(seed: u64, redundancy: Redundancy, budget: i64, mtu: usize) -> Heard {
    let path = PathModel { loss: Loss::bursts(0.2, 3.0), mtu, ..Preset::Wired.path() };
    let mut scenario = Scenario::one_way(path, seed);
    scenario.network = "wired with bursts";
    (scenario.redundancy, scenario.budget) = (redundancy, Span::from_millis(budget));
    scenario.latency = Span::from_millis(4 + budget);
    play(scenario, Span::from_secs(600)).remove(0)
}

#[test]
fn bursts_leave_little_more_than_no_redundancy_could_bridge() {
    let (copies, code) = (Redundancy::Copies, Redundancy::Code);
    let cases =
        [(copies(2), 3, 1500), (copies(8), 10, 1500), (copies(19), 20, 9000), (code(8), 40, 1500)];
    for (seed, (redundancy, budget, mtu)) in (31..).zip(cases) {
        let heard = heard(seed, redundancy, budget, mtu);
        let (lost, bound) = (heard.counters.lost, heard.beyond_repair(budget as usize));
        let packets = heard.carried.len() as f64;
        println!(
            "{redundancy} within {budget} ms: {lost} lost, {bound} beyond repair, of {packets}; {:.0} \
             bytes a packet",
            heard.bytes as f64 / packets
        );
        let told = format!("wired with bursts, {redundancy}, {budget} ms, seed {seed}: {heard}");
        assert!(lost as f64 <= 1.2 * bound as f64, "{lost} lost, {bound} beyond repair: {told}");
        assert!(heard.counters.late == 0 && heard.first_wrong.is_none(), "{told}");
    }
}
