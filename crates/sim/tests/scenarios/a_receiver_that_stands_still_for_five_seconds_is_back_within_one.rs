//! Under test: a receiver whose host stands still for five seconds. What arrived meanwhile waits in
//! its socket and is late; the card has played silence of its own.

use tautline_proto::time::Span;
use tautline_sim::clock::TrueTime;
use tautline_sim::preset::Preset;
use tautline_sim::scenario::Scenario;
use tautline_sim::world::play;

#[test]
fn a_receiver_that_stands_still_for_five_seconds_is_back_within_one() {
    let mut scenario = Scenario::on(Preset::Wired, 16);
    let (begins, stands) = (TrueTime::from_nanos(20_000_000_000), Span::from_secs(5));
    let ends = begins.after(stands);
    scenario.receivers[0].host.stopped = vec![(begins, ends)];
    let told = &play(scenario, Span::from_secs(45))[0];
    assert!(told.first_wrong.is_none() && told.loudest <= 1.0, "{told}");
    assert!(told.heard_until(Span::from_secs(45)), "{told}");
    assert_eq!(told.silences.len(), 1, "{told}");
    assert!(told.silences[0].1.since(ends) < Span::from_millis(100), "{told}");
    // Everything came, five seconds of it too late: each is counted once, under one cause.
    let counters = &told.counters;
    assert_eq!(counters.lost, 0, "{told}");
    assert!((4_995..=5_005).contains(&(counters.late + counters.unheard)), "{told}");
    assert_eq!(told.gaps.host_stalled, counters.late + counters.unheard, "{told}");
    let starved = told.starved.count() - 5 * 48_000;
    assert!((-96..=96).contains(&starved), "{told}");
}
