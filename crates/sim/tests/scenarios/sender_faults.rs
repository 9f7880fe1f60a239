//! Senders that pause, jump, restart or lie, and other senders at their address.

use tautline_proto::counters::Counters;
use tautline_proto::packet::StreamId;
use tautline_proto::packetizer::Identity;
use tautline_proto::target_delay::LossTarget;
use tautline_proto::time::{Frames, Span};
use tautline_sim::card::CardModel;
use tautline_sim::clock::TrueTime;
use tautline_sim::fault::{Intruder, Lie, SenderFault, home, place};
use tautline_sim::link::{Loss, PathModel};
use tautline_sim::preset::Preset;
use tautline_sim::received::Received;
use tautline_sim::scenario::{HostModel, Scenario};
use tautline_sim::world::{IDENTITY, World, play};

#[test]
fn second_sender_to_an_address_is_not_played() {
    let mut scenario = Scenario::on(Preset::Wired, 13);
    let at = |seconds: i64| TrueTime::from_nanos(seconds * 1_000_000_000);
    let identity = Identity { stream: StreamId(0xBAD), sequence: 1, timestamp: 5 };
    scenario.intruder = Some(Intruder { identity, from: place(1, 9), sends: (at(20), at(30)) });
    let reported = &play(scenario, Span::from_secs(50))[0];
    assert!(reported.first_wrong.is_none() && reported.silences.is_empty(), "{reported}");
    assert!(reported.damaged.is_empty() && reported.loudest <= 1.0, "{reported}");
    let counters = &reported.counters;
    assert_eq!((counters.other_source, counters.invalid), (10_000, 0), "{reported}");
    assert_eq!((counters.lost, counters.late, counters.on_probation), (0, 0, 0), "{reported}");
    assert_eq!(counters.resyncs, 0, "{reported}");
}

// Without announced latency or capture times, the latency follows the packets' need from the start.

const DEFAULT: Span = Span::from_millis(5);
/// Card, resampler look-ahead (12 frames), and 1 ms of path, rounded up to 0.1 ms.
const TAKES: Span = Span::from_micros(3_300);

/// Ten seconds without announcement. The sender's card delivers `period` frames at a time.
fn unannounced(preset: Preset, packet: i64, period: i64) -> Received {
    let mut scenario = Scenario::on(preset, 51);
    scenario.format.packet = Frames::new(packet);
    scenario.sender.card.period = Frames::new(period);
    scenario.latency = DEFAULT;
    (scenario.stamps, scenario.reports) = (false, false);
    scenario.unannounced = true;
    play(scenario, Span::from_secs(10)).remove(0)
}

fn kept(received: &Received) -> Span {
    received.offsets.last().map_or(DEFAULT, |(_, offset)| *offset)
}

#[test]
fn unannounced_stream_is_measured_before_placement() {
    for millis in [5, 10, 20] {
        let received = unannounced(Preset::Wired, millis * 48, 48);
        assert_eq!(
            (received.counters.late, received.counters.lost),
            (0, 0),
            "{millis} ms: {received}"
        );
        assert_eq!(
            (received.counters.missing_frames, received.counters.resyncs),
            (0, 0),
            "{received}"
        );
        assert!(
            received.first_wrong.is_none() && received.damaged.is_empty(),
            "{millis} ms: {received}"
        );
        // One rise, to the need of the packet length.
        assert_eq!(received.offsets.len(), 1, "{millis} ms: {:?}", received.offsets);
        assert_eq!(kept(&received), Span::from_millis(millis) + TAKES, "{millis} ms");
    }
}

#[test]
fn packets_that_need_no_more_leave_the_latency_as_it_is() {
    for preset in [Preset::Wired, Preset::SwitchUnderLoad] {
        let received = unannounced(preset, 48, 48);
        assert_eq!((received.counters.late, received.counters.lost), (0, 0), "{received}");
        assert!(received.offsets.is_empty(), "{:?}", received.offsets);
    }
}

