//! One point of the grid: costs tried and held, and what was seen of each.

use tautline_io::thread::stall::StallWitness;
use tautline_proto::device::Stop;
use tautline_proto::time::Span;

use super::CapacityOptions;
use super::bare::{BareCycle, BareFound};
use super::figures::{self, PointFound};
use super::grid::CapacityPoint;
use super::judge::{BlockMisses, BlockPace, StallsSeen, judged};
use super::local::{LocalCycle, Passing};
use super::machines::Machines;
use super::master::{MasterLog, MasterPace, PeriodCycle};
use super::search::{CapacityFinding, CapacitySearch, CapacitySteps, CapacityTry};
use crate::report::ReportRow;
use crate::resources::{Record, Sampler, SamplerOptions};

/// What has plugins work, at a cost that may be set.
pub(super) trait CapacityCycle: PeriodCycle {
    /// Begins anew: from now on each block costs so much.
    fn begin(&mut self, passing: Passing);
}

impl PeriodCycle for Box<dyn CapacityCycle> {
    fn blocks(&self) -> usize {
        (**self).blocks()
    }

    fn run(&mut self, due: tautline_proto::time::LocalTime, log: &mut MasterLog) {
        (**self).run(due, log);
    }
}

/// What was seen of a try.
pub(super) struct TrySeen {
    pub(super) cost: Span,
    pub(super) log: MasterLog,
    pub(super) misses: BlockMisses,
    /// What this machine and the workers' programs did meanwhile.
    pub(super) record: Record,
}

/// What every point is measured with.
pub(super) struct CapacityMeasuring<'a> {
    pub(super) options: &'a CapacityOptions,
    pub(super) stop: &'a Stop,
    pub(super) witness: StallWitness,
}

impl CapacityMeasuring<'_> {
    /// The plugin on this machine alone.
    pub(super) fn here(&mut self, point: &CapacityPoint) -> Result<ReportRow, String> {
        let passing = Passing { cost: Span::ZERO, real: point.real };
        let found = self.search(point, Box::new(LocalCycle(passing)), &[])?;
        Ok(figures::row(point, &found, None, self.options))
    }

    /// The plugin on other machines.
    pub(super) fn offloaded(
        &mut self,
        point: &CapacityPoint,
        machines: &mut Machines,
    ) -> Result<ReportRow, String> {
        let opened = machines.open(point)?;
        let pids: Vec<u32> = opened.workers.iter().flat_map(|worker| worker.pids()).collect();
        let found = self.search(point, opened.cycle, &pids)?;
        drop(opened.workers);
        let bare = self.bare(point, machines)?;
        Ok(figures::row(point, &found, Some(&bare), self.options))
    }

    fn pace(&self, point: &CapacityPoint, duration: Span) -> MasterPace {
        MasterPace { period: point.period_span(), duration, scheduler: self.options.scheduler }
    }

    /// As many bytes to and from as many machines, by the least that sending and receiving takes.
    fn bare(
        &mut self,
        point: &CapacityPoint,
        machines: &mut Machines,
    ) -> Result<BareFound, String> {
        let cycle = BareCycle::open(&machines.echoes(point.workers)?, machines.bytes(point))?;
        let (cycle, log) = self.pace(point, self.options.idle).keep(cycle, self.stop)?;
        Ok(BareFound { log, answered: cycle.answered() })
    }

    fn search(
        &mut self,
        point: &CapacityPoint,
        mut cycle: Box<dyn CapacityCycle>,
        pids: &[u32],
    ) -> Result<PointFound, String> {
        let CapacityOptions { step, fine, tries, .. } = *self.options;
        let most = point.period_span();
        let mut search = CapacitySearch::new(CapacitySteps { step, fine, most, tries });
        let (mut idle, mut held) = (None, None);
        while let Some(attempt) = search.next() {
            cycle.begin(Passing { cost: attempt.cost, real: point.real });
            let duration = match attempt {
                CapacityTry { held: true, .. } => self.options.hold,
                CapacityTry { cost: Span::ZERO, .. } => self.options.idle,
                CapacityTry { .. } => self.options.attempt,
            };
            let (back, seen) = self.attempt(point, (cycle, attempt.cost), duration, pids)?;
            cycle = back;
            if self.stop.is_requested() {
                return Err("it was ended before anything was held".to_owned());
            }
            search.tried(self.finding(seen.misses));
            if attempt.held {
                held = Some(seen);
            } else if attempt.cost == Span::ZERO {
                idle = Some(seen);
            }
        }
        match (idle, held) {
            (Some(idle), Some(held)) => Ok(PointFound { idle, held, search }),
            (Some(TrySeen { misses, .. }), None) => Err(format!(
                "of blocks that cost nothing {} of {} were missed; use a longer --period, a greater \
                 --window or a longer --wait",
                misses.otherwise(),
                misses.due
            )),
            _ => Err("nothing was due in the time that was measured; use longer times".to_owned()),
        }
    }

    fn finding(&self, misses: BlockMisses) -> CapacityFinding {
        let allowed = self.options.allowed * misses.due as f64;
        match misses.due {
            0 => CapacityFinding::Void,
            _ if misses.otherwise() as f64 <= allowed => CapacityFinding::Whole,
            _ => CapacityFinding::Missed,
        }
    }

    fn attempt(
        &mut self,
        point: &CapacityPoint,
        (cycle, cost): (Box<dyn CapacityCycle>, Span),
        duration: Span,
        pids: &[u32],
    ) -> Result<(Box<dyn CapacityCycle>, TrySeen), String> {
        let sampler = Sampler::start(&SamplerOptions {
            interval: crate::report::INTERVAL,
            duration: duration + crate::report::INTERVAL,
            pids: pids.to_vec(),
        })?;
        let kept = self.pace(point, duration).keep(cycle, self.stop);
        let record = sampler.finish();
        let (cycle, log) = kept?;
        self.witness.poll();
        let stalls = StallsSeen {
            by_all: self.witness.stalls_seen_by_all().collect(),
            by_one: self.witness.log().seen_by_one().collect(),
        };
        let pace = BlockPace { cost, period: point.period_span() };
        let misses = judged(log.due, &log.missed, &stalls, pace);
        Ok((cycle, TrySeen { cost, log, misses, record }))
    }
}
