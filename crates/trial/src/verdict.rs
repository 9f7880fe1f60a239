//! Decides whether the host caused a failure.

use tautline_proto::time::Span;

use crate::watch::{Seen, Window};

pub(crate) const RUNS: usize = 5;
/// Delays ordinary threads.
const OTHERS: f64 = 0.25;
/// Spoils more than moments.
const MUCH: f64 = 0.05;

/// Share of the run that a thread waited for a core, because of other tests.
const WAITED: f64 = 0.1;

/// A shorter run ended by itself, for example by a crash.
const BUSY_RUN: Span = Span::from_millis(250);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failed {
    /// Assertions about each of these windows.
    At(Vec<Window>),
    /// Any moment of the run may have spoiled it.
    Somewhere,
    /// No single moment can spoil it.
    Mostly,
}

pub(crate) struct Run {
    pub(crate) failed: Option<Failed>,
    pub(crate) seen: Seen,
    /// Whether other tests ran at the same time.
    pub(crate) beside: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TestVerdict {
    Passed,
    Failed,
    /// All runs failed, each with a disturbed host.
    NothingProved(String),
}

/// Runs until the first pass, or the first failure not caused by the host.
pub(crate) fn verdict(runs: impl Iterator<Item = Run>) -> TestVerdict {
    let mut why = String::new();
    for Run { failed, seen, beside } in runs.take(RUNS) {
        let Some(failed) = failed else { return TestVerdict::Passed };
        // Runs that repeat it are alone: they prove what a run on crowded cores cannot.
        let crowded = beside && seen.waited >= WAITED && long(&seen);
        if !crowded && !excuse(&failed, &seen) {
            return TestVerdict::Failed;
        }
        why = seen.to_string();
    }
    TestVerdict::NothingProved(why)
}

fn long(seen: &Seen) -> bool {
    seen.run.lasts() >= BUSY_RUN
}

fn excuse(failed: &Failed, seen: &Seen) -> bool {
    let busy = seen.others >= OTHERS && long(seen);
    let stalled = match failed {
        Failed::At(instants) => instants.iter().all(|when| seen.stalled(when)),
        Failed::Somewhere => !seen.stalls.is_empty(),
        Failed::Mostly => seen.stood_still() >= MUCH,
    };
    busy || stalled
}

#[cfg(test)]
mod tests {
    use super::*;
    use tautline_proto::time::LocalTime;

    fn window(from: i64, to: i64) -> Window {
        let at = |millis| LocalTime::from_nanos(millis * 1_000_000);
        Window { from: at(from), to: at(to) }
    }

    fn run(failed: Option<Failed>, stalls: &[Window]) -> Run {
        let (run, stalls) = (window(0, 1000), stalls.to_vec());
        Run {
            failed,
            seen: Seen {
                run,
                stalls,
                away: Vec::new(),
                cores: 2,
                others: 0.02,
                waited: 0.9,
                may: true,
            },
            beside: false,
        }
    }

    fn at() -> Failed {
        Failed::At(vec![window(500, 520)])
    }

    #[test]
    fn permanent_failure_is_red_immediately_on_a_quiet_host() {
        for failed in [at(), Failed::Somewhere, Failed::Mostly] {
            let mut count = 0;
            let runs = std::iter::repeat_with(|| {
                count += 1;
                run(Some(failed.clone()), &[])
            });
            assert_eq!(verdict(runs), TestVerdict::Failed);
            assert_eq!(count, 1, "{failed:?}");
        }
    }

    #[test]
    fn constant_failure_is_red_despite_unrelated_stalls() {
        let elsewhere = [window(100, 136), window(499, 499), window(521, 557), window(900, 903)];
        assert_eq!(verdict([run(Some(at()), &elsewhere)].into_iter()), TestVerdict::Failed);
        let twice = Failed::At(vec![window(500, 520), window(700, 720)]);
        assert_eq!(
            verdict([run(Some(twice), &[window(510, 530)])].into_iter()),
            TestVerdict::Failed
        );
        let brief = [window(500, 549)];
        assert_eq!(verdict([run(Some(Failed::Mostly), &brief)].into_iter()), TestVerdict::Failed);
    }

    #[test]
    fn failure_during_a_stall_is_decided_by_the_next_run() {
        let there = [window(519, 530)];
        let aside = || run(Some(at()), &there);
        assert_eq!(verdict([aside(), run(None, &[])].into_iter()), TestVerdict::Passed);
        assert_eq!(verdict([aside(), run(Some(at()), &[])].into_iter()), TestVerdict::Failed);
        let long = run(Some(Failed::Mostly), &[window(100, 130), window(400, 430)]);
        assert_eq!(verdict([long, run(None, &[])].into_iter()), TestVerdict::Passed);
    }