#[test]
fn packet_bunches_raise_the_latency_within_100_ms() {
    // Like a sound server that wakes every 1024 frames: three or four packets.
    let received = unannounced(Preset::Wired, 320, 1024);
    let reported = format!("{received}, {:?}", received.offsets);
    assert!(received.counters.late <= 10, "{reported}");
    assert!(received.offsets.len() <= 3, "{reported}");
    assert!(kept(&received) > Span::from_millis(20), "{reported}");
    assert!(kept(&received) < Span::from_millis(40), "{reported}");
}

// A sender's host stalls, and its card drops that sound.

#[test]
fn paused_sender_is_heard_again_within_1_s() {
    for millis in [200, 10_000, 60_000] {
        resumes_after(Span::from_millis(millis));
    }
}

#[test]
#[ignore = "soak: make nightly 3/5 runs it"]
fn sender_is_heard_within_1_s_after_a_day() {
    resumes_after(Span::from_secs(86_400));
}

#[track_caller]
fn resumes_after(pause: Span) {
    let mut scenario = Scenario::on(Preset::Wired, 15);
    let begins = TrueTime::from_nanos(20_000_000_000);
    let ends = begins.after(pause);
    let card = CardModel { period: Frames::new(960), ..CardModel::IDEAL };
    scenario.latency = Span::from_millis(80);
    scenario.format.packet = Frames::new(960);
    scenario.receivers[0].host = HostModel::with_card(card);
    scenario.sender = HostModel { stopped: vec![(begins, ends)], ..HostModel::with_card(card) };
    let whole = Span::from_secs(40) + pause;
    let reported = &play(scenario, whole)[0];
    assert!(reported.first_wrong.is_none() && reported.loudest <= 1.0, "{pause}: {reported}");
    assert!(reported.received_until(whole), "{pause}: {reported}");
    assert_eq!(reported.silences.len(), 1, "{pause}: {reported}");
    assert!(reported.silences[0].1.since(ends) < Span::from_secs(1), "{pause}: {reported}");
    // After half the timestamp wrap, the first packet seems old.
    let wraps = pause > Span::from_secs(1 << 15);
    assert!(reported.counters.late <= u64::from(wraps), "{pause}: {reported}");
    assert_eq!(reported.counters.lost, 0, "{pause}: {reported}");
    assert!(reported.counters.resyncs <= 1, "{pause}: {reported}");
}

// Packets are also lost at the second jump.

#[test]
fn sound_returns_within_1_s_after_a_timestamp_jump() {
    let hours = |hours: i64| Frames::new(hours * 3600 * 48_000);
    for loss in [Loss::NONE, Loss::random(0.05)] {
        let jumps = [hours(3), hours(-5), hours(13), Frames::new(24_000), Frames::new(-24_000)];
        let mut scenario = Scenario::on(Preset::Wired, 11);
        scenario.receivers[0].there = PathModel { loss, ..Preset::Wired.path() };
        let at = |number: i64| TrueTime::from_nanos((20 + 10 * number) * 1_000_000_000);
        scenario.faults = (0..).map(at).zip(jumps.map(SenderFault::TimeJumps)).collect();
        let reported = &play(scenario, Span::from_secs(80))[0];
        assert!(reported.first_wrong.is_none() && reported.loudest <= 1.0, "{reported}");
        assert_eq!(reported.counters.resyncs, jumps.len() as u64, "{reported}");
        assert!(reported.silences.len() <= jumps.len(), "{reported}");
        for (from, to) in &reported.silences {
            assert!(to.since(*from) < Span::from_secs(1), "{from:?} to {to:?}: {reported}");
        }
        assert!(reported.received_until(Span::from_secs(80)), "{reported}");
        assert!(reported.counters.lost == 0 || loss != Loss::NONE, "{reported}");
    }
}

