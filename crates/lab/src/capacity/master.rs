//! The host: a timer thread that hands each worker a block per period.

use tautline_io::clock::{now, sleep_until, thread_halves, thread_time};
use tautline_io::thread::{Scheduler, realtime, spawn};
use tautline_proto::device::Stop;
use tautline_proto::time::{LocalTime, Span};

use crate::kept::would_run_as;
use crate::schedule::OpenSchedule;
use crate::statistics::Series;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MissedBlock {
    pub(super) from: LocalTime,
    pub(super) until: LocalTime,
}

pub(super) trait PeriodCycle: Send {
    fn blocks(&self) -> usize;

    /// Runs the period due at `due`. Must not allocate, lock or block, except for the configured
    /// wait.
    fn run(&mut self, due: LocalTime, log: &mut MasterLog);
}

/// Preallocated.
#[derive(Debug, Default)]
pub(super) struct MasterLog {
    pub(super) called: Series,
    pub(super) exchanges: Series,
    pub(super) slack: Series,
    pub(super) missed: Vec<MissedBlock>,
    pub(super) due: u64,
    /// Periods that ended before the call returned: the card's own xruns.
    pub(super) overrun: u64,
    pub(super) cpu: Span,
    pub(super) halves: [Span; 2],
    pub(super) lasted: Span,
    pub(super) jack_xruns: Option<u32>,
}

impl MasterLog {
    fn with_room(periods: usize, blocks: usize) -> Self {
        let all = periods.saturating_mul(blocks.max(1));
        let mut missed = vec![MissedBlock { from: LocalTime::ZERO, until: LocalTime::ZERO }; all];
        missed.clear();
        Self {
            called: Series::with_room(periods),
            exchanges: Series::with_room(all),
            slack: Series::with_room(all),
            missed,
            ..Self::default()
        }
    }

