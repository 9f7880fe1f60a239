//! Under test: servo and resampler between cards as far apart as is supported, on every network but
//! one that no latency suits. What a network loses is missing; nothing else is.

use tautline_proto::time::{Frames, Span};
use tautline_sim::clock::TrueTime;
use tautline_sim::preset::Preset;
use tautline_sim::scenario::Scenario;
use tautline_sim::world::play;

#[test]
#[ignore = "soak: five simulated hours"]
fn cards_500_ppm_apart_play_for_an_hour_at_every_place() {
    let places = [
        (Preset::Wired, -500.0),
        (Preset::SwitchUnderLoad, 500.0),
        (Preset::Wifi5Ghz, -500.0),
        (Preset::Wan, 500.0),
        (Preset::Satellite, -500.0),
    ];
    for (preset, ppm) in places {
        let seed = 22;
        let heard = &play(Scenario::drifting(preset, ppm, seed), Span::from_secs(3600))[0];
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
