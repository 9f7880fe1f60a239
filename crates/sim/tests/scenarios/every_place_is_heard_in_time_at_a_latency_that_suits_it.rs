//! Under test: placement on every preset, at a latency that covers its jitter. The networks delay,
//! lose, reorder and duplicate.

use tautline_proto::time::Span;
use tautline_sim::preset::Preset;
use tautline_sim::scenario::Scenario;
use tautline_sim::world::play;

#[test]
fn every_place_is_heard_in_time_at_a_latency_that_suits_it() {
    for preset in Preset::ALL {
        let seed = 3;
        // What the clocks cannot tell is a part of the round trip's excess over the least.
        let unsure = preset.path().delay.divided(8) + Span::from_micros(400);
        let mut scenario = Scenario::on(preset, seed);
        scenario.latency = preset.suits();
        let rate = scenario.format.rate;
        let heard = &play(scenario, Span::from_secs(300))[0];
        let told = format!("{}, seed {seed}: {heard}", preset.name());
        assert!(heard.first_wrong.is_none(), "{told}");
        assert_eq!(heard.counters.late, 0, "{told}");
        // The cards share one clock. A place that was found before that was known is corrected once, by
        // 200 ppm; only where its estimate strays by more than that can tell are more frames resampled.
        let strays = preset == Preset::WifiBad;
        let most = rate.frames_within(unsure.times(5000)).count() as u64;
        assert!(strays || heard.counters.resampled_frames <= most, "{told}");
        // Where a round trip is long, the first frames come before the clocks are mapped.
        assert!(heard.error_at(0.99).unwrap() <= unsure, "{told}");
        assert!(heard.resyncs.len() <= 1, "{told}");
    }
}