    #[test]
    fn stalled_core_excuses_only_failures_at_that_time() {
        let with = |failed, away| {
            let Run { failed, seen, beside } = run(Some(failed), &[]);
            let seen = Seen { away: vec![away], ..seen };
            verdict([Run { failed, seen, beside }].into_iter())
        };
        assert!(matches!(with(at(), window(519, 521)), TestVerdict::NothingProved(_)));
        assert_eq!(with(at(), window(521, 523)), TestVerdict::Failed);
        assert_eq!(with(Failed::Somewhere, window(519, 521)), TestVerdict::Failed);
        assert_eq!(with(Failed::Mostly, window(400, 499)), TestVerdict::Failed);
        assert!(matches!(with(Failed::Mostly, window(400, 600)), TestVerdict::NothingProved(_)));
    }

    #[derive(Clone, Copy, PartialEq)]
    enum Kind {
        Passed,
        Aside,
        Failed,
    }

    fn all() -> impl Iterator<Item = [Kind; RUNS]> {
        let kinds = [Kind::Passed, Kind::Aside, Kind::Failed];
        (0..3_usize.pow(RUNS as u32)).map(move |number| {
            core::array::from_fn(|at| kinds[number / 3_usize.pow(at as u32) % 3])
        })
    }

    #[test]
    fn first_failure_without_a_stall_is_final() {
        for runs in all() {
            let made = runs.map(|kind| match kind {
                Kind::Passed => run(None, &[]),
                Kind::Aside => run(Some(at()), &[window(510, 511)]),
                Kind::Failed => run(Some(at()), &[]),
            });
            let arrived = match verdict(made.into_iter()) {
                TestVerdict::Passed => Kind::Passed,
                TestVerdict::Failed => Kind::Failed,
                TestVerdict::NothingProved(_) => Kind::Aside,
            };
            let decisive = runs.into_iter().find(|kind| *kind != Kind::Aside);
            assert!(arrived == decisive.unwrap_or(Kind::Aside));
        }
    }

    /// If any pass of five counted, a fault in one run of three would go unnoticed 242 times of
    /// 243.
    #[test]
    fn fault_in_a_third_of_runs_fails_a_third_of_tests() {
        let shows = |number: usize| run(number.is_multiple_of(3).then(at), &[]);
        let tests = 300;
        let red = (0..tests).filter(|at| {
            let runs = (*at..).map(shows);
            verdict(runs) == TestVerdict::Failed
        });
        assert_eq!(red.count(), tests / 3);
    }

    #[test]
    fn a_busy_host_excuses_no_failure_at_once() {
        let Run { failed, seen, .. } = run(Some(Failed::Mostly), &[]);
        let seen = Seen { others: 0.9, run: window(0, 249), ..seen };
        let crashed = Run { failed, seen, beside: true };
        assert_eq!(verdict([crashed].into_iter()), TestVerdict::Failed);
    }

    #[test]
    fn a_failure_on_crowded_cores_is_decided_by_a_run_alone() {
        let beside = |waited| {
            let run = run(Some(Failed::Mostly), &[]);
            Run { seen: Seen { waited, ..run.seen }, beside: true, ..run }
        };
        let alone = |failed| run(failed, &[]);
        assert_eq!(verdict([beside(0.1), alone(None)].into_iter()), TestVerdict::Passed);
        let fails = [beside(0.1), alone(Some(Failed::Mostly))];
        assert_eq!(verdict(fails.into_iter()), TestVerdict::Failed);
        assert_eq!(verdict([beside(0.09), alone(None)].into_iter()), TestVerdict::Failed);
    }

    #[test]
    fn a_host_that_others_keep_busy_turns_nothing_red() {
        for failed in [at(), Failed::Somewhere, Failed::Mostly] {
            let busy = || {
                let Run { failed, seen, beside } = run(Some(failed.clone()), &[]);
                Run { failed, seen: Seen { others: 0.9, ..seen }, beside }
            };
            let verdict = verdict(std::iter::repeat_with(busy));
            let TestVerdict::NothingProved(why) = verdict else { panic!("{verdict:?}") };
            assert!(why.contains("used 90 %"), "{why}");
        }
    }
}
