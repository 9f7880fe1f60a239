//! Under test: sender, receiver and session, an hour long, on one switch with nothing else on it.

use tautline_proto::time::Span;
use tautline_sim::preset::Preset;
use tautline_sim::scenario::Scenario;
use tautline_sim::world::play;

#[test]
fn a_quiet_wire_plays_every_frame_of_an_hour_in_time() {
    let seed = 1;
    let heard = &play(Scenario::on(Preset::Wired, seed), Span::from_secs(3600))[0];
    assert!(heard.first_wrong.is_none() && heard.spoilt.is_empty(), "seed {seed}: {heard}");
    assert!(heard.error_at(1.0).unwrap() < Span::from_micros(60), "seed {seed}: {heard}");
    assert!(heard.blocks > 3_599_000, "seed {seed}: {heard}");
}