    pub(super) fn miss(&mut self, from: LocalTime, until: LocalTime) {
        if self.missed.len() < self.missed.capacity() {
            self.missed.push(MissedBlock { from, until });
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct MasterTime {
    all: Span,
    halves: [Span; 2],
    at: LocalTime,
}

impl MasterTime {
    /// Does not allocate or block.
    pub(super) fn read() -> Self {
        Self { all: thread_time(), halves: thread_halves(), at: now() }
    }

    pub(super) fn note_since(&self, log: &mut MasterLog) {
        let Self { all, halves: [user, system], at } = Self::read();
        (log.cpu, log.lasted) = (all - self.all, at - self.at);
        log.halves = [user - self.halves[0], system - self.halves[1]];
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct MasterPace {
    pub(super) period: Span,
    pub(super) duration: Span,
    pub(super) scheduler: Scheduler,
}

const AHEAD: Span = Span::from_millis(20);
/// Uncounted first periods, with cold caches and filling windows.
pub(super) const SETTLES: i64 = 16;

impl MasterPace {
    pub(super) fn periods_due(self) -> u64 {
        (self.duration.as_nanos() / self.period.as_nanos().max(1)).max(0) as u64
    }

    pub(super) fn log(self, blocks: usize) -> MasterLog {
        MasterLog::with_room(self.periods_due() as usize + 1, blocks)
    }

    /// An error if the scheduler is not granted.
    pub(super) fn keep<C: PeriodCycle + 'static>(
        self,
        mut cycle: C,
        stop: &Stop,
    ) -> Result<(C, MasterLog), String> {
        let log = self.log(cycle.blocks());
        let requested = stop.clone();
        let run = move || {
            let log = self.run(&mut cycle, log, &requested);
            (cycle, log)
        };
        let (thread, granted) = spawn("taut-master", self.scheduler, STACK, run)
            .map_err(|error| format!("cannot start the master's thread: {error}"))?;
        let (cycle, log) = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        match granted.is_granted() {
            true => Ok((cycle, log)),
            false => Err(would_run_as("the master's thread", granted)),
        }
    }

    fn run(self, cycle: &mut dyn PeriodCycle, mut log: MasterLog, stop: &Stop) -> MasterLog {
        let begins = now() + AHEAD;
        let counts = begins + self.period.times(SETTLES);
        // Periods without log space do not count.
        self.periods(begins, counts, stop, |due| {
            if let PeriodDue::Now(due) = due {
                cycle.run(due, &mut MasterLog::default());
            }
        });
        let (before, ends) = (MasterTime::read(), counts + self.duration);
        self.periods(counts, ends, stop, |due| self.count(cycle, due, &mut log));
        before.note_since(&mut log);
        log
    }

    /// A late period still runs, as a card holds two periods. A period that is already over is
    /// lost.
    fn periods(
        self,
        begins: LocalTime,
        ends: LocalTime,
        stop: &Stop,
        mut run: impl FnMut(PeriodDue),
    ) {
        let mut schedule = OpenSchedule::new(begins, self.period, ends);
        while let Some(due) = schedule.next().filter(|_| !stop.is_requested()) {
            sleep_until(due);
            run(PeriodDue::Now(due));
            schedule.pass(due, |_| {});
            let lost = now() - self.period;
            schedule.pass(lost, |due| run(PeriodDue::Lost(due)));
        }
    }

    pub(super) fn count(self, cycle: &mut dyn PeriodCycle, due: PeriodDue, log: &mut MasterLog) {
        log.due += cycle.blocks() as u64;
        match due {
            PeriodDue::Lost(due) => {
                (0..cycle.blocks()).for_each(|_| log.miss(due, due + self.period));
            }
            PeriodDue::Now(due) => {
                let (woke, before) = (now(), log.missed.len());
                cycle.run(due, log);
                let over = now();
                log.called.push(due, over - woke);
                if over > due + self.period {
                    log.overrun += 1;
                    if log.missed.len() == before {
                        log.miss(due, over);
                    }
                }
            }
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) enum PeriodDue {
    Now(LocalTime),
    Lost(LocalTime),
}

const STACK: usize = 256 << 10;

pub(super) trait CapacityCycle: PeriodCycle {
    fn begin(&mut self, passing: Passing);
}

impl PeriodCycle for Box<dyn CapacityCycle> {
    fn blocks(&self) -> usize {
        (**self).blocks()
    }

    fn run(&mut self, due: LocalTime, log: &mut MasterLog) {
        (**self).run(due, log);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Passing {
    pub(super) cost: Span,
    pub(super) real: bool,
}

impl Passing {
    pub(super) fn pass(self) {
        let until = now() + self.cost;
        if !self.real {
            let _permit = realtime::permit("a plugin's run time, simulated by a timer");
            return sleep_until(until);
        }
        while now() < until {
            core::hint::spin_loop();
        }
    }
}

/// Distribution of block costs. The given cost is the maximum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum CapacityWork {
    /// Every block takes as long
    Fixed,
    // A random cost, from half the given cost upwards.
    /// A block takes up to twice as long as another
    Random,
    // Half the given cost; the full cost once in a hundred blocks.
    /// Once in a while a block takes twice as long
    Burst,
    /// Every block takes as long, on memory that no cache holds
    Cache,
}

#[derive(Debug)]
pub(super) struct LocalCycle(pub(super) Passing);

impl PeriodCycle for LocalCycle {
    fn blocks(&self) -> usize {
        1
    }

    fn run(&mut self, due: LocalTime, log: &mut MasterLog) {
        self.0.pass();
        log.slack.push(due, Span::ZERO);
    }
}

impl CapacityCycle for LocalCycle {
    fn begin(&mut self, passing: Passing) {
        self.0 = passing;
    }
}

#[cfg(test)]
mod tests {
    use tautline_trial::shared;

    use super::*;

    /// Duration of each period; with `true` misses every second block.
    struct Takes(Span, bool);

    impl PeriodCycle for Takes {
        fn blocks(&self) -> usize {
            1
        }

        fn run(&mut self, due: LocalTime, log: &mut MasterLog) {
            self.1 = !self.1;
            if self.1 {
                log.miss(due, due);
            }
            sleep_until(now() + self.0);
        }
    }

    fn kept(takes: Span) -> MasterLog {
        let pace = MasterPace {
            period: Span::from_millis(5),
            duration: Span::from_millis(100),
            scheduler: Scheduler::Other,
        };
        pace.keep(Takes(takes, false), &Stop::default()).unwrap().1
    }

    #[test]
    fn every_due_period_and_its_misses_are_counted() {
        shared(|| {
            let log = kept(Span::ZERO);
            assert_eq!(log.due, 20);
            assert!(log.missed.len() >= 10 && log.cpu > Span::ZERO, "{log:?}");
        });
    }

    #[test]
    fn call_longer_than_its_period_is_missed_and_loses_periods() {
        shared(|| {
            let log = kept(Span::from_millis(19));
            assert_eq!(log.due, 20);
            let run = log.called.values().len();
            assert!((2..=10).contains(&run), "{log:?}");
            assert_eq!((log.overrun as usize, log.missed.len()), (run, 20), "{log:?}");
        });
    }
}
