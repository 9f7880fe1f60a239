//! Under test: the latency of a foreign sender's stream (no reports, no instants in its packets) that pauses while its
//! timestamps stand still, whose timestamps jump, or whose path becomes longer: a step that all packets share is no
//! jitter.

use tautline_proto::target_delay::LossTarget;
use tautline_proto::time::{Frames, Span};
use tautline_sim::clock::TrueTime;
use tautline_sim::fault::SenderFault;
use tautline_sim::heard::Heard;
use tautline_sim::link::PathModel;
use tautline_sim::preset::Preset;
use tautline_sim::scenario::Scenario;
use tautline_sim::world::play;

const STEP: TrueTime = TrueTime::from_nanos(20_000_000_000);
const WHOLE: Span = Span::from_secs(40);

fn foreign(packet: i64, latency: Span) -> Scenario {
    let mut scenario = Scenario::on(Preset::Wired, 35);
    (scenario.stamps, scenario.reports, scenario.unannounced) = (false, false, true);
    scenario.format.packet = Frames::new(packet);
    scenario.latency = latency;
    scenario
}

/// Pauses that long; the timestamps stand still meanwhile.
fn pausing(mut scenario: Scenario, pause: Span) -> Scenario {
    let ends = STEP.after(pause);
    let back = scenario.format.rate.frames_within(pause);
    scenario.sender.stopped = vec![(STEP, ends)];
    scenario.faults = vec![(ends, SenderFault::TimeJumps(Frames::ZERO - back))];
    scenario
}

#[track_caller]
fn is_placed_again_within(most: Span, heard: &Heard) {
    assert!(heard.first_wrong.is_none() && heard.loudest <= 1.0, "{heard}");
    assert_eq!(heard.counters.resyncs, 1, "{heard}: {:?}", heard.resyncs);
    assert!(heard.silences.len() <= 1, "{heard}");
    for (from, to) in &heard.silences {
        assert!(to.since(*from) <= most, "{:?}: {heard}", to.since(*from));
    }
    assert_eq!(heard.counters.resampled_frames, 0, "{heard}");
    assert!(heard.heard_until(WHOLE), "{heard}");
}

#[test]
fn a_step_of_a_foreign_senders_time_changes_no_latency() {
    let millis = Span::from_millis;
    for packet in [48, 240, 960] {
        for (step, latency) in [(100, 60), (150, 60), (3_000, 60), (3_000, 400)] {
            let (step, latency) = (millis(step), millis(latency));
            // The step, twice the latency until new packets sound, and 60 ms to see it.
            let most = step + latency.times(2) + millis(60);
            let scenario = foreign(packet, latency);
            let heard = play(pausing(scenario.clone(), step), WHOLE).remove(0);
            is_placed_again_within(most, &heard);
            assert!(heard.offsets.is_empty(), "{:?}", heard.offsets);
            let mut longer = scenario.clone();
            longer.receivers[0].there =
                PathModel { ..Preset::Wired.path() }.longer_from(STEP, step);
            let heard = play(longer, WHOLE).remove(0);
            is_placed_again_within(most, &heard);
            assert!(heard.offsets.is_empty(), "{:?}", heard.offsets);
            let mut jumping = scenario;
            jumping.faults =
                vec![(STEP, SenderFault::TimeJumps(jumping.format.rate.frames_within(step)))];
            let heard = play(jumping, WHOLE).remove(0);
            is_placed_again_within(most, &heard);
            assert!(heard.offsets.is_empty(), "{:?}", heard.offsets);
        }
    }
}

#[test]
fn an_automatic_latency_does_not_rise_by_a_step() {
    let mut scenario = foreign(48, Span::from_millis(20));
    scenario.unannounced = false;
    scenario.auto = Some(LossTarget::default());
    let steady = play(scenario.clone(), WHOLE).remove(0);
    let heard = play(pausing(scenario.clone(), Span::from_secs(3)), WHOLE).remove(0);
    assert_eq!(heard.counters.resyncs, steady.counters.resyncs + 1, "{heard}");
    assert_eq!(heard.journal.greatest, steady.journal.greatest, "{heard}");
    // Without a marker, and with two packets on the way that are later still: they are late by the step, too.
    let millis = Span::from_millis;
    let path = Preset::Wired.path().longer_from(STEP, millis(1_000));
    let busy = path.clone().longer_from(STEP.after(millis(15)), millis(20));
    let busy = busy.longer_from(STEP.after(millis(17)), millis(-20));
    // Two steps at once.
    let again = path.longer_from(STEP.after(millis(45)), millis(50));
    for there in [busy, again] {
        scenario.receivers[0].there = there;
        let heard = play(scenario.clone(), WHOLE).remove(0);
        assert_eq!(heard.journal.greatest, steady.journal.greatest, "{heard}");
    }
}
