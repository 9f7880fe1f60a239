//! A plugin that runs on another host.

use tautline_proto::offload::inbound::PluginState;
use tautline_proto::offload::returns::{Cause, Replacement};
use tautline_proto::time::Span;
use tautline_sim::clock::TrueTime;
use tautline_sim::link::{Jitter, Loss, PathModel};
use tautline_sim::offload::{OffloadOutcome, OffloadScenario, WorkerModel, play_offload};
use tautline_sim::preset::Preset;

// State of a remote plugin after it missed blocks.

fn at(millis: i64) -> TrueTime {
    TrueTime::ZERO.after(Span::from_millis(millis))
}

fn check(outcome: &OffloadOutcome, what: &str) {
    assert_eq!(outcome.first_wrong, None, "{what}: {outcome}");
    assert_eq!(outcome.first_misnoted, None, "{what}: {outcome}");
}

const fn frames(millis: u64) -> u64 {
    millis * 48
}

#[test]
fn worker_that_missed_a_block_becomes_bit_exact_again() {
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
        assert!(outcome.workers[0].counters.there.requests > 0, "{outcome}");
    }
}

#[test]
fn path_outage_of_200_ms_recovers_within_100_ms() {
    let mut scenario = OffloadScenario::on(Preset::Wired, 5);
    scenario.workers[0].there.outages = vec![(at(1000), at(1200))];
    let outcome = play_offload(&scenario, Span::from_secs(3));
    check(&outcome, "seed 5");
    assert_eq!(outcome.workers[0].state, PluginState::Clean, "{outcome}");
    let whole = outcome.whole_from();
    assert!((frames(1190)..frames(1300)).contains(&whole), "{whole}, {outcome}");
}

#[test]
fn worker_stall_of_200_ms_recovers_within_100_ms() {
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
    // 375 blocks of 512 kept, so the plugin processed all of them again.
    assert_eq!(outcome.workers[0].state, PluginState::Clean, "{outcome}");
    assert_eq!(outcome.workers[0].counters.there.gone, 0, "{outcome}");
    let whole = outcome.whole_from();
    assert!((frames(490)..frames(600)).contains(&whole), "{whole}, {outcome}");
}

#[test]
fn worker_that_died_too_late_resumes_at_once_as_dirty() {
    let mut scenario = OffloadScenario::on(Preset::Wired, 8);
    scenario.history = 64;
    scenario.workers[0].dead = vec![(at(1000), at(1200))];
    let outcome = play_offload(&scenario, Span::from_secs(3));
    check(&outcome, "seed 8");
    assert_eq!(outcome.workers[0].state, PluginState::Dirty(0), "{outcome}");
    let dirty = outcome.damage.iter().find(|damage| damage.cause == Cause::Dirty);
    let from = dirty.map(|damage| damage.from).expect("it is heard");
    assert!((frames(1190)..frames(1300)).contains(&from), "{from}, {outcome}");
    // A plugin that forgets needs only as much sound as it remembers.
    scenario.workers[0].memory = Some(frames(1000));
    let outcome = play_offload(&scenario, Span::from_secs(4));
    assert_eq!(outcome.workers[0].state, PluginState::Clean, "{outcome}");
    let whole = outcome.whole_from();
    assert!((frames(2000)..frames(2400)).contains(&whole), "{whole}, {outcome}");
}

fn check_whole(outcome: &OffloadOutcome, what: &str) {
    check(outcome, what);
    assert_eq!(outcome.overflow, 0, "{what}: {outcome}");
}

#[test]
fn lost_offloaded_block_spoils_only_its_own_frames() {
    for (seed, share) in [(1, 0.001), (2, 0.02), (3, 0.2)] {
        for replacement in [Replacement::Dry, Replacement::Conceal, Replacement::LastGood] {
            let mut scenario =
                OffloadScenario { replacement, ..OffloadScenario::on(Preset::Wired, seed) };
            let back = &mut scenario.workers[0].back;
            *back = PathModel { loss: Loss::random(share), ..back.clone() };
            let outcome = play_offload(&scenario, Span::from_secs(20));
            check_whole(&outcome, &format!("seed {seed}, {share}, {replacement:?}"));
            // Only answers are lost, each a run of 64 frames.
            let damage = || outcome.damage.iter().filter(|damage| damage.cause != Cause::Faded);
            assert!(damage().all(|damage| damage.frames % 64 == 0), "{outcome}");
            assert!(damage().all(|damage| damage.cause == Cause::Lost), "{outcome}");
            let lost = outcome.damaged as f64 / outcome.frames as f64;
            assert!((share / 3.0..share * 1.5).contains(&lost), "{lost}, {outcome}");
        }
    }
}

