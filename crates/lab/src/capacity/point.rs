use tautline_io::thread::stall::StallMonitor;
use tautline_proto::device::Stop;
use tautline_proto::time::Span;

use super::bare::BareCycle;
use super::grid::CapacityPoint;
use super::jack::JackMaster;
use super::judge::{BlockMisses, BlockPace, BothDetectors, PointFound, TOO_MUCH, TrySeen, judged};
use super::machines::Machines;
use super::master::{CapacityCycle, LocalCycle, MasterLog, MasterPace, Passing, PeriodCycle};
use super::search::{CapacityFinding, CapacitySearch, CapacitySteps, CapacityTry};
use super::{CapacityFlags, figures};
use crate::report::ReportRow;
use crate::resources::{Sampler, SamplerOptions};

pub(super) struct CapacityMeasuring<'a> {
    pub(super) options: &'a CapacityFlags,
    pub(super) stop: &'a Stop,
    pub(super) stall_monitor: StallMonitor,
    /// Wakes the master; a timer by default.
    pub(super) jack: Option<&'a mut JackMaster>,
}

impl CapacityMeasuring<'_> {
    pub(super) fn here(&mut self, point: &CapacityPoint) -> Result<ReportRow, String> {
        let passing = Passing { cost: Span::ZERO, real: point.real };
        let found = self.search(point, Box::new(LocalCycle(passing)), &[])?;
        Ok(figures::row((self.name(point), point), &found, None, self.options))
    }

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
        Ok(figures::row((self.name(point), point), &found, Some(&bare), self.options))
    }

    fn keep<C: PeriodCycle + 'static>(
        &mut self,
        point: &CapacityPoint,
        duration: Span,
        cycle: C,
    ) -> Result<(C, MasterLog), String> {
        let scheduler = self.options.scheduler;
        let pace = MasterPace { period: point.period_span(), duration, scheduler };
        match &mut self.jack {
            Some(jack) => jack.keep(point, pace, cycle, self.stop),
            None => pace.keep(cycle, self.stop),
        }
    }

    pub(super) fn name(&self, point: &CapacityPoint) -> String {
        let under = if self.jack.is_some() { ", under JACK" } else { "" };
        format!("{point}{under}")
    }

    /// Exchanges the same bytes with plain sends and receives.
    fn bare(
        &mut self,
        point: &CapacityPoint,
        machines: &mut Machines,
    ) -> Result<(MasterLog, u64), String> {
        let cycle = BareCycle::open(&machines.echoes(point.workers)?, machines.bytes(point))?;
        let (cycle, log) = self.keep(point, self.options.idle, cycle)?;
        Ok((log, cycle.answered))
    }

    fn search(
        &mut self,
        point: &CapacityPoint,
        mut cycle: Box<dyn CapacityCycle>,
        pids: &[u32],
    ) -> Result<PointFound, String> {
        let CapacityFlags { step, fine, tries, .. } = *self.options;
        let maximum = point.period_span();
        let mut search = CapacitySearch::new(CapacitySteps { step, fine, maximum, tries });
        let (mut idle, mut held, mut beyond) = (None, None, None);
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
                return Err("stopped before any hold".to_owned());
            }
            search.tried(self.finding(attempt, seen.misses));
            if search.bad() == Some(attempt.cost) {
                beyond = Some(BothDetectors::of(&seen));
            }
            if attempt.held {
                // The result, or the last hold if all had misses.
                if search.held().is_none_or(|went| went == attempt.cost) {
                    held = Some(seen);
                }
            } else if attempt.cost == Span::ZERO {
                idle = Some(seen);
            }
        }
        match (idle, held) {
            (Some(idle), Some(held)) => Ok(PointFound { idle, held, beyond, search }),
            (Some(TrySeen { misses, .. }), None) => Err(format!(
                "{} of {} idle blocks were missed\nhint: use a longer --period, a greater --window or a \
                 longer --wait",
                misses.otherwise(),
                misses.due
            )),
            _ => Err("no block was due in the measured time\nhint: use longer times".to_owned()),
        }
    }

    fn finding(&self, attempt: CapacityTry, misses: BlockMisses) -> CapacityFinding {
        let share = match attempt.held {
            true => self.options.allow.0,
            false => self.options.allow.0.max(TOO_MUCH),
        };
        // Many misses due to the host make a try invalid, but not an idle exchange or a hold.
        let is_shown = attempt.held || attempt.cost == Span::ZERO || !misses.are_the_hosts();
        match misses.due {
            0 => CapacityFinding::Invalid,
            due if is_shown && misses.otherwise() as f64 <= share * due as f64 => {
                CapacityFinding::Whole
            }
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
        let kept = self.keep(point, duration, cycle);
        let record = sampler.finish();
        let (cycle, log) = kept?;
        self.stall_monitor.poll();
        let by_all: Vec<_> = self.stall_monitor.stalls_seen_by_all().collect();
        let by_one: Vec<_> = self.stall_monitor.log().seen_by_one().collect();
        let pace = BlockPace { cost, period: point.period_span() };
        let misses = judged(log.due, &log.missed, [&by_all, &by_one], pace);
        Ok((cycle, TrySeen { cost, log, misses, record }))
    }
}
