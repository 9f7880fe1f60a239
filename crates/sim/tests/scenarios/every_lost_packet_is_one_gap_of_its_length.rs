//! Under test: how the receiver counts and covers random loss of 5 %. The network loses; reports
//! come back whole.

use tautline_proto::time::Span;
use tautline_sim::link::{Loss, PathModel};
use tautline_sim::preset::Preset;
use tautline_sim::scenario::Scenario;
use tautline_sim::world::play;

#[test]
fn every_lost_packet_is_one_gap_of_its_length() {
    let seed = 2;
    let mut scenario = Scenario::on(Preset::Wired, seed);
    let there = &mut scenario.receivers[0].there;
    *there = PathModel { loss: Loss::random(0.05), ..Preset::Wired.path() };
    let heard = &play(scenario, Span::from_secs(600))[0];
    let lost = heard.counters.lost;
    assert!((28_000..32_000).contains(&lost), "seed {seed}: {heard}");
    assert_eq!(heard.counters.missing_frames, 48 * lost, "seed {seed}: {heard}");
    // There is nothing to learn from in the first 10 ms.
    let concealed = heard.counters.concealed_frames;
    assert!((48 * (lost - 10)..=48 * lost).contains(&concealed), "seed {seed}: {heard}");
    let gaps: i64 = heard.holes.iter().map(|(length, count)| length * *count as i64).sum();
    assert_eq!(gaps as u64, 48 * lost, "seed {seed}: {heard}");
    // Each lost packet spoils its own length and, cross-faded, the 48 frames after it; what was
    // predicted is now and then exactly what was sent.
    let spoilt: i64 = heard.spoilt.iter().map(|(length, count)| length * *count as i64).sum();
    let packets = spoilt as f64 / (48 * lost) as f64;
    assert!((1.8..=2.0).contains(&packets), "seed {seed}: {packets}, {heard}");
    assert!(heard.first_wrong.is_none(), "seed {seed}: {heard}");
}
