//! A receiver with limited processor share, contested share, or memory, by control groups.
//!
//! Quotas (sched-bwc) exempt FIFO and RR threads, or give them the group's real-time share. So each
//! limit is measured twice.

use core::str::FromStr;

use clap::Args;
use serde_json::Value;
use tautline_proto::time::Span;
use tautline_ui::failure::Failure;

use crate::hosts::{ChildLimits, HostError};
use crate::loadgen::{LoadKind, LoadSide, RunningBurdens, among};
use crate::report::ReportRow;
use crate::runner::{StreamFlags, counted_down, line};
use crate::streams::{LabStream, StreamEnds, StreamOutcome};

const SHORT_HELP: &str = r#"Examples:
  taut lab limits
  taut lab limits --only 50% --only shared

All options and details: taut lab limits --help"#;

const HELP: &str = r#"Examples:
  # On this machine, as root:
  taut lab limits
  # On another machine, for a minute each, without real-time priority:
  taut lab limits --with ssh:root@studio --scheduler other --duration 60s
  # With half a core, alone and next to a competing program:
  taut lab limits --only 50% --only shared

The receiver runs in a control group with 100 (no limit), 50, 20 and 10 % of one
core; with 50 % shared with a busy thread; and with 64 MiB shared with a program
that writes 128. A quota limits ordinary threads, and FIFO and RR threads only
if groups have real-time shares. So each limit is measured with and without
real-time priority, unless --scheduler is set. Each row has the scheduler and
CPU share that it got. A row whose limit cannot be set is invalid."#;

/// `taut lab limits`
#[derive(Debug, Args)]
#[command(after_help = SHORT_HELP, after_long_help = HELP)]
pub struct LimitsFlags {
    /// Only this limit: 100%, 50%, 20%, 10%, shared or memory; repeatable
    #[arg(long, value_name = "SHARE", help_heading = "Run")]
    only: Vec<ResourceLimit>,
    #[command(flatten)]
    streams: StreamFlags,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResourceLimit {
    /// Percent of a processor; 100 means no limit.
    Cpu(u32),
    /// With a competing program that takes all it can.
    Shared(u32),
    /// Memory in bytes, with a competing program that keeps writing twice as many bytes.
    Memory(u64),
}

pub const RESOURCE_LIMITS: [ResourceLimit; 6] = [
    ResourceLimit::Cpu(100),
    ResourceLimit::Cpu(50),
    ResourceLimit::Cpu(20),
    ResourceLimit::Cpu(10),
    ResourceLimit::Shared(50),
    ResourceLimit::Memory(64 << 20),
];

pub const NAMES: [&str; 6] = ["100%", "50%", "20%", "10%", "shared", "memory"];

impl FromStr for ResourceLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut all = NAMES.iter().zip(RESOURCE_LIMITS);
        let found = all.find(|(name, _)| **name == text).map(|(_, hunger)| hunger);
        found.ok_or_else(|| {
            format!("unknown limit '{text}'\nhint: the limits are {}", NAMES.join(", "))
        })
    }
}

const SCHEDULERS: [Option<&str>; 2] = [None, Some("other")];

#[derive(Debug, Clone)]
pub struct LimitStep {
    hunger: ResourceLimit,
    scheduler: Option<String>,
}

pub fn steps(hungers: &[ResourceLimit], scheduler: Option<&str>) -> Vec<LimitStep> {
    let schedulers = match scheduler {
        Some(scheduler) => vec![Some(scheduler)],
        None => SCHEDULERS.to_vec(),
    };
    let each = |hunger: &ResourceLimit| {
        let hunger = *hunger;
        let all = schedulers.iter();
        all.map(move |scheduler| LimitStep { hunger, scheduler: scheduler.map(str::to_owned) })
    };
    hungers.iter().flat_map(each).collect()
}

impl LimitStep {
    fn name(&self) -> String {
        let scheduler = self.scheduler.as_deref().unwrap_or("real time");
        match self.hunger {
            ResourceLimit::Cpu(100) => format!("no cap, {scheduler}"),
            ResourceLimit::Cpu(percent) => format!("{percent} %, {scheduler}"),
            ResourceLimit::Shared(percent) => format!("{percent} %, shared, {scheduler}"),
            ResourceLimit::Memory(bytes) => format!("{} MiB, shared, {scheduler}", bytes >> 20),
        }
    }

