//! Under test: redundancy that sizes itself, on networks that lose nothing, some packets one by one,
//! and many in bursts. Receivers report what they lacked over the same networks.

use tautline_proto::redundancy::Redundancy;
use tautline_proto::time::Span;
use tautline_sim::link::{Loss, PathModel};
use tautline_sim::preset::Preset;
use tautline_sim::scenario::Scenario;
use tautline_sim::world::World;

/// Bytes of a packet that carries nothing of others, and of one symbol with its header.
const PLAIN: f64 = 184.0;
const SYMBOL: f64 = 144.0;

/// Symbols in a packet after six minutes, on average over a minute.
fn symbols(seed: u64, loss: Loss) -> f64 {
    let path = PathModel { loss, ..Preset::Wired.path() };
    let mut scenario = Scenario::one_way(path, seed);
    scenario.network = "wired with losses";
    (scenario.redundancy, scenario.budget) = (Redundancy::Auto, Span::from_millis(10));
    scenario.latency = Span::from_millis(14);
    let mut world = World::new(scenario);
    let mut sent = |span| {
        world.run(span);
        let heard = world.heard().next().expect("one receiver");
        (heard.bytes as f64, heard.carried.len() as f64)
    };
    let before = sent(Span::from_secs(360));
    let after = sent(Span::from_secs(60));
    ((after.0 - before.0) / (after.1 - before.1) - PLAIN) / SYMBOL
}

#[test]
fn redundancy_that_sizes_itself_carries_what_the_losses_ask_for() {
    let cases = [
        (61, Loss::NONE, 0.0..0.01),
        (62, Loss::random(0.02), 0.9..1.3),
        (63, Loss::bursts(0.05, 3.0), 1.5..5.0),
    ];
    for (seed, loss, expected) in cases {
        let symbols = symbols(seed, loss);
        println!("seed {seed}, {loss:?}: {symbols:.2} symbols a packet");
        assert!(expected.contains(&symbols), "wired, seed {seed}, {loss:?}: {symbols}");
    }
}
