//! Cards with rate errors.

use tautline_proto::placement::Basis;
use tautline_proto::time::{Frames, Span};
use tautline_proto::units::Ppm;
use tautline_sim::card::CardModel;
use tautline_sim::clock::{ClockEvent, TrueTime};
use tautline_sim::preset::Preset;
use tautline_sim::scenario::{HostModel, Scenario};
use tautline_sim::world::{World, play};

#[test]
fn card_that_steps_by_100_ppm_is_in_time_within_ten_seconds() {
    for (before, after) in [(0.0, 100.0), (40.0, -60.0), (-400.0, -500.0), (400.0, 500.0)] {
        let seed = 21;
        let mut scenario = Scenario::on(Preset::Wired, seed);
        let step = TrueTime::from_nanos(30_000_000_000);
        scenario.receivers[0].host = HostModel {
            card_events: vec![(step, ClockEvent::Rate(Ppm::from_f64(after)))],
            ..HostModel::with_card(CardModel::off_by(before))
        };
        let received = &play(scenario, Span::from_secs(60))[0];
        let reported = format!("{before} to {after} ppm, wired, seed {seed}: {received}");
        assert_eq!(
            (received.counters.missing_frames, received.counters.resyncs),
            (0, 0),
            "{reported}"
        );
        let settled = &received.errors[received.errors.len() - 20_000..];
        let worst = settled.iter().map(|error| error.abs()).max().unwrap();
        assert!(worst < Span::from_micros(50), "{worst}; {reported}");
    }
}

/// As a source that a zone switches to: it plays inaudibly for 2.5 s.
#[test]
fn silent_stream_is_in_place_when_it_becomes_audible() {
    let worst = |silent: Span, seed| {
        let mut scenario = Scenario::two_apart(Preset::Wired, seed);
        for receiver in &mut scenario.receivers {
            receiver.silent_until = receiver.joins.after(silent);
        }
        let received = play(scenario, Span::from_secs(10));
        let errors = received.iter().flat_map(|received| &received.errors);
        errors.map(|error| error.abs()).max().expect("it plays")
    };
    for seed in 40..50 {
        let found = worst(Span::from_millis(2500), seed);
        assert!(found < Span::from_micros(100), "{found}, seed {seed}");
    }
    // An audible stream copies frames until its error exceeds the uncertainty of the clocks.
    let audible = worst(Span::ZERO, 40);
    assert!(audible > Span::from_micros(150), "{audible}");
}

// Placement without reports: the lower envelope of arrivals has the sender card's rate, without
// jitter.

#[test]
fn arrivals_alone_follow_a_card_of_500_ppm() {
    let maximum = [
        (Preset::Wired, 5),
        (Preset::SwitchUnderLoad, 20),
        (Preset::Wifi5Ghz, 40),
        (Preset::WifiBad, 100),
        (Preset::Wan, 40),
    ];
    for (preset, maximum) in maximum {
        for ppm in [-500.0, 500.0] {
            let seed = 34;
            let mut scenario = Scenario::on(preset, seed);
            scenario.reports = false;
            scenario.latency = Span::from_millis(200);
            scenario.sender = HostModel::with_card(CardModel::off_by(ppm));
            let mut world = World::new(scenario);
            world.run(Span::from_secs(20));
            let mut errors = Vec::new();
            for _ in 0..2000 {
                world.run(Span::from_millis(20));
                let look = world.look(0).expect("it plays");
                assert_eq!(look.basis, Basis::Arrival);
                errors.push(look.error);
            }
            // The rest is the path delay, which the receiver cannot detect.
            let minimum = errors.iter().copied().min().expect("some");
            let greatest = errors.iter().copied().max().expect("some");
            let reported =
                format!("{} at {ppm} ppm, seed {seed}: {minimum} to {greatest}", preset.name());
            assert!(greatest - minimum <= Span::from_micros(2 * maximum), "{reported}");
            let shortest = preset.path().delay;
            let off = (minimum + (greatest - minimum).half() - shortest).abs();
            assert!(off <= Span::from_micros(500), "{reported}");
        }
    }
}

#[test]
#[ignore = "soak: two simulated days"]
fn a_card_500_ppm_off_plays_for_a_day_without_losing_a_frame() {
    for ppm in [-500.0, 500.0] {
        let seed = 23;
        let mut scenario = Scenario::on(Preset::Wired, seed);
        scenario.latency = Span::from_millis(40);
        scenario.format.packet = Frames::new(480);
        let period = Frames::new(480);
        scenario.sender.card.period = period;
        let card = CardModel { period, ..CardModel::off_by(ppm) };
        scenario.receivers[0].host = HostModel::with_card(card);
        let received = &play(scenario, Span::from_secs(24 * 3600))[0];
        let counters = received.counters;
        let reported = format!("wired, {ppm} ppm, seed {seed}: {received}");
        assert_eq!(
            (counters.missing_frames, counters.resyncs, counters.late),
            (0, 0, 0),
            "{reported}"
        );
        assert!(received.first_wrong.is_none() && received.damaged.is_empty(), "{reported}");
        assert_eq!(received.starved, Frames::ZERO, "{reported}");
        assert!(
            received.error_at(0.999).expect("sound was heard") < Span::from_micros(50),
            "{reported}"
        );
    }
}