    fn limits(&self) -> ChildLimits {
        match self.hunger {
            ResourceLimit::Cpu(percent) | ResourceLimit::Shared(percent) => {
                ChildLimits { cpu_percent: Some(percent), ..ChildLimits::default() }
            }
            // Uncapped, but counted.
            ResourceLimit::Memory(bytes) => {
                ChildLimits { cpu_percent: Some(100), memory_high: Some(bytes), alongside: None }
            }
        }
    }

    fn burden(&self) -> Option<LoadKind> {
        match self.hunger {
            ResourceLimit::Cpu(_) => None,
            ResourceLimit::Shared(_) => Some(LoadKind::Cpu { threads: 1 }),
            ResourceLimit::Memory(bytes) => Some(LoadKind::Memory { bytes: bytes * 2 }),
        }
    }
}

pub(crate) fn run(flags: &LimitsFlags) -> Result<(), Failure> {
    let plan = flags.streams.plan();
    let hungers = if flags.only.is_empty() { &RESOURCE_LIMITS[..] } else { &flags.only };
    let steps = steps(hungers, plan.schedulers[1].as_deref());
    flags.streams.run("limits", counted_down(steps.len(), line), |ends, cases, _| {
        cases.note(NOTE);
        for step in &steps {
            let name = step.name();
            let schedulers = match &step.scheduler {
                Some(scheduler) => [0, 1].map(|_| Some(scheduler.clone())),
                None => plan.schedulers.clone(),
            };
            let plan = LabStream { schedulers, ..plan.clone() };
            let mut refused = None;
            cases.run(&name, ends, |ends| {
                let outcome = starved(ends, step, &plan)?;
                refused = outcome.received.host.refused.priority.clone();
                Ok(reported(outcome.row(&name), &outcome))
            });
            if let Some(why) = refused {
                cases.note(format!("{name}: {why}"));
            }
        }
    })
}

const NOTE: &str = "quotas apply per 100 ms; they limit ordinary threads, and real-time threads \
                    only if groups have real-time shares";

fn starved(
    ends: &mut StreamEnds,
    step: &LimitStep,
    plan: &LabStream,
) -> Result<StreamOutcome, HostError> {
    let limits = step.limits();
    let Some(burden) = step.burden() else {
        return ends.run(&LabStream { limits: Some(limits), ..plan.clone() });
    };
    let start = |running: &mut RunningBurdens, ends: &mut StreamEnds| {
        running.start(ends, LoadSide::Receiver, &burden, Some(limits))
    };
    let (outcome, _) = among(ends, plan, start, |ends, alongside| {
        let with = ChildLimits { alongside: Some(alongside), ..ChildLimits::default() };
        ends.run(&LabStream { limits: Some(with), ..plan.clone() })
    })?;
    Ok(outcome)
}

fn reported(mut row: ReportRow, outcome: &StreamOutcome) -> ReportRow {
    let Some(used) = outcome.used[1] else { return row };
    row.add("receiver_cpu_percent", "receiver, % of a core", used.percent(used.cpu));
    if let Some(group) = used.group {
        if let Some(nanos) = group.cpu_ns {
            let cpu = Span::from_nanos(nanos as i64);
            row.add("group_cpu_percent", "its group, % of a core", used.percent(cpu));
        }
        let throttled = group.throttled as f64 * 100.0 / group.periods.max(1) as f64;
        row.add("throttled_percent", "throttled, % of periods", throttled);
        row.add("throttled_ns", "throttled for", Value::from(group.throttled_ns));
        if let Some(above) = group.above_high {
            row.add("above_memory_limit", "memory limit exceeded, times", above);
        }
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_runs_with_and_without_real_time_by_default() {
        let names: Vec<String> =
            steps(&RESOURCE_LIMITS, None).iter().map(LimitStep::name).collect();
        assert_eq!(names.len(), 2 * RESOURCE_LIMITS.len());
        assert_eq!(names[..3], ["no cap, real time", "no cap, other", "50 %, real time"]);
        let requested: Vec<String> =
            steps(&RESOURCE_LIMITS, Some("rr:5")).iter().map(LimitStep::name).collect();
        assert_eq!(requested.len(), RESOURCE_LIMITS.len());
        assert_eq!(requested[5], "64 MiB, shared, rr:5");
        assert_eq!("shared".parse(), Ok(ResourceLimit::Shared(50)));
        assert!("5%".parse::<ResourceLimit>().unwrap_err().contains("100%, 50%"));
    }

    #[test]
    fn memory_limit_is_below_the_groups_need() {
        for step in steps(&RESOURCE_LIMITS, None) {
            if let (Some(high), Some(LoadKind::Memory { bytes })) =
                (step.limits().memory_high, step.burden())
            {
                assert!(bytes > high);
            }
        }
    }
}
