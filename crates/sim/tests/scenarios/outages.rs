//! Stalled hosts, links that are down, and receivers that are gone.

use tautline_proto::send_policy::SendNote;
use tautline_proto::time::Span;
use tautline_sim::card::CardModel;
use tautline_sim::clock::TrueTime;
use tautline_sim::link::{Holds, Jitter, Loss};
use tautline_sim::preset::Preset;
use tautline_sim::scenario::{HostModel, ReceiverEnd, Scenario};
use tautline_sim::world::{World, play};

// A receiver's host stalls for tens of milliseconds, like a virtual machine; its card underruns.

#[test]
fn stalled_host_is_received_again_immediately() {
    let seed = 6;
    let mut scenario = Scenario::on(Preset::Wired, seed);
    scenario.receivers[0].host.freezes =
        Some(Holds { every: Span::from_secs(4), length: Jitter::Uniform(Span::from_millis(36)) });
    let received = &play(scenario, Span::from_secs(600))[0];
    let reported = format!("seed {seed}: {received}");
    assert!(received.starved.count() > 48 * 1000, "{reported}");
    // Only the card's silence is missing, apart from fades and frames due meanwhile.
    assert!(received.longest_spoilt().count() <= 48 * 40, "{reported}");
    assert!(received.error_at(0.999).unwrap() < Span::from_micros(100), "{reported}");
    assert!(received.resyncs.is_empty(), "{reported}");
}

#[test]
fn sound_returns_within_1_s_after_10_s_without_a_link() {
    for ppm in [0.0, 100.0] {
        let mut scenario = Scenario::on(Preset::Wired, 17);
        let begins = TrueTime::from_nanos(20_000_000_000);
        let ends = begins.after(Span::from_secs(10));
        let one = &mut scenario.receivers[0];
        one.host = HostModel::with_card(CardModel::off_by(ppm));
        one.there.outages = vec![(begins, ends)];
        one.back.outages = vec![(begins, ends)];
        let reported = &play(scenario, Span::from_secs(60))[0];
        assert!(reported.first_wrong.is_none(), "{ppm} ppm: {reported}");
        // Resampled sound overshoots the ramp's step of two by 14.1 % (Helmberg, "The Gibbs
        // phenomenon for Fourier interpolation", 1994).
        let loudest = (reported.loudest, reported.loudest_ringing);
        assert!(loudest.0 <= 1.0 && loudest.1 <= 1.2823, "{ppm} ppm: {loudest:?}: {reported}");
        assert!(reported.received_until(Span::from_secs(60)), "{ppm} ppm: {reported}");
        assert_eq!(reported.silences.len(), 1, "{ppm} ppm: {reported}");
        let back = reported.silences[0].1.since(ends);
        assert!(back < Span::from_millis(100), "{ppm} ppm: back after {back}: {reported}");
        assert_eq!(
            (reported.counters.lost, reported.counters.late),
            (10_000, 0),
            "{ppm} ppm: {reported}"
        );
        assert_eq!(
            (reported.counters.on_probation, reported.counters.resyncs),
            (0, 1),
            "{ppm} ppm: {reported}"
        );
        // Placed by arrivals until reports resume, then in sync.
        let last = reported.errors.iter().rev().take(1000).map(|error| error.abs()).max();
        assert!(last.unwrap() < Span::from_micros(50), "{ppm} ppm: {last:?}: {reported}");
    }
}

// Receivers that stop reporting: killed, after a goodbye, cut off for 10 s, and unaffected. 5 % of
// the reports are lost, one by one, because they are 0.5 s apart.

fn at(seconds: i64) -> TrueTime {
    TrueTime::ZERO.after(Span::from_secs(seconds))
}

fn network(preset: Preset, seed: u64) -> Scenario {
    let mut scenario = Scenario::on(preset, seed);
    scenario.latency = preset.suits();
    scenario.receivers[0].back.loss = Loss::random(0.05);
    scenario
}

fn noted(preset: Preset, seed: u64) -> Vec<(TrueTime, SendNote)> {
    let mut scenario = network(preset, seed);
    let one = scenario.receivers[0].clone();
    scenario.receivers = vec![one; 4];
    scenario.receivers[0].ends = Some((at(20), ReceiverEnd::Killed));
    scenario.receivers[1].ends = Some((at(20), ReceiverEnd::Goodbye));
    scenario.receivers[1].back.loss = Loss::NONE;
    scenario.receivers[2].back.outages = vec![(at(30), at(40))];
    let mut world = World::new(scenario);
    world.run(Span::from_secs(60));
    let of_receivers = |note: &SendNote| {
        matches!(note, SendNote::ReceiverLost { .. } | SendNote::ReceiverBack { .. })
    };
    world.noted().iter().copied().filter(|(_, note)| of_receivers(note)).collect()
}

#[test]
fn a_receiver_that_is_killed_is_lost_within_three_seconds() {
    for preset in [Preset::Wired, Preset::WifiBad] {
        for seed in [71, 72] {
            let reported = noted(preset, seed);
            let [
                (killed, SendNote::ReceiverLost { ssrc: 1, .. }),
                (unable, SendNote::ReceiverLost { ssrc: 3, .. }),
                (back, SendNote::ReceiverBack { ssrc: 3, times_lost: 1, .. }),
            ] = reported[..]
            else {
                panic!("{preset:?}, seed {seed}: {reported:?}");
            };
            // The last report may be one interval old, or more after losses.
            for (when, since) in [(killed, at(20)), (unable, at(30))] {
                let after = when.since(since);
                let fits = (Span::from_secs(1)..Span::from_millis(3100)).contains(&after);
                assert!(fits, "{preset:?}, seed {seed}: {after}");
            }
            assert!(
                back.since(at(40)) < Span::from_secs(2),
                "{preset:?}, seed {seed}: {reported:?}"
            );
            assert_eq!(reported, noted(preset, seed), "{preset:?}, seed {seed} replays");
        }
    }
}

#[test]
fn receivers_that_report_over_bad_networks_are_never_lost() {
    for preset in [Preset::WifiBad, Preset::Satellite] {
        let mut world = World::new(network(preset, 73));
        world.run(Span::from_secs(600));
        let lost = |(_, note): &&(_, SendNote)| matches!(note, SendNote::ReceiverLost { .. });
        assert_eq!(world.noted().iter().find(lost), None, "{preset:?}, seed 73");
    }
}

#[test]
fn receiver_stalled_for_five_seconds_recovers_within_one() {
    let mut scenario = Scenario::on(Preset::Wired, 16);
    let (begins, stands) = (TrueTime::from_nanos(20_000_000_000), Span::from_secs(5));
    let ends = begins.after(stands);
    scenario.receivers[0].host.stopped = vec![(begins, ends)];
    let reported = &play(scenario, Span::from_secs(45))[0];
    assert!(reported.first_wrong.is_none() && reported.loudest <= 1.0, "{reported}");
    assert!(reported.received_until(Span::from_secs(45)), "{reported}");
    assert_eq!(reported.silences.len(), 1, "{reported}");
    assert!(reported.silences[0].1.since(ends) < Span::from_millis(100), "{reported}");
    let counters = &reported.counters;
    assert_eq!(counters.lost, 0, "{reported}");
    assert!((4_995..=5_005).contains(&(counters.late + counters.underrun_discarded)), "{reported}");
    assert_eq!(
        reported.gaps.host_stalled,
        counters.late + counters.underrun_discarded,
        "{reported}"
    );
    let starved = reported.starved.count() - 5 * 48_000;
    assert!((-96..=96).contains(&starved), "{reported}");
}
