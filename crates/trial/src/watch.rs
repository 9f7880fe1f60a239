//! Watches every core while a test runs: when it stalled, and how much other sessions used.
//!
//! Independent of the stall monitor of the programs under test.

use core::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use tautline_io::clock::{now, sleep_until};
use tautline_io::thread::{Scheduler, spawn};
use tautline_proto::time::{LocalTime, Span};

use crate::load::Load;

const WAKE_EVERY: Span = Span::from_micros(500);
/// Minimum lateness of a stall.
const LATE: Span = Span::from_micros(250);
/// Minimum absence of a single core that delays its threads.
const ALONE: Span = Span::from_millis(1);

/// A closed time interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    pub from: LocalTime,
    pub to: LocalTime,
}

impl Window {
    /// From the first to the last of these instants.
    pub fn around(instants: &[LocalTime]) -> Self {
        let (first, last) = (instants.iter().min(), instants.iter().max());
        let [from, to] = [first, last].map(|at| at.copied().unwrap_or(LocalTime::ZERO));
        Self { from, to }
    }

    /// Intersection of the two.
    fn common(&self, other: &Self) -> Option<Self> {
        let (from, to) = (self.from.max(other.from), self.to.min(other.to));
        (from <= to).then_some(Self { from, to })
    }

    pub(crate) fn lasts(&self) -> Span {
        self.to - self.from
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Seen {
    pub(crate) run: Window,
    /// When no core ran, in order.
    pub(crate) stalls: Vec<Window>,
    /// When any core did not run for at least `ALONE`.
    pub(crate) away: Vec<Window>,
    pub(crate) cores: usize,
    /// Share of all cores used by other sessions.
    pub(crate) others: f64,
    /// Share of the run that a thread of any session waited for a core.
    pub(crate) waited: f64,
    /// Whether the watch had the highest priority.
    pub(crate) may: bool,
}

impl Seen {
    /// Share of the run without a running core; or the average per core, if larger.
    pub(crate) fn stood_still(&self) -> f64 {
        let all = |windows: &[Window]| -> i64 {
            windows.iter().map(|window| window.lasts().as_nanos()).sum()
        };
        let away = all(&self.away) as f64 / self.cores.max(1) as f64;
        away.max(all(&self.stalls) as f64) / self.run.lasts().as_nanos().max(1) as f64
    }

    /// Whether all cores stalled within this window, or one was away.
    pub(crate) fn stalled(&self, when: &Window) -> bool {
        self.stalls.iter().chain(&self.away).any(|stall| stall.common(when).is_some())
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let longest = self.stalls.iter().map(Window::lasts).max().unwrap_or(Span::ZERO);
        let (stalls, away) = (self.stalls.len(), self.away.len());
        let (lasted, others, waited) = (self.run.lasts(), 100.0 * self.others, 100.0 * self.waited);
        write!(
            f,
            "in {lasted} all cores stalled {stalls} times, at most {longest}, one was away {away} \
             times, other programs used {others:.0} % of them, and threads waited for them during \
             {waited:.0} %"
        )
    }
}

#[derive(Debug)]
struct CoreLog {
    away: Vec<Window>,
    /// All earlier absences are in `away`.
    looked: LocalTime,
}

/// One per core, with higher priority than all programs under test. Eight watches would use a fifth
/// of a core.
struct CoreLooks {
    cores: Vec<Arc<Mutex<CoreLog>>>,
    may: bool,
}

impl CoreLooks {
    fn get() -> &'static Self {
        static LOOKS: OnceLock<CoreLooks> = OnceLock::new();
        LOOKS.get_or_init(Self::start)
    }

    fn start() -> Self {
        let usable = sched_getaffinity(None).expect("a thread may ask for its own cores");
        let cores = (0..CpuSet::MAX_CPU).filter(|core| usable.is_set(*core));
        let look = |core| {
            let log = Arc::new(Mutex::new(CoreLog { away: Vec::new(), looked: now() }));
            let shared = Arc::clone(&log);
            let look = move || {
                let mut only = CpuSet::new();
                only.set(core);
                sched_setaffinity(None, &only).expect("the core is one of those it may use");
                look(&shared)
            };
            let spawned = spawn(&format!("watch-{core}"), Scheduler::Fifo(99), 0, look);
            let (_, granted) = spawned.expect("a machine that runs tests has room for a thread");
            (log, granted.is_granted())
        };
        let (cores, granted): (_, Vec<_>) = cores.map(look).unzip();
        Self { cores, may: granted.iter().all(|granted| *granted) }
    }

    /// Waits until each thread has woken since `run`.
    fn during(&self, run: &Window) -> Vec<Vec<Window>> {
        let of = |core: &Arc<Mutex<CoreLog>>| loop {
            let log = core.lock().unwrap_or_else(PoisonError::into_inner);
            if log.looked >= run.to {
                // Sorted: the latest are at the end.
                let first = log.away.partition_point(|away| away.to < run.from);
                let within = log.away[first..].iter().filter(|away| away.from <= run.to);
                return within.copied().collect();
            }
            drop(log);
            sleep_until(now() + WAKE_EVERY);
        };
        self.cores.iter().map(of).collect()
    }
}

pub(crate) struct CoreWatch {
    begun: LocalTime,
    load: Load,
    waited: Span,
}

impl CoreWatch {
    pub(crate) fn start() -> Self {
        let _ = CoreLooks::get();
        Self { begun: now(), load: Load::now(), waited: waited() }
    }

