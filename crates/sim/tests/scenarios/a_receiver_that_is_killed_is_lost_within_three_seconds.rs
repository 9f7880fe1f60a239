//! Under test: whether a sender notices receivers that stop reporting. One is killed, one says goodbye, one cannot
//! report for ten seconds, and one stays. A twentieth of the reports is lost, one by one: they are half a second
//! apart, and a burst of losses takes milliseconds.

use tautline_proto::send_policy::SendNote;
use tautline_proto::time::Span;
use tautline_sim::clock::TrueTime;
use tautline_sim::link::Loss;
use tautline_sim::preset::Preset;
use tautline_sim::scenario::{ReceiverEnd, Scenario};
use tautline_sim::world::World;

fn at(seconds: i64) -> TrueTime {
    TrueTime::ZERO.after(Span::from_secs(seconds))
}

/// A network whose reports are lost one by one.
fn network(preset: Preset, seed: u64) -> Scenario {
    let mut scenario = Scenario::on(preset, seed);
    scenario.latency = preset.suits();
    scenario.receivers[0].back.loss = Loss::random(0.05);
    scenario
}

/// What the sender notes of its receivers within a minute, and when.
fn noted(preset: Preset, seed: u64) -> Vec<(TrueTime, SendNote)> {
    let mut scenario = network(preset, seed);
    let one = scenario.receivers[0].clone();
    scenario.receivers = vec![one; 4];
    scenario.receivers[0].ends = Some((at(20), ReceiverEnd::Killed));
    scenario.receivers[1].ends = Some((at(20), ReceiverEnd::Goodbye));
    // A goodbye that is lost is none.
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
            let told = noted(preset, seed);
            let [
                (killed, SendNote::ReceiverLost { ssrc: 1, .. }),
                (unable, SendNote::ReceiverLost { ssrc: 3, .. }),
                (back, SendNote::ReceiverBack { ssrc: 3, times_lost: 1, .. }),
            ] = told[..]
            else {
                panic!("{preset:?}, seed {seed}: {told:?}");
            };
            // The last report may be older than the end by an interval, and lost ones make it older.
            for (when, since) in [(killed, at(20)), (unable, at(30))] {
                let after = when.since(since);
                let fits = (Span::from_secs(1)..Span::from_millis(3100)).contains(&after);
                assert!(fits, "{preset:?}, seed {seed}: {after}");
            }
            assert!(back.since(at(40)) < Span::from_secs(2), "{preset:?}, seed {seed}: {told:?}");
            assert_eq!(told, noted(preset, seed), "{preset:?}, seed {seed} replays");
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
