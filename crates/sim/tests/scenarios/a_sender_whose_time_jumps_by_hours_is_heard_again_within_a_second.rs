//! Under test: the timeline of a receiver whose sender's RTP timestamps jump, forwards and back, by
//! hours; the second time as packets are lost.

use tautline_proto::time::{Frames, Span};
use tautline_sim::clock::TrueTime;
use tautline_sim::fault::SenderFault;
use tautline_sim::link::{Loss, PathModel};
use tautline_sim::preset::Preset;
use tautline_sim::scenario::Scenario;
use tautline_sim::world::play;

#[test]
fn a_sender_whose_time_jumps_by_hours_is_heard_again_within_a_second() {
    let hours = |hours: i64| Frames::new(hours * 3600 * 48_000);
    for loss in [Loss::NONE, Loss::random(0.05)] {
        let jumps = [hours(3), hours(-5), hours(13), Frames::new(24_000), Frames::new(-24_000)];
        let mut scenario = Scenario::on(Preset::Wired, 11);
        scenario.receivers[0].there = PathModel { loss, ..Preset::Wired.path() };
        let at = |number: i64| TrueTime::from_nanos((20 + 10 * number) * 1_000_000_000);
        scenario.faults = (0..).map(at).zip(jumps.map(SenderFault::TimeJumps)).collect();
        let told = &play(scenario, Span::from_secs(80))[0];
        assert!(told.first_wrong.is_none() && told.loudest <= 1.0, "{told}");
        // One for each jump, counted under one name.
        assert_eq!(told.counters.resyncs, jumps.len() as u64, "{told}");
        assert!(told.silences.len() <= jumps.len(), "{told}");
        for (from, to) in &told.silences {
            assert!(to.since(*from) < Span::from_secs(1), "{from:?} to {to:?}: {told}");
        }
        assert!(told.heard_until(Span::from_secs(80)), "{told}");
        assert!(told.counters.lost == 0 || loss != Loss::NONE, "{told}");
    }
}
