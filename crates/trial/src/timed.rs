//! Timing tests: repeated if the host disturbed them.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::lack::{Lack, skipped};
use crate::verdict::{Failed, RUNS, Run, TestVerdict, verdict};
use crate::watch::{CoreWatch, Seen, Window};

/// Locked for writing if a test must run alone.
static TURN: RwLock<()> = RwLock::new(());

/// Keeps tests that need to be alone from running until dropped.
pub fn alongside() -> RwLockReadGuard<'static, ()> {
    TURN.read().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps all other tests that take a turn from running until dropped. Only in a module `exclusive`.
pub fn alone() -> RwLockWriteGuard<'static, ()> {
    assert_exclusive();
    exclusive_turn()
}

fn exclusive_turn() -> RwLockWriteGuard<'static, ()> {
    TURN.write().unwrap_or_else(PoisonError::into_inner)
}

/// Only these run one at a time.
fn assert_exclusive() {
    let thread = std::thread::current();
    // libtest names threads after tests, unless it runs one at a time.
    if let Some(path) = thread.name().filter(|name| name.contains("::")) {
        assert!(path.contains("exclusive::"), "move {path} into a module `exclusive`");
    }
}

/// Runs a timing test alone, in a module `exclusive`. Repeats it if the host caused a failure;
/// after five disturbed runs it is inconclusive.
///
/// By default any moment of the run may explain a failure; [`each`] and [`mostly`] are more
/// specific.
#[track_caller]
pub fn timed<T: Fn()>(test: T) {
    assert_exclusive();
    judged(&test, alone_each_time());
}

/// Like [`timed`], for a test that asserts only outcomes, medians and ratios (see [`mostly`]). Two
/// such tests run at the same time; repeats run alone. A failure while threads waited for cores is
/// repeated, too.
#[track_caller]
pub fn steady<T: Fn()>(test: T) {
    assert_exclusive();
    shared(test);
}

/// Like [`steady`], but runs in parallel with other tests.
#[track_caller]
pub fn shared<T: Fn()>(test: T) {
    let turns = std::iter::once(TestTurn::Alongside(alongside())).chain(alone_each_time());
    judged(&|| mostly(&test), turns);
}

enum TestTurn {
    Alongside(#[expect(dead_code, reason = "held")] RwLockReadGuard<'static, ()>),
    Alone(#[expect(dead_code, reason = "held")] RwLockWriteGuard<'static, ()>),
}

fn alone_each_time() -> impl Iterator<Item = TestTurn> {
    std::iter::repeat_with(|| TestTurn::Alone(exclusive_turn()))
}

#[track_caller]
fn judged(test: &dyn Fn(), turns: impl Iterator<Item = TestTurn>) {
    let last: RefCell<Option<(Box<dyn Any + Send>, Seen)>> = RefCell::new(None);
    let runs = turns.map(|turn| {
        let beside = matches!(turn, TestTurn::Alongside(_));
        let watch = CoreWatch::start();
        let ended = catch_unwind(AssertUnwindSafe(test));
        let seen = watch.end();
        let failed = ended.err().map(|failure| {
            let (failed, failure) = match failure.downcast::<Marked>() {
                Ok(marked) => (marked.failed, marked.failure),
                Err(failure) => (Failed::Somewhere, failure),
            };
            last.replace(Some((failure, seen.clone())));
            failed
        });
        Run { failed, seen, beside }
    });
    let verdict = verdict(runs);
    let Some((failure, seen)) = last.into_inner() else { return };
    match verdict {
        TestVerdict::Passed => {}
        TestVerdict::Failed => resume_unwind(failure),
        TestVerdict::NothingProved(why) => {
            // Without priority, the programs under test may have delayed the watch.
            let lack = if seen.may { Lack::Host } else { Lack::Privilege };
            let words = words(&*failure);
            let why = format!("{RUNS} runs were inconclusive: {why}; last failure: {words}");
            skipped(lack, &why);
        }
    }
}

/// The failure in one line.
fn words(failure: &(dyn Any + Send)) -> String {
    let said = failure.downcast_ref::<String>().map(String::as_str);
    let said = said.or_else(|| failure.downcast_ref().copied()).unwrap_or("no message");
    let line = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let end = line.char_indices().nth(160).map_or(line.len(), |(end, _)| end);
    line[..end].to_owned()
}

const MAX: usize = 20;

/// Only a stall that overlaps an item's window excuses its failure, even of a single core.
pub fn each<I>(all: impl IntoIterator<Item = (Window, I)>, assertion: impl Fn(I)) {
    let failures = all.into_iter().filter_map(|(when, one)| {
        let failure = catch_unwind(AssertUnwindSafe(|| assertion(one))).err()?;
        Some((when, failure))
    });
    let (instants, failures): (Vec<_>, Vec<_>) = failures.take(MAX).unzip();
    if let Some(failure) = failures.into_iter().next() {
        resume_unwind(Box::new(Marked { failed: Failed::At(instants), failure }));
    }
}

/// For medians and the like: only a long stall excuses a failure.
pub fn mostly<T>(assertion: impl FnOnce() -> T) -> T {
    match catch_unwind(AssertUnwindSafe(assertion)) {
        Ok(value) => value,
        Err(failure) if failure.is::<Marked>() => resume_unwind(failure),
        Err(failure) => resume_unwind(Box::new(Marked { failed: Failed::Mostly, failure })),
    }
}

struct Marked {
    failed: Failed,
    failure: Box<dyn Any + Send>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use tautline_proto::time::LocalTime;

    mod exclusive {
        use super::*;

        #[test]
        fn a_test_that_passes_runs_once() {
            let runs = Cell::new(0);
            timed(|| runs.set(runs.get() + 1));
            assert_eq!(runs.get(), 1);
        }
    }

    #[test]
    fn an_exclusive_test_must_be_in_a_module_of_that_name() {
        let named = |name: &str, test: fn()| {
            let thread = std::thread::Builder::new().name(name.into());
            thread.spawn(test).unwrap().join().is_ok()
        };
        for test in [|| timed(|| ()), || steady(|| ()), || drop(alone())] {
            assert!(!named("jack::xruns_are_counted", test));
            assert!(named("jack::exclusive::xruns_are_counted", test));
            assert!(named("main", test));
        }
    }

    fn instant(millis: i64) -> Window {
        let at = LocalTime::from_nanos(millis * 1_000_000);
        Window { from: at, to: at }
    }

    #[test]
    fn timed_failure_reports_all_its_times() {
        let fails = || each((0..9).map(|n| (instant(n), n)), |n| assert!(n % 3 > 0, "{n}"));
        let marked = catch_unwind(|| mostly(fails)).unwrap_err().downcast::<Marked>().unwrap();
        assert_eq!(marked.failed, Failed::At([0, 3, 6].map(instant).to_vec()));
        assert_eq!(marked.failure.downcast_ref(), Some(&"0".to_owned()));
        let marked = catch_unwind(|| mostly(|| panic!("so"))).unwrap_err();
        assert_eq!(marked.downcast::<Marked>().unwrap().failed, Failed::Mostly);
        assert_eq!(mostly(|| 7), 7);
    }

    #[test]
    fn failure_is_reported_in_one_line() {
        let said = |test: fn()| words(&*catch_unwind(test).unwrap_err());
        assert_eq!(said(|| panic!("two\n  lines of {}", 7)), "two lines of 7");
        assert_eq!(said(|| panic!("as it stands")), "as it stands");
        assert_eq!(said(|| resume_unwind(Box::new(7))), "no message");
        assert_eq!(said(|| panic!("{}", "ö".repeat(500))), "ö".repeat(160));
    }
}
