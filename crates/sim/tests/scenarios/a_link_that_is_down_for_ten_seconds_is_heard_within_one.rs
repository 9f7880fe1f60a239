//! Under test: a cable that is pulled out for ten seconds, both ways, with cards that drift apart
//! meanwhile.

use tautline_proto::time::Span;
use tautline_sim::card::CardModel;
use tautline_sim::clock::TrueTime;
use tautline_sim::preset::Preset;
use tautline_sim::scenario::{HostModel, Scenario};
use tautline_sim::world::play;

#[test]
fn a_link_that_is_down_for_ten_seconds_is_heard_within_one() {
    for ppm in [0.0, 100.0] {
        let mut scenario = Scenario::on(Preset::Wired, 17);
        let begins = TrueTime::from_nanos(20_000_000_000);
        let ends = begins.after(Span::from_secs(10));
        let one = &mut scenario.receivers[0];
        one.host = HostModel::with_card(CardModel::off_by(ppm));
        one.there.outages = vec![(begins, ends)];
        one.back.outages = vec![(begins, ends)];
        let told = &play(scenario, Span::from_secs(60))[0];
        assert!(told.first_wrong.is_none(), "{ppm} ppm: {told}");
        // What is resampled rings where the ramp falls from its end to its beginning, by 14.1 % of
        // that step of two: the overshoot of an interpolated step (Helmberg, "The Gibbs phenomenon
        // for Fourier interpolation", 1994).
        let loudest = (told.loudest, told.loudest_ringing);
        assert!(loudest.0 <= 1.0 && loudest.1 <= 1.2823, "{ppm} ppm: {loudest:?}: {told}");
        assert!(told.heard_until(Span::from_secs(60)), "{ppm} ppm: {told}");
        assert_eq!(told.silences.len(), 1, "{ppm} ppm: {told}");
        let back = told.silences[0].1.since(ends);
        assert!(back < Span::from_millis(100), "{ppm} ppm: back after {back}: {told}");
        assert_eq!((told.counters.lost, told.counters.late), (10_000, 0), "{ppm} ppm: {told}");
        assert_eq!((told.counters.doubted, told.counters.resyncs), (0, 1), "{ppm} ppm: {told}");
        // What was placed by arrivals until reports came again is back in step by the end.
        let last = told.errors.iter().rev().take(1000).map(|error| error.abs()).max();
        assert!(last.unwrap() < Span::from_micros(50), "{ppm} ppm: {last:?}: {told}");
    }
}
