//! Under test: the servo, as the card that plays suddenly runs at another rate, on one switch with
//! nothing else on it.

use tautline_proto::time::Span;
use tautline_proto::units::Ppm;
use tautline_sim::card::CardModel;
use tautline_sim::clock::{ClockEvent, TrueTime};
use tautline_sim::preset::Preset;
use tautline_sim::scenario::{HostModel, Scenario};
use tautline_sim::world::play;

#[test]
fn a_card_that_steps_by_100_ppm_is_in_time_again_within_ten_seconds() {
    for (before, after) in [(0.0, 100.0), (40.0, -60.0), (-400.0, -500.0), (400.0, 500.0)] {
        let seed = 21;
        let mut scenario = Scenario::on(Preset::Wired, seed);
        let step = TrueTime::from_nanos(30_000_000_000);
        scenario.receivers[0].host = HostModel {
            card_events: vec![(step, ClockEvent::Rate(Ppm::from_f64(after)))],
            ..HostModel::with_card(CardModel::off_by(before))
        };
        let heard = &play(scenario, Span::from_secs(60))[0];
        let told = format!("{before} to {after} ppm, wired, seed {seed}: {heard}");
        assert_eq!((heard.counters.missing_frames, heard.counters.resyncs), (0, 0), "{told}");
        // The last twenty seconds, in blocks of 1 ms.
        let settled = &heard.errors[heard.errors.len() - 20_000..];
        let worst = settled.iter().map(|error| error.abs()).max().unwrap();
        assert!(worst < Span::from_micros(50), "{worst}; {told}");
    }
}
