//! Under test: a sender whose whole host stands still for 200 ms, ten seconds, and for a day, as a
//! laptop does that is closed. Its card drops what it captured meanwhile.

use tautline_proto::time::{Frames, Span};
use tautline_sim::card::CardModel;
use tautline_sim::clock::TrueTime;
use tautline_sim::preset::Preset;
use tautline_sim::scenario::{HostModel, Scenario};
use tautline_sim::world::play;

#[test]
fn a_sender_that_pauses_is_heard_again_within_a_second() {
    for millis in [200, 10_000, 60_000] {
        is_heard_again_after(Span::from_millis(millis));
    }
}

#[test]
#[ignore = "soak: make nightly 3/5 runs it"]
fn a_sender_that_pauses_for_a_day_is_heard_again_within_a_second() {
    is_heard_again_after(Span::from_secs(86_400));
}

#[track_caller]
fn is_heard_again_after(pause: Span) {
    let mut scenario = Scenario::on(Preset::Wired, 15);
    let begins = TrueTime::from_nanos(20_000_000_000);
    let ends = begins.after(pause);
    // Longer periods, since a day has many.
    let card = CardModel { period: Frames::new(960), ..CardModel::IDEAL };
    scenario.latency = Span::from_millis(80);
    scenario.format.packet = Frames::new(960);
    scenario.receivers[0].host = HostModel::with_card(card);
    scenario.sender = HostModel { stopped: vec![(begins, ends)], ..HostModel::with_card(card) };
    let whole = Span::from_secs(40) + pause;
    let told = &play(scenario, whole)[0];
    assert!(told.first_wrong.is_none() && told.loudest <= 1.0, "{pause}: {told}");
    assert!(told.heard_until(whole), "{pause}: {told}");
    assert_eq!(told.silences.len(), 1, "{pause}: {told}");
    assert!(told.silences[0].1.since(ends) < Span::from_secs(1), "{pause}: {told}");
    // After half the time in which timestamps wrap, the first packet seems to be an old one.
    let wraps = pause > Span::from_secs(1 << 15);
    assert!(told.counters.late <= u64::from(wraps), "{pause}: {told}");
    assert_eq!(told.counters.lost, 0, "{pause}: {told}");
    assert!(told.counters.resyncs <= 1, "{pause}: {told}");
}