#[test]
fn a_sequence_that_restarts_is_followed_within_a_second() {
    let anew = |ssrc| {
        SenderFault::Restarts(Identity {
            stream: StreamId::from(ssrc),
            sequence: 9,
            timestamp: 0x7777_0000,
        })
    };
    let faults = [
        SenderFault::SequenceRestarts(1),
        SenderFault::SequenceRestarts(40_000),
        anew(IDENTITY.stream.ssrc()),
        anew(0xFEED),
    ];
    for fault in faults {
        let mut scenario = Scenario::on(Preset::Wired, 12);
        let cause = TrueTime::from_nanos(20_000_000_000);
        scenario.faults = vec![(cause, fault)];
        let reported = &play(scenario, Span::from_secs(40))[0];
        assert!(reported.first_wrong.is_none() && reported.loudest <= 1.0, "{fault:?}: {reported}");
        assert!(reported.received_until(Span::from_secs(40)), "{fault:?}: {reported}");
        for (_, back) in &reported.silences {
            assert!(back.since(cause) < Span::from_secs(1), "{fault:?}: {reported}");
        }
        let counters = &reported.counters;
        let goes_on = matches!(fault, SenderFault::SequenceRestarts(_));
        assert_eq!(counters.resyncs, u64::from(!goes_on), "{fault:?}: {reported}");
        if goes_on {
            assert_eq!(
                (counters.missing_frames, counters.on_probation),
                (0, 0),
                "{fault:?}: {reported}"
            );
            assert!(reported.silences.is_empty(), "{fault:?}: {reported}");
        }
        assert_eq!((counters.lost, counters.late), (0, 0), "{fault:?}: {reported}");
        let renamed =
            matches!(fault, SenderFault::Restarts(Identity { stream: StreamId(0xFEED), .. }));
        assert_eq!(counters.other_source > 0, renamed, "{fault:?}: {reported}");
    }
}

// Latency of a foreign stream (no reports, no times in packets) after a pause, a timestamp jump, or
// a longer path. A step of all packets is not jitter.

const STEP: TrueTime = TrueTime::from_nanos(20_000_000_000);
const WHOLE: Span = Span::from_secs(40);

fn foreign(packet: i64, latency: Span) -> Scenario {
    let mut scenario = Scenario::on(Preset::Wired, 35);
    (scenario.stamps, scenario.reports, scenario.unannounced) = (false, false, true);
    scenario.format.packet = Frames::new(packet);
    scenario.latency = latency;
    scenario
}

fn pausing(mut scenario: Scenario, pause: Span) -> Scenario {
    let ends = STEP.after(pause);
    let back = scenario.format.rate.frames_within(pause);
    scenario.sender.stopped = vec![(STEP, ends)];
    scenario.faults = vec![(ends, SenderFault::TimeJumps(Frames::ZERO - back))];
    scenario
}

#[track_caller]
fn is_placed_again_within(maximum: Span, received: &Received) {
    assert!(received.first_wrong.is_none() && received.loudest <= 1.0, "{received}");
    assert_eq!(received.counters.resyncs, 1, "{received}: {:?}", received.resyncs);
    assert!(received.silences.len() <= 1, "{received}");
    for (from, to) in &received.silences {
        assert!(to.since(*from) <= maximum, "{:?}: {received}", to.since(*from));
    }
    assert_eq!(received.counters.resampled_frames, 0, "{received}");
    assert!(received.received_until(WHOLE), "{received}");
}

#[test]
fn a_step_of_a_foreign_senders_time_changes_no_latency() {
    let millis = Span::from_millis;
    for packet in [48, 240, 960] {
        for (step, latency) in [(100, 60), (150, 60), (3_000, 60), (3_000, 400)] {
            let (step, latency) = (millis(step), millis(latency));
            // The step, twice the latency until new packets play, and 60 ms of detection.
            let maximum = step + latency.times(2) + millis(60);
            let scenario = foreign(packet, latency);
            let received = play(pausing(scenario.clone(), step), WHOLE).remove(0);
            is_placed_again_within(maximum, &received);
            assert!(received.offsets.is_empty(), "{:?}", received.offsets);
            let mut longer = scenario.clone();
            longer.receivers[0].there =
                PathModel { ..Preset::Wired.path() }.longer_from(STEP, step);
            let received = play(longer, WHOLE).remove(0);
            is_placed_again_within(maximum, &received);
            assert!(received.offsets.is_empty(), "{:?}", received.offsets);
            let mut jumping = scenario;
            jumping.faults =
                vec![(STEP, SenderFault::TimeJumps(jumping.format.rate.frames_within(step)))];
            let received = play(jumping, WHOLE).remove(0);
            is_placed_again_within(maximum, &received);
            assert!(received.offsets.is_empty(), "{:?}", received.offsets);
        }
    }
}

