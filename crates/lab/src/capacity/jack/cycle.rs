//! JACK callback: runs the host's period and counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::sync::mpsc::Sender;

use tautline_io::thread::Scheduler;
use tautline_proto::device::{Cycle, Flow, Process};
use tautline_proto::time::{LocalTime, Span};

use super::JackClient;
use crate::capacity::master::{MasterLog, MasterPace, MasterTime, PeriodCycle, PeriodDue, SETTLES};

/// Uncounted periods at both ends, as xruns are reported after their cycle.
const AROUND: u64 = SETTLES.unsigned_abs();

pub(super) struct JackCycle<C> {
    /// `None` after the log was handed back.
    job: Option<JackJob<C>>,
    back: Sender<JackJob<C>>,
}

pub(super) struct JackJob<C> {
    pub(super) cycle: C,
    pub(super) log: MasterLog,
    pub(super) runs_as: Option<Scheduler>,
    pace: MasterPace,
    grid: PeriodGrid,
    passed: u64,
    counting: Option<CountingSince>,
    xruns: Arc<AtomicU32>,
    woke_ns: Arc<AtomicI64>,
}

#[derive(Debug, Clone, Copy)]
struct CountingSince {
    time: MasterTime,
    xruns: u32,
}

impl<C: PeriodCycle> JackCycle<C> {
    pub(super) fn new(
        pace: MasterPace,
        cycle: C,
        client: &JackClient,
        back: Sender<JackJob<C>>,
    ) -> Self {
        let log = MasterLog { jack_xruns: Some(0), ..pace.log(cycle.blocks()) };
        let grid = PeriodGrid { period: pace.period, last: None };
        let (xruns, woke_ns) = (Arc::clone(&client.xruns), Arc::clone(&client.woke_ns));
        let (runs_as, passed, counting) = (None, 0, None);
        let job = JackJob { cycle, log, runs_as, pace, grid, passed, counting, xruns, woke_ns };
        Self { job: Some(job), back }
    }
}

impl<C: PeriodCycle> Process for JackCycle<C> {
    fn process(&mut self, _: &mut Cycle<'_>) -> Flow {
        self.job.as_mut().map_or(Flow::Finished, JackJob::called)
    }

    fn finish(&mut self) {
        if let Some(job) = self.job.take() {
            let _ = self.back.send(job);
        }
    }
}

impl<C: PeriodCycle> JackJob<C> {
    /// Must not allocate, lock or block, except for plugins' time and the configured wait.
    fn called(&mut self) -> Flow {
        self.runs_as.get_or_insert_with(Scheduler::current);
        let due = LocalTime::from_nanos(self.woke_ns.load(Ordering::Relaxed));
        let lost = self.grid.pass(due);
        let ends = AROUND + self.pace.periods_due();
        for back in (1..=lost.min(ends)).rev() {
            self.period(PeriodDue::Lost(due - self.pace.period.times(back.cast_signed())), ends);
        }
        self.period(PeriodDue::Now(due), ends);
        if self.passed < ends + AROUND { Flow::Continue } else { Flow::Finished }
    }