// Maximum rate difference on every network with a suitable latency. Only lost frames are missing.

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
        let received = &play(Scenario::drifting(preset, ppm, seed), Span::from_secs(3600))[0];
        let counters = received.counters;
        let reported = format!("{}, {ppm} ppm, seed {seed}: {received}", preset.name());
        // On long paths, the first frames are placed by arrival, then moved once the sender's clock
        // is known.
        let mapped = TrueTime::from_nanos(2_000_000_000);
        let late = received.resyncs.iter().filter(|(at, _)| *at > mapped).count();
        assert_eq!((late, counters.late), (0, 0), "{reported}");
        assert_eq!(counters.missing_frames, 48 * counters.lost, "{reported}");
        assert!(received.first_wrong.is_none(), "{reported}");
        assert_eq!(received.starved, Frames::ZERO, "{reported}");
    }
}

// Fifty receivers on the sender's machine, with one card clock, join at random times. After 1 s
// they play bit-exactly, despite path faults.

const FIRST_SECOND: Span = Span::from_secs(1);

#[test]
fn cards_of_one_clock_copy_from_the_first_second() {
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
        for (reported, joins) in play(scenario, whole).iter().zip(joins) {
            assert_eq!(reported.counters.resampled_frames, 0, "{ppm} ppm: {reported}");
            assert!(reported.first_wrong.is_none(), "{ppm} ppm: {reported}");
            assert!(reported.received_until(whole), "{ppm} ppm: {reported}");
            // The sender may not have announced its clock yet.
            let settled = |(when, _): &(TrueTime, _)| when.since(joins) < FIRST_SECOND;
            assert!(reported.resyncs.len() <= 1, "{ppm} ppm: {reported}");
            assert!(reported.resyncs.iter().all(settled), "{ppm} ppm: {joins:?}: {reported}");
            // Half a frame, and the effect of the host's clock error on the latency.
            let last = reported.errors.iter().rev().take(1000).map(|error| error.abs()).max();
            assert!(last.unwrap() < Span::from_micros(13), "{ppm} ppm: {last:?}: {reported}");
        }
    }
}

#[test]
fn common_clock_cards_copy_again_after_a_ten_second_outage() {
    for ppm in [37.0, -63.0] {
        let mut scenario = Scenario::one_clock(Preset::Wired, ppm, 1, FIRST_SECOND, 17);
        let begins = TrueTime::from_nanos(20_000_000_000);
        let ends = begins.after(Span::from_secs(10));
        let one = &mut scenario.receivers[0];
        one.there.outages = vec![(begins, ends)];
        one.back.outages = vec![(begins, ends)];
        let reported = &play(scenario, Span::from_secs(45))[0];
        assert_eq!(reported.counters.resampled_frames, 0, "{ppm} ppm: {reported}");
        assert!(reported.first_wrong.is_none(), "{ppm} ppm: {reported}");
        let later = reported.resyncs.iter().filter(|(when, _)| *when > begins);
        let later: Vec<_> = later.map(|(when, _)| when.since(ends)).collect();
        assert!(later.len() == 1 && later[0] < Span::from_millis(20), "{later:?}: {reported}");
        assert!(reported.received_until(Span::from_secs(45)), "{ppm} ppm: {reported}");
        let last = reported.errors.iter().rev().take(1000).map(|error| error.abs()).max();
        assert!(last.unwrap() < Span::from_micros(13), "{ppm} ppm: {last:?}: {reported}");
    }
}

#[test]
fn cards_that_drift_apart_stay_in_time_and_lose_no_frame() {
    for ppm in [-500.0, -20.0, 20.0, 500.0] {
        let seed = 4;
        let mut scenario = Scenario::on(Preset::Wired, seed);
        scenario.receivers[0].host = HostModel::with_card(CardModel::off_by(ppm));
        let received = &play(scenario, Span::from_secs(120))[0];
        let reported = format!("{ppm} ppm, seed {seed}: {received}");
        assert_eq!(
            (received.counters.missing_frames, received.counters.resyncs),
            (0, 0),
            "{reported}"
        );
        assert!(received.first_wrong.is_none() && received.damaged.is_empty(), "{reported}");
        assert!(received.error_at(0.5).unwrap() <= Span::from_micros(20), "{reported}");
        // The servo acts when an error exceeds the clock uncertainty: half of the 400 µs round trip
        // and a little more.
        assert!(received.error_at(0.9999).unwrap() <= Span::from_micros(600), "{reported}");
    }
}

// Two receivers, RTCP only, with drifting clocks and cards. Measures their playout difference by
// true time.

#[test]
fn two_receivers_with_drifting_cards_play_in_step() {
    let places = [(Preset::SwitchUnderLoad, 100, 500), (Preset::Wired, 20, 100)];
    for (preset, max_median, maximum) in places {
        let seed = 35;
        let mut world = World::new(Scenario::two_apart(preset, seed));
        world.run(Span::from_secs(20));
        let begun: Vec<usize> = world.received().map(|received| received.errors.len()).collect();
        let mut apart = Vec::new();
        world.run(Span::from_secs(280));
        let received: Vec<_> =
            world.received().zip(begun).map(|(h, begun)| &h.errors[begun..]).collect();
        // Blocks of 1 ms, 0.01 % apart.
        for (one, other) in received[0].iter().zip(received[1]) {
            apart.push((*one - *other).abs());
        }
        apart.sort_unstable();
        let at = |share: f64| apart[(apart.len() as f64 * share) as usize];
        let reported = format!(
            "{}, seed {seed}: apart {} (p50), {} (p99.9)",
            preset.name(),
            at(0.5),
            at(0.999)
        );
        assert!(at(0.5) < Span::from_micros(max_median), "{reported}");
        assert!(at(0.999) < Span::from_micros(maximum), "{reported}");
        for received in world.finish() {
            assert_eq!(received.counters.resyncs, 0, "{reported}: {received}");
        }
    }
}
