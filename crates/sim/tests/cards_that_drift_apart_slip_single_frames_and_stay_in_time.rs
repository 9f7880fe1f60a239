//! Under test: the playout between cards of different rates, before there is resampling: frames
//! slip one by one, and the latency holds.

use tautline_proto::time::Span;
use tautline_sim::card::CardModel;
use tautline_sim::preset::Preset;
use tautline_sim::scenario::{HostModel, Scenario};
use tautline_sim::world::play;

#[test]
fn cards_that_drift_apart_slip_single_frames_and_stay_in_time() {
    for ppm in [-300.0, -20.0, 20.0, 300.0] {
        let seed = 4;
        let mut scenario = Scenario::one_way(Preset::Wired.path(), seed);
        scenario.receivers[0].host = HostModel::with_card(CardModel::off_by(ppm));
        let heard = &play(scenario, Span::from_secs(600))[0];
        let told = format!("{ppm} ppm, seed {seed}: {heard}");
        let due = (ppm.abs() * 1e-6 * 600.0 * 48_000.0) as i64;
        let slipped = heard.counters.slipped_frames as i64;
        assert!((slipped - due).abs() <= 10 + due / 50, "{due} are due; {told}");
        assert_eq!((heard.counters.missing_frames, heard.counters.resyncs), (0, 0), "{told}");
        // The clocks are known to half of the round trip of 400 µs and a little; the cursor is moved
        // only beyond that.
        assert!(heard.error_at(0.999).unwrap() <= Span::from_micros(300), "{told}");
    }
}