    fn period(&mut self, due: PeriodDue, ends: u64) {
        let number = self.passed;
        self.passed += 1;
        if number < AROUND {
            if let PeriodDue::Now(due) = due {
                // Periods without log space do not count.
                self.cycle.run(due, &mut MasterLog::default());
            }
        } else if number < ends {
            let xruns = self.xruns.load(Ordering::Relaxed);
            self.counting.get_or_insert_with(|| CountingSince { time: MasterTime::read(), xruns });
            self.pace.count(&mut self.cycle, due, &mut self.log);
            if self.passed == ends
                && let Some(since) = self.counting
            {
                since.time.note_since(&mut self.log);
            }
        }
        if let Some(since) = self.counting {
            let xruns = self.xruns.load(Ordering::Relaxed);
            self.log.jack_xruns = Some(xruns.wrapping_sub(since.xruns));
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct PeriodGrid {
    period: Span,
    last: Option<LocalTime>,
}

impl PeriodGrid {
    /// A late server restarts its grid, so up to half a period is not a loss.
    fn pass(&mut self, began: LocalTime) -> u64 {
        let period = self.period.as_nanos().max(1);
        let since = self.last.map_or(period, |last| (began - last).as_nanos());
        self.last = Some(began);
        let passed = (since + period / 2).div_euclid(period);
        (passed - 1).max(0).unsigned_abs()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use tautline_io::clock::now;
    use tautline_proto::device::{Device, Direction, Ended, Settings, Side, Stop};

    use super::*;

    const PERIOD: Span = Span::from_millis(2);

    fn lost(began: &[i64]) -> Vec<u64> {
        let mut grid = PeriodGrid { period: PERIOD, last: None };
        let pass = |micros: &i64| grid.pass(LocalTime::ZERO + Span::from_micros(*micros));
        began.iter().map(pass).collect()
    }

    #[test]
    fn jitter_loses_no_cycle_and_skipped_cycles_are_lost_once() {
        assert_eq!(lost(&[10_000, 12_030, 13_980, 16_000, 18_400, 20_400]), [0; 6]);
        assert_eq!(lost(&[10_000, 14_100, 16_100, 24_000]), [0, 1, 0, 3]);
    }

    struct Counts(u64, Arc<AtomicU32>);

    impl PeriodCycle for Counts {
        fn blocks(&self) -> usize {
            1
        }

        fn run(&mut self, _: LocalTime, _: &mut MasterLog) {
            self.0 += 1;
            self.1.fetch_add(1, Ordering::Relaxed);
        }
    }

    struct NoDevice;

    impl Device for NoDevice {
        fn settings(&self) -> Settings {
            unreachable!()
        }

        fn run(&mut self, _: Box<dyn Process>, _: &Stop) -> (Box<dyn Process>, Ended) {
            unreachable!()
        }
    }

    fn called(cycles: impl Iterator<Item = i64>) -> (Flow, JackJob<Counts>) {
        let (xruns, woke_ns) = (Arc::<AtomicU32>::default(), Arc::<AtomicI64>::default());
        let client = JackClient {
            device: Box::new(NoDevice),
            xruns: Arc::clone(&xruns),
            woke_ns: Arc::clone(&woke_ns),
        };
        let (period, duration) = (PERIOD, PERIOD.times(20));
        let pace = MasterPace { period, duration, scheduler: Scheduler::Other };
        let (back, given) = channel();
        let mut process = JackCycle::new(pace, Counts(0, xruns), &client, back);
        let begins = now() + Span::from_secs(60);
        let mut flow = Flow::Continue;
        for number in cycles {
            let began = begins + PERIOD.times(number);
            woke_ns.store(began.as_nanos(), Ordering::Relaxed);
            let side = Side::absent();
            flow = process.process(&mut Cycle::one_way(Direction::Playback, began, side, 0));
        }
        process.finish();
        (flow, given.recv().unwrap())
    }

    #[test]
    fn first_and_last_sixteen_periods_do_not_count() {
        let (flow, job) = called(0..52);
        assert_eq!((flow, job.cycle.0), (Flow::Finished, 36));
        assert_eq!((job.log.due, job.log.missed.len()), (20, 0));
        assert_eq!(job.log.jack_xruns, Some(20), "reported while they count, and not before");
        assert!(job.log.lasted > Span::ZERO && job.runs_as == Some(Scheduler::current()));
        let (flow, job) = called(0..51);
        assert_eq!((flow, job.log.due), (Flow::Continue, 20), "late reports are waited for");
    }

    #[test]
    fn periods_that_the_server_left_out_were_due_and_are_missed() {
        let (_, job) = called((0..20).chain(23..52));
        assert_eq!((job.log.due, job.log.missed.len(), job.cycle.0), (20, 3, 33));
        let (flow, job) = called((0..30).chain(1000..1020));
        assert_eq!((flow, job.log.due, job.log.missed.len()), (Flow::Finished, 20, 6));
    }
}
