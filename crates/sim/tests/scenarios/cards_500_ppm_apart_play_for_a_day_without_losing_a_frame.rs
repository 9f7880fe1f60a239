//! Under test: servo and resampler for a day, between cards as far apart as is supported, on one
//! switch with nothing else on it.

use tautline_proto::time::{Frames, Span};
use tautline_sim::card::CardModel;
use tautline_sim::preset::Preset;
use tautline_sim::scenario::{HostModel, Scenario};
use tautline_sim::world::play;

fn plays_for_a_day(ppm: f64) {
    let seed = 23;
    let mut scenario = Scenario::on(Preset::Wired, seed);
    scenario.latency = Span::from_millis(40);
    scenario.format.packet = Frames::new(480);
    let period = Frames::new(480);
    scenario.sender.card.period = period;
    let card = CardModel { period, ..CardModel::off_by(ppm) };
    scenario.receivers[0].host = HostModel::with_card(card);
    let heard = &play(scenario, Span::from_secs(24 * 3600))[0];
    let counters = heard.counters;
    let told = format!("wired, {ppm} ppm, seed {seed}: {heard}");
    assert_eq!((counters.missing_frames, counters.resyncs, counters.late), (0, 0, 0), "{told}");
    assert!(heard.first_wrong.is_none() && heard.spoilt.is_empty(), "{told}");
    assert_eq!(heard.starved, Frames::ZERO, "{told}");
    assert!(heard.error_at(0.999).expect("sound was heard") < Span::from_micros(50), "{told}");
}

#[test]
#[ignore = "soak: a simulated day"]
fn a_card_500_ppm_slow_plays_for_a_day_without_losing_a_frame() {
    plays_for_a_day(-500.0);
}

#[test]
#[ignore = "soak: a simulated day"]
fn a_card_500_ppm_fast_plays_for_a_day_without_losing_a_frame() {
    plays_for_a_day(500.0);
}
