//! Under test: the latency of a stream whose sender neither announces it nor says when it was
//! captured, as a stranger's: what its packets need, from the first of them on.

use tautline_proto::time::{Frames, Span};
use tautline_sim::heard::Heard;
use tautline_sim::preset::Preset;
use tautline_sim::scenario::Scenario;
use tautline_sim::world::play;

/// What is kept where packets need no more.
const DEFAULT: Span = Span::from_millis(5);
/// What the card here takes, what the resampler looks ahead (12 frames), and a millisecond for the
/// way: up to a tenth of one.
const TAKES: Span = Span::from_micros(3_300);

/// Ten seconds of a stranger's packets, whose card hands it so many frames at a time.
fn stranger(preset: Preset, packet: i64, period: i64) -> Heard {
    let mut scenario = Scenario::on(preset, 51);
    scenario.format.packet = Frames::new(packet);
    scenario.sender.card.period = Frames::new(period);
    scenario.latency = DEFAULT;
    (scenario.stamps, scenario.reports) = (false, false);
    scenario.unannounced = true;
    play(scenario, Span::from_secs(10)).remove(0)
}

/// The link offset as it was in the end.
fn kept(heard: &Heard) -> Span {
    heard.offsets.last().map_or(DEFAULT, |(_, offset)| *offset)
}

#[test]
fn a_sender_that_announces_nothing_is_measured_before_it_is_placed() {
    for millis in [5, 10, 20] {
        let heard = stranger(Preset::Wired, millis * 48, 48);
        assert_eq!((heard.counters.late, heard.counters.lost), (0, 0), "{millis} ms: {heard}");
        assert_eq!((heard.counters.missing_frames, heard.counters.resyncs), (0, 0), "{heard}");
        assert!(heard.first_wrong.is_none() && heard.spoilt.is_empty(), "{millis} ms: {heard}");
        // Raised once, by what the packets' own length needs.
        assert_eq!(heard.offsets.len(), 1, "{millis} ms: {:?}", heard.offsets);
        assert_eq!(kept(&heard), Span::from_millis(millis) + TAKES, "{millis} ms");
    }
}

#[test]
fn packets_that_need_no_more_leave_the_latency_as_it_is() {
    for preset in [Preset::Wired, Preset::SwitchUnderLoad] {
        let heard = stranger(preset, 48, 48);
        assert_eq!((heard.counters.late, heard.counters.lost), (0, 0), "{heard}");
        assert!(heard.offsets.is_empty(), "{:?}", heard.offsets);
    }
}

#[test]
fn packets_that_come_by_the_handful_are_waited_for_within_a_tenth_of_a_second() {
    // As a sound server does it that wakes every 1024 frames: three packets, and now and then four.
    let heard = stranger(Preset::Wired, 320, 1024);
    let told = format!("{heard}, {:?}", heard.offsets);
    assert!(heard.counters.late <= 10, "{told}");
    assert!(heard.offsets.len() <= 3, "{told}");
    assert!(kept(&heard) > Span::from_millis(20), "{told}");
    assert!(kept(&heard) < Span::from_millis(40), "{told}");
}
