//! Under test: fifty receivers on the sender's own machine, started at random instants while it
//! sends, whose cards go by the clock of the sender's: what they play is what was captured, bit for
//! bit, from the first second on, whatever the way between them does to packets and reports.

use tautline_proto::time::Span;
use tautline_sim::clock::TrueTime;
use tautline_sim::preset::Preset;
use tautline_sim::scenario::Scenario;
use tautline_sim::world::play;

const FIRST_SECOND: Span = Span::from_secs(1);

#[test]
fn cards_of_one_clock_are_copied_from_the_first_second_whoever_joins_when() {
    let ways = [
        (Preset::Wired, 37.0),
        (Preset::Wired, -463.0),
        (Preset::SwitchUnderLoad, 28.0),
        (Preset::Wifi5Ghz, 28.0),
    ];
    for (preset, ppm) in ways {
        let span = Span::from_secs(4);
        let scenario = Scenario::one_clock(preset, ppm, 50, span, 11);
        let joins: Vec<_> = scenario.receivers.iter().map(|receiver| receiver.joins).collect();
        let whole = span + Span::from_secs(4);
        for (told, joins) in play(scenario, whole).iter().zip(joins) {
            assert_eq!(told.counters.resampled_frames, 0, "{ppm} ppm: {told}");
            assert!(told.first_wrong.is_none(), "{ppm} ppm: {told}");
            assert!(told.heard_until(whole), "{ppm} ppm: {told}");
            // The sender may not have said yet what its clock is: where it has, the place is found.
            let settled = |(when, _): &(TrueTime, _)| when.since(joins) < FIRST_SECOND;
            assert!(told.resyncs.len() <= 1, "{ppm} ppm: {told}");
            assert!(told.resyncs.iter().all(settled), "{ppm} ppm: {joins:?}: {told}");
            // Half a frame, and what the host's own error makes of the latency.
            let last = told.errors.iter().rev().take(1000).map(|error| error.abs()).max();
            assert!(last.unwrap() < Span::from_micros(13), "{ppm} ppm: {last:?}: {told}");
        }
    }
}

#[test]
fn a_link_that_was_down_for_ten_seconds_is_copied_again_where_cards_go_by_one_clock() {
    for ppm in [37.0, -63.0] {
        let mut scenario = Scenario::one_clock(Preset::Wired, ppm, 1, FIRST_SECOND, 17);
        let begins = TrueTime::from_nanos(20_000_000_000);
        let ends = begins.after(Span::from_secs(10));
        let one = &mut scenario.receivers[0];
        one.there.outages = vec![(begins, ends)];
        one.back.outages = vec![(begins, ends)];
        let told = &play(scenario, Span::from_secs(45))[0];
        assert_eq!(told.counters.resampled_frames, 0, "{ppm} ppm: {told}");
        assert!(told.first_wrong.is_none(), "{ppm} ppm: {told}");
        // The stream begins anew, and nothing moves after that.
        let later = told.resyncs.iter().filter(|(when, _)| *when > begins);
        let later: Vec<_> = later.map(|(when, _)| when.since(ends)).collect();
        assert!(later.len() == 1 && later[0] < Span::from_millis(20), "{later:?}: {told}");
        assert!(told.heard_until(Span::from_secs(45)), "{ppm} ppm: {told}");
        let last = told.errors.iter().rev().take(1000).map(|error| error.abs()).max();
        assert!(last.unwrap() < Span::from_micros(13), "{ppm} ppm: {last:?}: {told}");
    }
}