#[test]
fn an_automatic_latency_does_not_rise_by_a_step() {
    let mut scenario = foreign(48, Span::from_millis(20));
    scenario.unannounced = false;
    scenario.auto = Some(LossTarget::default());
    let steady = play(scenario.clone(), WHOLE).remove(0);
    let received = play(pausing(scenario.clone(), Span::from_secs(3)), WHOLE).remove(0);
    assert_eq!(received.counters.resyncs, steady.counters.resyncs + 1, "{received}");
    assert_eq!(received.journal.greatest, steady.journal.greatest, "{received}");
    // Without a marker, and with two even later packets. They are late by the step too.
    let millis = Span::from_millis;
    let path = Preset::Wired.path().longer_from(STEP, millis(1_000));
    let busy = path.clone().longer_from(STEP.after(millis(15)), millis(20));
    let busy = busy.longer_from(STEP.after(millis(17)), millis(-20));
    let again = path.longer_from(STEP.after(millis(45)), millis(50));
    for there in [busy, again] {
        scenario.receivers[0].there = there;
        let received = play(scenario.clone(), WHOLE).remove(0);
        assert_eq!(received.journal.greatest, steady.journal.greatest, "{received}");
    }
}

// A stranger sends with the stream's SSRC from another address, as any group member can. The stream
// is unaffected; the stranger's packets count as from another source.

fn at(millis: i64) -> TrueTime {
    TrueTime::from_nanos(millis * 1_000_000)
}

fn received(change: impl FnOnce(&mut Scenario), seconds: i64) -> Received {
    let mut scenario = Scenario::on(Preset::Wired, 15);
    change(&mut scenario);
    play(scenario, Span::from_secs(seconds)).remove(0)
}

fn stranger(sequence: u16, timestamp: u32, sends: (i64, i64)) -> Intruder {
    let identity = Identity { stream: IDENTITY.stream, sequence, timestamp };
    Intruder { identity, from: place(1, 9), sends: (at(sends.0), at(sends.1)) }
}

#[test]
fn other_host_with_the_senders_ssrc_is_not_played() {
    for (sequence, timestamp) in [(30_000, 0x6666_0000), (IDENTITY.sequence, IDENTITY.timestamp)] {
        let reported =
            received(|s| s.intruder = Some(stranger(sequence, timestamp, (5_000, 15_000))), 20);
        assert!(reported.first_wrong.is_none() && reported.silences.is_empty(), "{reported}");
        assert!(reported.damaged.is_empty(), "{reported}");
        let counters = &reported.counters;
        assert_eq!(
            (counters.other_source, counters.duplicate, counters.on_probation),
            (10_000, 0, 0),
            "{reported}"
        );
        assert_eq!((counters.lost, counters.late, counters.resyncs), (0, 0, 0), "{reported}");
    }
}

#[test]
fn a_sender_that_moved_is_followed_after_fifty_milliseconds() {
    let reported = received(|s| s.faults = vec![(at(5_000), SenderFault::Moves(place(1, 7)))], 10);
    assert!(reported.first_wrong.is_none() && reported.damaged.len() == 1, "{reported}");
    assert!(reported.longest_spoilt() <= Frames::new(52 * 48), "{reported}");
    let counters = &reported.counters;
    // The move is not known yet, so these packets count as from another source.
    assert!((49..=52).contains(&counters.other_source), "{reported}");
    assert_eq!((counters.lost, counters.resyncs), (counters.other_source, 0), "{reported}");
}

