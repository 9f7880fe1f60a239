//! Under test: what is heard of a plugin that runs elsewhere, at places that lose, hold up and reorder, with every stand-in
//! and whatever blocks the host makes.

use tautline_proto::offload::returns::{Cause, StandIn};
use tautline_proto::time::Span;
use tautline_sim::link::{Jitter, Loss, PathModel};
use tautline_sim::offload::{OffloadOutcome, OffloadScenario, play_offload};
use tautline_sim::preset::Preset;

fn check(outcome: &OffloadOutcome, what: &str) {
    assert_eq!(outcome.first_wrong, None, "{what}: {outcome}");
    assert_eq!(outcome.first_misnoted, None, "{what}: {outcome}");
    assert_eq!(outcome.overflow, 0, "{what}: {outcome}");
}

#[test]
fn an_offloaded_block_that_is_lost_spoils_its_own_frames_and_no_other() {
    for (seed, share) in [(1, 0.001), (2, 0.02), (3, 0.2)] {
        for stand_in in [StandIn::Dry, StandIn::Conceal, StandIn::LastGood] {
            let mut scenario =
                OffloadScenario { stand_in, ..OffloadScenario::on(Preset::Wired, seed) };
            let back = &mut scenario.workers[0].back;
            *back = PathModel { loss: Loss::random(share), ..back.clone() };
            let outcome = play_offload(&scenario, Span::from_secs(20));
            check(&outcome, &format!("seed {seed}, {share}, {stand_in:?}"));
            // Only answers are lost: each is a run of 64 frames, and the plugin missed none.
            let damage = || outcome.damage.iter().filter(|damage| damage.cause != Cause::Faded);
            assert!(damage().all(|damage| damage.frames % 64 == 0), "{outcome}");
            assert!(damage().all(|damage| damage.cause == Cause::Lost), "{outcome}");
            let lost = outcome.damaged as f64 / outcome.frames as f64;
            assert!((share / 3.0..share * 1.5).contains(&lost), "{lost}, {outcome}");
        }
    }
}

#[test]
fn every_place_spoils_what_it_loses_and_no_other() {
    for (seed, preset) in (10..).zip(Preset::ALL) {
        for runs in [vec![64], vec![480, 1, 37, 480, 0, 255], vec![210]] {
            let mut scenario = OffloadScenario::on(preset, seed);
            scenario.delay = 2 * (preset.suits().as_nanos() / 1_000_000 * 48) as u32;
            scenario.runs = runs.clone();
            scenario.copies = 1;
            scenario.history = 4096;
            let outcome = play_offload(&scenario, Span::from_secs(10));
            check(&outcome, &format!("seed {seed}, {}, {runs:?}", preset.name()));
        }
    }
}

#[test]
fn what_overtakes_costs_nothing_while_the_delay_covers_it() {
    let mut scenario = OffloadScenario::on(Preset::Wired, 4);
    scenario.delay = 1024;
    let worker = &mut scenario.workers[0];
    for path in [&mut worker.there, &mut worker.back] {
        path.jitter = Jitter::Uniform(Span::from_millis(5));
        (path.overtakes, path.duplicates) = (true, 0.05);
    }
    let outcome = play_offload(&scenario, Span::from_secs(20));
    check(&outcome, "seed 4");
    assert_eq!(outcome.damaged, 0, "{outcome}");
    assert!(outcome.workers[0].master.back.duplicates > 100, "{outcome}");
}

#[test]
fn the_same_seed_of_an_offloaded_plugin_comes_out_the_same() {
    let scenario = OffloadScenario::on(Preset::WifiBad, 9);
    let one = play_offload(&scenario, Span::from_secs(5));
    assert_eq!(one, play_offload(&scenario, Span::from_secs(5)));
    let other = play_offload(&OffloadScenario::on(Preset::WifiBad, 8), Span::from_secs(5));
    assert_ne!(one, other);
}
