//! Under test: two workers with the same blocks, one of which fails.

use tautline_proto::time::Span;
use tautline_sim::clock::TrueTime;
use tautline_sim::link::{Loss, PathModel};
use tautline_sim::offload::{OffloadScenario, WorkerModel, play_offload};
use tautline_sim::preset::Preset;

fn at(millis: i64) -> TrueTime {
    TrueTime::ZERO.after(Span::from_millis(millis))
}

/// A worker and a spare that is a little further away.
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
fn two_workers_lose_only_what_both_lose() {
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
