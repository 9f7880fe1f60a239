//! Under test: servo and resampler between cards of different rates, on one switch with nothing
//! else on it.

use tautline_proto::time::Span;
use tautline_sim::card::CardModel;
use tautline_sim::preset::Preset;
use tautline_sim::scenario::{HostModel, Scenario};
use tautline_sim::world::play;

#[test]
fn cards_that_drift_apart_stay_in_time_and_lose_no_frame() {
    for ppm in [-500.0, -20.0, 20.0, 500.0] {
        let seed = 4;
        let mut scenario = Scenario::on(Preset::Wired, seed);
        scenario.receivers[0].host = HostModel::with_card(CardModel::off_by(ppm));
        let heard = &play(scenario, Span::from_secs(120))[0];
        let told = format!("{ppm} ppm, seed {seed}: {heard}");
        assert_eq!((heard.counters.missing_frames, heard.counters.resyncs), (0, 0), "{told}");
        assert!(heard.first_wrong.is_none() && heard.spoilt.is_empty(), "{told}");
        assert!(heard.error_at(0.5).unwrap() <= Span::from_micros(20), "{told}");
        // Until the error has left what the clocks cannot tell apart, half of the round trip of
        // 400 µs and a little, it is not followed.
        assert!(heard.error_at(0.9999).unwrap() <= Span::from_micros(600), "{told}");
    }
}
