//! Under test: servo and resampler between cards as far apart as is supported, on every network but
//! one that no latency suits. What a network loses is missing; nothing else is.

use tautline_proto::time::{Frames, Span};
use tautline_sim::card::CardModel;
use tautline_sim::clock::TrueTime;
use tautline_sim::preset::Preset;
use tautline_sim::scenario::{HostModel, Scenario};
use tautline_sim::world::play;

#[test]
#[ignore = "soak: five simulated hours"]
fn cards_500_ppm_apart_play_for_an_hour_at_every_place() {
    let places = [
        (Preset::Wired, 5, -500.0),
        (Preset::SwitchUnderLoad, 8, 500.0),
        (Preset::Wifi5Ghz, 40, -500.0),
        (Preset::Wan, 30, 500.0),
        (Preset::Satellite, 400, -500.0),
    ];
    for (preset, millis, ppm) in places {
        let seed = 22;
        let mut scenario = Scenario::on(preset, seed);
        scenario.latency = Span::from_millis(millis);
        scenario.receivers[0].host = HostModel::with_card(CardModel::off_by(ppm));
        let heard = &play(scenario, Span::from_secs(3600))[0];
        let counters = heard.counters;
        let told = format!("{}, {ppm} ppm, seed {seed}: {heard}", preset.name());
        // Where a round trip is long the first frames are placed by their arrival, and moved once, when
        // the sender's clock is known.
        let mapped = TrueTime::from_nanos(2_000_000_000);
        let late = heard.resyncs.iter().filter(|(at, _)| *at > mapped).count();
        assert_eq!((late, counters.late), (0, 0), "{told}");
        assert_eq!(counters.missing_frames, 48 * counters.lost, "{told}");
        assert!(heard.first_wrong.is_none(), "{told}");
        assert_eq!(heard.starved, Frames::ZERO, "{told}");
    }
}
