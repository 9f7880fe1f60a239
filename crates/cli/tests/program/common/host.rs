//! A host that a test which measures time can be held against: watched while it runs, and the test
//! run again if it fails while the host was not itself.

use core::fmt;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use tautline_io::thread::{Scheduler, spawn};

/// Held by a test while it runs: for writing, if it is to be the only one.
pub(crate) static TURN: RwLock<()> = RwLock::new(());

/// Runs of a test until it may say that this host cannot answer it.
const RUNS: u32 = 5;
/// How often each core is looked at.
const WAKE_EVERY: Duration = Duration::from_micros(500);
/// A wake-up later than this counts: the shortest period that tests of time use.
const LATE: Duration = Duration::from_micros(250);
/// A core that was away for so much of a run, by wake-ups as late as that, or for so long at once,
/// disturbed it. A virtual machine at rest loses a seventh of that share.
const SHARE: f64 = 0.01;
const AT_ONCE: Duration = Duration::from_millis(1);

/// Runs a test that measures time, and no other test beside it, until it succeeds. Its failure
/// counts at once where every core ran when it should have, for a program cannot be in time on a
/// host that is not; and when all [`RUNS`] failed though cores were away for no more than
/// [`SHARE`] of one of them: what fails each time is not the host's doing. Otherwise it is said
/// loudly that nothing was proved.
///
/// The watch looks at cores by real-time threads above those of the programs under test, so what
/// these do is never an excuse.
pub(crate) fn timed(test: impl Fn()) {
    let (mut least, mut told) = (f64::INFINITY, String::new());
    let mut last = None;
    for _ in 0..RUNS {
        let _turn = TURN.write().unwrap_or_else(PoisonError::into_inner);
        let watch = Watch::start();
        let ended = catch_unwind(AssertUnwindSafe(&test));
        let host = watch.end();
        let Err(failure) = ended else { return };
        match failure.downcast::<Excused>() {
            Ok(excused) => told = excused.0,
            Err(failure) if host.is_itself() => resume_unwind(failure),
            Err(failure) => {
                (least, told) = (least.min(host.share()), host.to_string());
                last = Some(failure);
            }
        }
    }
    match last {
        Some(failure) if least <= SHARE => resume_unwind(failure),
        _ => {
            let name = std::thread::current().name().unwrap_or("a test").to_owned();
            skipped(&name, &format!("{RUNS} runs proved nothing; of the last, {told}"));
        }
    }
}

/// Ends a run of a test that says itself, by what its programs saw, that it proves nothing.
pub(crate) fn excused(why: &str) -> ! {
    resume_unwind(Box::new(Excused(why.to_owned())))
}

struct Excused(String);

/// Says loudly that a test proves nothing here: not by `println!`, which is shown of failed tests
/// only.
pub(crate) fn skipped(test: &str, why: &str) {
    let line = format!("SKIPPED: {test}: {why}\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

/// Looks at every core until it is told to end.
struct Watch {
    over: Arc<AtomicBool>,
    cores: Vec<JoinHandle<Away>>,
    begun: Instant,
}

/// What one core missed.
#[derive(Default)]
struct Away {
    longest: Duration,
    whole: Duration,
}

/// What the core missed that missed most.
struct Host {
    away: Away,
    lasted: Duration,
}

impl Host {
    fn share(&self) -> f64 {
        self.away.whole.as_secs_f64() / self.lasted.as_secs_f64()
    }

    fn is_itself(&self) -> bool {
        self.away.longest <= AT_ONCE && self.share() <= SHARE
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (longest, lasted) = (self.away.longest.as_secs_f64() * 1e3, self.lasted.as_secs_f64());
        let share = 100.0 * self.share();
        write!(f, "a core was away for {longest:.1} ms at once and {share:.1} % of {lasted:.1} s")
    }
}

impl Watch {
    fn start() -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let usable = sched_getaffinity(None).unwrap();
        let cores = (0..CpuSet::MAX_CPU).filter(|core| usable.is_set(*core));
        let watch = |core| {
            let over = over.clone();
            let look = move || {
                let mut only = CpuSet::new();
                only.set(core);
                sched_setaffinity(None, &only).unwrap();
                look(&over)
            };
            spawn(&format!("watch-{core}"), Scheduler::Fifo(99), 0, look).unwrap().0
        };
        Self { cores: cores.map(watch).collect(), over, begun: Instant::now() }
    }

    fn end(self) -> Host {
        let lasted = self.begun.elapsed();
        self.over.store(true, Ordering::Relaxed);
        let cores = self.cores.into_iter().map(|core| core.join().unwrap());
        let away = cores.max_by_key(|away| away.whole.max(away.longest)).unwrap();
        Host { away, lasted }
    }
}

fn look(over: &AtomicBool) -> Away {
    let mut away = Away::default();
    while !over.load(Ordering::Relaxed) {
        let due = Instant::now() + WAKE_EVERY;
        std::thread::sleep(WAKE_EVERY);
        let late = due.elapsed();
        away.longest = away.longest.max(late);
        if late > LATE {
            away.whole += late;
        }
    }
    away
}