// SSRC collision (RFC 3550 §8.2) behind one address, as via a relay, for 5 s. The sound recovers at
// once.

#[test]
fn two_senders_of_one_name_spoil_no_more_than_the_time_of_both() {
    for (sequence, timestamp) in [(30_000, 0x6666_0000), (IDENTITY.sequence, IDENTITY.timestamp)] {
        let mut scenario = Scenario::on(Preset::Wired, 14);
        let at = |seconds: i64| TrueTime::from_nanos(seconds * 1_000_000_000);
        let (begins, ends) = (at(20), at(25));
        let identity = Identity { stream: IDENTITY.stream, sequence, timestamp };
        scenario.intruder = Some(Intruder { identity, from: home()[0], sends: (begins, ends) });
        let reported = &play(scenario, Span::from_secs(45))[0];
        assert!(
            reported.loudest <= 1.0 && reported.received_until(Span::from_secs(45)),
            "{reported}"
        );
        for (from, to) in &reported.silences {
            assert!(*from >= begins.after(Span::from_millis(-20)), "{reported}");
            assert!(to.since(ends) < Span::from_secs(1), "{reported}");
        }
        let counters = &reported.counters;
        // Each unplayed datagram of the sender has one counter. It sent 5000.
        let Counters { on_probation, duplicate, late, too_early, reordered, .. } = *counters;
        assert_eq!(on_probation + duplicate + late + too_early + reordered, 5000, "{reported}");
        // The last datagram may still be in flight.
        let carried = reported.carried.len() as u64;
        assert!(
            (carried - 1..=carried).contains(&(counters.received + on_probation)),
            "{reported}"
        );
        assert_eq!(counters.other_source, 0, "{reported}");
    }
}

// For 10 s, every second report is false. The sound follows the true ones.

#[test]
fn reports_that_lie_move_no_sound() {
    let spans = [-3_600_000, -1_000, -30, 30, 1_000, 3_600_000].map(Span::from_millis);
    for (seed, by) in (71..).zip(spans) {
        for lie in [Lie::Report(by), Lie::Clock(by), Lie::Wait(by)] {
            let mut scenario = Scenario::on(Preset::Wired, seed);
            let begins = TrueTime::from_nanos(20_000_000_000);
            let ends = begins.after(Span::from_secs(10));
            scenario.faults = vec![(begins, SenderFault::Lies(lie, ends))];
            // Packets with capture times do not use sender reports.
            scenario.stamps = !matches!(lie, Lie::Report(_));
            let mut world = World::new(scenario);
            world.run(begins.since(TrueTime::ZERO));
            let reported = format!("wired, seed {seed}, {lie:?}");
            let resyncs = world.received().next().map_or(0, |received| received.counters.resyncs);
            for _ in 0..1000 {
                world.run(Span::from_millis(20));
                let (at, look) = (world.now(), world.look(0).expect("it plays"));
                assert!(look.error.abs() <= look.uncertainty, "{reported}: {look:?} at {at:?}");
                assert!(
                    look.uncertainty < Span::from_micros(300),
                    "{reported}: {look:?} at {at:?}"
                );
            }
            let (look, lies) = (world.look(0).expect("it plays"), u64::from(world.lies()));
            let received = &world.finish()[0];
            assert!(
                received.first_wrong.is_none() && received.damaged.is_empty(),
                "{reported}: {received}"
            );
            assert_eq!(received.counters.resyncs, resyncs, "{reported}: {received}");
            assert_eq!((look.steps, look.path_changes), (0, 0), "{reported}: {look:?}");
            let counted = (received.counters.reports_on_probation, u64::from(look.refused));
            let expected = if matches!(lie, Lie::Report(_)) { (lies, 0) } else { (0, lies) };
            assert!(counted == expected && lies >= 10, "{reported}: {counted:?}, not {expected:?}");
        }
    }
}