    pub(crate) fn end(self) -> Seen {
        let run = Window { from: self.begun, to: now() };
        let others = Load::now().others_since(&self.load);
        let waited =
            (waited() - self.waited).as_nanos() as f64 / run.lasts().as_nanos().max(1) as f64;
        let CoreLooks { cores, may } = CoreLooks::get();
        let looks = CoreLooks::get().during(&run);
        let away = looks.iter().flatten().filter(|away| away.lasts() >= ALONE).copied().collect();
        Seen { run, stalls: of_all(looks), away, cores: cores.len(), others, waited, may: *may }
    }
}

/// Time that any thread waited for a core, since the start of the machine. Zero if the kernel does
/// not tell (`CONFIG_PSI`).
fn waited() -> Span {
    let pressure = std::fs::read_to_string("/proc/pressure/cpu").unwrap_or_default();
    let some = pressure.lines().find_map(|line| line.strip_prefix("some ")?.rsplit_once("total="));
    Span::from_micros(some.and_then(|(_, total)| total.parse().ok()).unwrap_or(0))
}

fn look(log: &Mutex<CoreLog>) {
    let mut due = now() + WAKE_EVERY;
    loop {
        sleep_until(due);
        let woke = now();
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        if woke - due > LATE {
            log.away.push(Window { from: due, to: woke });
        }
        log.looked = woke;
        drop(log);
        due = woke + WAKE_EVERY;
    }
}

/// Intersections of all cores' absences, without chance overlaps.
fn of_all(cores: Vec<Vec<Window>>) -> Vec<Window> {
    let all = cores.into_iter().reduce(|all, core| {
        let common = |one: &Window| {
            let one = *one;
            core.iter().filter_map(move |other| other.common(&one))
        };
        all.iter().flat_map(common).collect()
    });
    all.unwrap_or_default().into_iter().filter(|stall| stall.lasts() >= LATE).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lack::{Lack, skipped};

    fn window(from: i64, to: i64) -> Window {
        let at = |millis| LocalTime::from_nanos(millis * 1_000_000);
        Window { from: at(from), to: at(to) }
    }

    #[test]
    fn stall_needs_all_cores() {
        let both = vec![vec![window(10, 20), window(40, 50)], vec![window(15, 45)]];
        assert_eq!(of_all(both), [window(15, 20), window(40, 45)]);
        assert_eq!(of_all(vec![vec![window(10, 20)], vec![]]), []);
        assert_eq!(of_all(vec![vec![window(10, 20)], vec![window(20, 30)]]), [], "they only touch");
    }

    #[test]
    fn a_stall_is_seen_where_it_overlaps() {
        let stalls = vec![window(10, 12), window(50, 60)];
        let away = vec![window(80, 82)];
        let seen = Seen {
            run: window(0, 100),
            stalls,
            away,
            cores: 2,
            others: 0.0,
            waited: 0.0,
            may: true,
        };
        assert!(seen.stalled(&window(12, 49)) && seen.stalled(&window(55, 56)));
        assert!(!seen.stalled(&window(13, 49)) && !seen.stalled(&window(61, 79)));
        assert!(seen.stalled(&window(81, 99)), "one core was away");
        assert!((seen.stood_still() - 0.12).abs() < 1e-9);
    }

    #[test]
    fn a_watch_sees_its_own_run() {
        let before = now();
        let seen = CoreWatch::start().end();
        assert!(before <= seen.run.from && seen.run.to <= now());
        assert!((0.0..=1.0).contains(&seen.others));
    }

    #[test]
    fn threads_that_wait_for_a_core_are_seen() {
        if waited() == Span::ZERO {
            return skipped(Lack::Host, "the kernel has no /proc/pressure/cpu");
        }
        let watch = CoreWatch::start();
        let until = now() + Span::from_millis(300);
        std::thread::scope(|all| {
            for _ in 0..4 * CoreLooks::get().cores.len() {
                all.spawn(|| while now() < until {});
            }
        });
        let seen = watch.end();
        assert!(seen.waited > 0.5, "{}", seen.waited);
    }
}
