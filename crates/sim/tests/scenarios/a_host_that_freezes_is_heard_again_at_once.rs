//! Under test: the receiver on a host that stands still for tens of milliseconds now and then, as
//! virtual machines do. The card starves meanwhile.

use tautline_proto::time::Span;
use tautline_sim::link::{Holds, Jitter};
use tautline_sim::preset::Preset;
use tautline_sim::scenario::Scenario;
use tautline_sim::world::play;

#[test]
fn a_host_that_freezes_is_heard_again_at_once() {
    let seed = 6;
    let mut scenario = Scenario::on(Preset::Wired, seed);
    scenario.receivers[0].host.freezes =
        Some(Holds { every: Span::from_secs(4), length: Jitter::Uniform(Span::from_millis(36)) });
    let heard = &play(scenario, Span::from_secs(600))[0];
    let told = format!("seed {seed}: {heard}");
    assert!(heard.starved.count() > 48 * 1000, "{told}");
    // The card's silence is all that is missing, but for the fades and what was due meanwhile.
    assert!(heard.longest_spoilt().count() <= 48 * 40, "{told}");
    assert!(heard.error_at(0.999).unwrap() < Span::from_micros(100), "{told}");
    assert!(heard.resyncs.is_empty(), "{told}");
}