#[test]
fn loss_at_a_place_affects_that_place_only() {
    for (seed, preset) in (10..).zip(Preset::ALL) {
        for runs in [vec![64], vec![480, 1, 37, 480, 0, 255], vec![210]] {
            let mut scenario = OffloadScenario::on(preset, seed);
            scenario.delay = 2 * (preset.suits().as_nanos() / 1_000_000 * 48) as u32;
            scenario.runs = runs.clone();
            scenario.copies = 1;
            scenario.history = 4096;
            let outcome = play_offload(&scenario, Span::from_secs(10));
            check_whole(&outcome, &format!("seed {seed}, {}, {runs:?}", preset.name()));
        }
    }
}

#[test]
fn reordered_blocks_cost_nothing_within_the_delay() {
    let mut scenario = OffloadScenario::on(Preset::Wired, 4);
    scenario.delay = 1024;
    let worker = &mut scenario.workers[0];
    for path in [&mut worker.there, &mut worker.back] {
        path.jitter = Jitter::Uniform(Span::from_millis(5));
        (path.overtakes, path.duplicates) = (true, 0.05);
    }
    let outcome = play_offload(&scenario, Span::from_secs(20));
    check_whole(&outcome, "seed 4");
    assert_eq!(outcome.damaged, 0, "{outcome}");
    assert!(outcome.workers[0].master.back.duplicates > 100, "{outcome}");
}

#[test]
fn offload_scenario_replays_from_its_seed() {
    let scenario = OffloadScenario::on(Preset::WifiBad, 9);
    let one = play_offload(&scenario, Span::from_secs(5));
    assert_eq!(one, play_offload(&scenario, Span::from_secs(5)));
    let other = play_offload(&OffloadScenario::on(Preset::WifiBad, 8), Span::from_secs(5));
    assert_ne!(one, other);
}

fn with_spare(seed: u64) -> OffloadScenario {
    let mut scenario = OffloadScenario::on(Preset::Wired, seed);
    let mut spare = WorkerModel::at(Preset::Wired);
    spare.back.delay += Span::from_micros(300);
    scenario.workers.push(spare);
    scenario
}

#[test]
fn a_spare_takes_over_without_a_wrong_sample() {
    for fails in 0..2 {
        let mut scenario = with_spare(1);
        let worker = &mut scenario.workers[fails];
        worker.dead = vec![(at(500), at(900)), (at(1500), at(1510))];
        worker.frozen = vec![(at(2000), at(2200))];
        let outcome = play_offload(&scenario, Span::from_secs(4));
        assert_eq!((outcome.damaged, outcome.different), (0, 0), "{fails}: {outcome}");
        assert!(outcome.workers.iter().any(|worker| worker.played > 500), "{outcome}");
        if fails == 0 {
            assert!(outcome.workers[1].played > 400, "{outcome}");
        }
    }
}

#[test]
fn two_workers_lose_only_common_losses() {
    let mut scenario = with_spare(2);
    for worker in &mut scenario.workers {
        worker.back = PathModel { loss: Loss::random(0.1), ..worker.back.clone() };
    }
    let both = play_offload(&scenario, Span::from_secs(20));
    scenario.workers.truncate(1);
    let one = play_offload(&scenario, Span::from_secs(20));
    for outcome in [&both, &one] {
        assert_eq!(outcome.first_wrong, None, "{outcome}");
        assert_eq!(outcome.first_misnoted, None, "{outcome}");
    }
    let share = |damaged: u64| damaged as f64 / one.frames as f64;
    assert!((0.08..0.12).contains(&share(one.damaged)), "{one}");
    assert!((0.006..0.014).contains(&share(both.damaged)), "{both}");
}
