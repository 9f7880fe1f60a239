//! Under test: the state of a plugin that runs elsewhere, after blocks that did not reach it: for a while, one by one, in
//! bursts, or since its host stood still or died.

use tautline_proto::offload::inbound::PluginState;
use tautline_proto::offload::returns::Cause;
use tautline_proto::time::Span;
use tautline_sim::clock::TrueTime;
use tautline_sim::link::{Loss, PathModel};
use tautline_sim::offload::{OffloadOutcome, OffloadScenario, play_offload};
use tautline_sim::preset::Preset;

fn at(millis: i64) -> TrueTime {
    TrueTime::ZERO.after(Span::from_millis(millis))
}

fn check(outcome: &OffloadOutcome, what: &str) {
    assert_eq!(outcome.first_wrong, None, "{what}: {outcome}");
    assert_eq!(outcome.first_misnoted, None, "{what}: {outcome}");
}

/// Frames of so many milliseconds.
const fn frames(millis: u64) -> u64 {
    millis * 48
}

#[test]
fn a_worker_that_missed_a_block_catches_up_and_is_bit_for_bit_again() {
    for (seed, loss) in
        [(1, Loss::random(0.01)), (2, Loss::random(0.2)), (3, Loss::bursts(0.05, 20.0))]
    {
        let mut scenario = OffloadScenario::on(Preset::Wired, seed);
        let there = &mut scenario.workers[0].there;
        *there = PathModel { loss, ..there.clone() };
        let outcome = play_offload(&scenario, Span::from_secs(20));
        check(&outcome, &format!("seed {seed}"));
        assert_eq!(outcome.workers[0].state, PluginState::Clean, "{outcome}");
        assert!(outcome.damaged > 0 && outcome.damaged < outcome.frames / 2 + 1, "{outcome}");
        assert!(outcome.workers[0].counters.there.asks > 0, "{outcome}");
    }
}

#[test]
fn a_path_that_is_out_for_a_fifth_of_a_second_is_heard_within_a_tenth() {
    let mut scenario = OffloadScenario::on(Preset::Wired, 5);
    scenario.workers[0].there.outages = vec![(at(1000), at(1200))];
    let outcome = play_offload(&scenario, Span::from_secs(3));
    check(&outcome, "seed 5");
    assert_eq!(outcome.workers[0].state, PluginState::Clean, "{outcome}");
    let whole = outcome.whole_from();
    assert!((frames(1190)..frames(1300)).contains(&whole), "{whole}, {outcome}");
}

#[test]
fn a_worker_that_stood_still_for_a_fifth_of_a_second_is_heard_within_a_tenth() {
    let mut scenario = OffloadScenario::on(Preset::Wired, 6);
    scenario.workers[0].frozen = vec![(at(1000), at(1200))];
    let outcome = play_offload(&scenario, Span::from_secs(3));
    check(&outcome, "seed 6");
    assert_eq!(outcome.workers[0].state, PluginState::Clean, "{outcome}");
    let whole = outcome.whole_from();
    assert!((frames(1190)..frames(1300)).contains(&whole), "{whole}, {outcome}");
    let mut missing = outcome.damage.iter().filter(|damage| damage.cause != Cause::Faded);
    assert!(missing.all(|damage| damage.cause == Cause::Late), "{outcome}");
}

#[test]
fn a_worker_that_died_is_given_all_blocks_while_they_are_kept() {
    let mut scenario = OffloadScenario::on(Preset::Wired, 7);
    scenario.workers[0].dead = vec![(at(300), at(500))];
    let outcome = play_offload(&scenario, Span::from_secs(3));
    check(&outcome, "seed 7");
    // 375 blocks by then, 512 are kept: it ran all of them again.
    assert_eq!(outcome.workers[0].state, PluginState::Clean, "{outcome}");
    assert_eq!(outcome.workers[0].counters.there.gone, 0, "{outcome}");
    let whole = outcome.whole_from();
    assert!((frames(490)..frames(600)).contains(&whole), "{whole}, {outcome}");
}

#[test]
fn a_worker_that_died_too_late_is_heard_at_once_and_says_that_it_is_dirty() {
    let mut scenario = OffloadScenario::on(Preset::Wired, 8);
    scenario.history = 64;
    scenario.workers[0].dead = vec![(at(1000), at(1200))];
    let outcome = play_offload(&scenario, Span::from_secs(3));
    check(&outcome, "seed 8");
    assert_eq!(outcome.workers[0].state, PluginState::Dirty(0), "{outcome}");
    let dirty = outcome.damage.iter().find(|damage| damage.cause == Cause::Dirty);
    let from = dirty.map(|damage| damage.from).expect("it is heard");
    assert!((frames(1190)..frames(1300)).contains(&from), "{from}, {outcome}");
    // Of a plugin that forgets, only until it has seen as much as it remembers.
    scenario.workers[0].memory = Some(frames(1000));
    let outcome = play_offload(&scenario, Span::from_secs(4));
    assert_eq!(outcome.workers[0].state, PluginState::Clean, "{outcome}");
    let whole = outcome.whole_from();
    assert!((frames(2000)..frames(2400)).contains(&whole), "{whole}, {outcome}");
}
