//! Effect of the scheduler: a stream under each, idle, loaded, and with both ends on one processor.

use clap::Args;
use tautline_io::thread::Scheduler;
use tautline_proto::time::{Frames, Span};
use tautline_ui::failure::Failure;

use crate::hosts::HostError;
use crate::latency_sweep::RUNGS;
use crate::loadgen::{BusyHost, LoadKind, LoadSide, RunningBurdens, among};
use crate::report::ReportRow;
use crate::runner::{StreamFlags, StreamShape, counted_down, line};
use crate::streams::{LabStream, StreamEnds};

const SHORT_HELP: &str = r#"Examples:
  taut lab schedulers --only fifo --only rr
  taut lab schedulers --load stress-ng:cpu,4,vm,1 --cpus 2,3

All options and details: taut lab schedulers --help"#;

const HELP: &str = r#"Examples:
  # All of them on this machine, in five minutes:
  taut lab schedulers
  # Only the real-time ones, with a shorter period:
  taut lab schedulers --only fifo --only rr --period 32 --ptime 667us \
      --latency 4ms
  # Loaded by stress-ng, and on chosen cores:
  taut lab schedulers --load stress-ng:cpu,4,vm,1 --cpus 2,3

Loaded cases keep every core of the receiver's host busy, or as set by --load.
On one core, the first of --cpus, the sender's priority is below, equal to and
above the receiver's. A scheduler that the kernel rejects is an invalid row with
the reason, as is a deadline with --cpus: it needs all cores."#;

/// `taut lab schedulers`
#[derive(Debug, Args)]
#[command(after_help = SHORT_HELP, after_long_help = HELP)]
pub struct SchedulerFlags {
    /// Only cases whose name starts with this, such as fifo; repeatable
    #[arg(long, value_name = "NAME", help_heading = "Run")]
    only: Vec<String>,
    /// Load of the receiver's host: spin, spin:N, stress-ng:…
    ///
    /// spin starts one busy thread per core, spin:N starts N. stress-ng gets its options with their
    /// values, such as stress-ng:cpu,4.
    #[arg(long, value_name = "LOAD", default_value = "spin", help_heading = "Run")]
    load: BusyHost,
    /// Cores of the sender and the receiver, such as 2,3 [default: any]
    /// Cases on one core use the first one, or core 0 by default.
    #[arg(long, value_name = "CORES", value_delimiter = ',', num_args = 1..=2,
          help_heading = "Run")]
    cpus: Vec<usize>,
    #[command(flatten)]
    shape: StreamShape,
    #[command(flatten)]
    streams: StreamFlags,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SchedulerCase {
    pub name: String,
    schedulers: [String; 2],
    slice: Option<Span>,
    /// The thesis's first test (20 ms, 100 ms), for which its deadlines are made. With shorter
    /// periods, threads sleep for 16 ms.
    as_thesis: bool,
    together: bool,
    loaded: bool,
    /// A competing thread, so that time slices end.
    rival: bool,
}

/// Runtime/deadline/period of the thesis (figure 3.11).
const THESIS: [&str; 3] =
    ["deadline:4ms/12ms/16ms", "deadline:5ms/10ms/20ms", "deadline:7500us/15ms/25ms"];

const RIVAL: Scheduler = Scheduler::RoundRobin(70);

const QUIET_AND_LOADED: [&str; 2] = ["", ", loaded"];

fn classes(period: Span) -> Vec<(String, Option<Span>)> {
    let fitting = format!("deadline:{}/{period}/{period}", Span::from_nanos(period.as_nanos() / 4));
    let slice = |ms| Some(Span::from_millis(ms));
    let mut all = vec![
        ("other".to_owned(), None),
        ("rr:70".to_owned(), slice(25)),
        ("rr:70".to_owned(), slice(100)),
        ("fifo:70".to_owned(), None),
        (fitting, None),
    ];
    all.extend(THESIS.map(|class| (class.to_owned(), None)));
    all
}

pub fn cases(period: Span) -> Vec<SchedulerCase> {
    let mut all = Vec::new();
    for load in QUIET_AND_LOADED {
        for (class, slice) in classes(period) {
            let slices = slice.map_or(String::new(), |slice| format!(", slices of {slice}"));
            all.push(SchedulerCase {
                name: format!("{class}{slices}{load}"),
                schedulers: [class.clone(), class.clone()],
                slice,
                as_thesis: THESIS.contains(&class.as_str()),
                loaded: !load.is_empty(),
                ..SchedulerCase::default()
            });
        }
    }
    for load in QUIET_AND_LOADED {
        for (place, sender) in [("below", 60), ("beside", 70), ("above", 80)] {
            all.push(SchedulerCase {
                name: format!("one core, the sender {place} the receiver{load}"),
                schedulers: [format!("fifo:{sender}"), "fifo:70".to_owned()],
                together: true,
                loaded: !load.is_empty(),
                ..SchedulerCase::default()
            });
        }
    }
    // The thesis's long periods: 1 ms would leave no time.
    for millis in [25, 100] {
        all.push(SchedulerCase {
            name: format!("one core, rr:70 beside an equal, slices of {millis}ms"),
            schedulers: [RIVAL, RIVAL].map(|rival| rival.to_string()),
            slice: Some(Span::from_millis(millis)),
            as_thesis: true,
            together: true,
            rival: true,
            ..SchedulerCase::default()
        });
    }
    all
}

pub(crate) fn run(flags: &SchedulerFlags) -> Result<(), Failure> {
    if let Some(scheduler) = &flags.streams.scheduler {
        return Err(Failure::usage(format!(
            "--scheduler {scheduler}: this experiment sets the scheduler\nhint: select cases with --only"
        )));
    }
    let period = flags.streams.rate.span_of(Frames::new(i64::from(flags.shape.blocks.period)));
    let mut requested = cases(period);
    if !flags.only.is_empty() {
        let names: Vec<_> = requested.iter().map(|case| case.name.clone()).collect();
        requested.retain(|case| flags.only.iter().any(|begin| case.name.starts_with(begin)));
        if requested.is_empty() {
            return Err(Failure::usage(format!(
                "no case name starts with {}\nhint: the cases are {}",
                flags.only.join(" or "),
                names.join("; ")
            )));
        }
    }
    let cpus = match flags.cpus[..] {
        [] => [Vec::new(), Vec::new()],
        [one] => [vec![one], vec![one]],
        [sender, receiver, ..] => [vec![sender], vec![receiver]],
    };
    let plan = LabStream { cpus, ..flags.streams.shaped(&flags.shape)? };
    flags.streams.run("schedulers", counted_down(requested.len(), line), |ends, cases, _| {
        if requested.iter().any(|case| case.as_thesis) {
            cases.note(
                "deadlines of 16 to 25 ms are the thesis's, and use its first test: periods and \
                 packets of 20 ms at 100 ms",
            );
        }
        for case in &requested {
            cases.run(&case.name, ends, |ends| one(ends, &plan, case, &flags.load));
        }
    })
}

fn one(
    ends: &mut StreamEnds,
    plan: &LabStream,
    case: &SchedulerCase,
    load: &BusyHost,
) -> Result<ReportRow, HostError> {
    if let Some(slice) = case.slice {
        ends.sender.round_robin_slice(slice)?;
        // Two agents of a machine would each restore the other's value.
        if !ends.share_clock()? {
            ends.receiver.round_robin_slice(slice)?;
        }
    }
    let shaped = match case.as_thesis {
        true => RUNGS[0].plan(plan),
        false => plan.clone(),
    };
    let plan = LabStream {
        schedulers: case.schedulers.clone().map(Some),
        cpus: if case.together { together(plan) } else { plan.cpus.clone() },
        ..shaped
    };
    let outcome = if case.rival {
        among(ends, &plan, |running, ends| rival(running, ends, &plan), |ends, ()| ends.run(&plan))?
            .0
    } else if case.loaded {
        load.around(ends, &plan, |ends| ends.run(&plan))?
    } else {
        ends.run(&plan)?
    };
    let mut row = outcome.row(&case.name);
    let names = [
        ("sender_late_p50_ns", "sender woke late, median", "sender_late_p99_ns", "99 of 100"),
        (
            "receiver_late_p50_ns",
            "receiver woke late, median",
            "receiver_late_p99_ns",
            "99 of 100 there",
        ),
    ];
    for (late, (middle, middle_words, maximum, max_words)) in outcome.wake_ups().iter().zip(names) {
        let summary = late.summary();
        row.add(middle, middle_words, summary.p50_ns);
        row.add(maximum, max_words, summary.p99_ns);
    }
    row.add("xruns", "xruns", outcome.counted_at_receiver(|counted| counted.xruns));
    Ok(row)
}

fn rival(
    running: &mut RunningBurdens,
    ends: &mut StreamEnds,
    plan: &LabStream,
) -> Result<(), HostError> {
    let core = plan.cpus[0].first().copied().unwrap_or(0);
    let rival = LoadKind::Rival { scheduler: RIVAL, core };
    running.start_surely(ends, LoadSide::Sender, &rival)?;
    if !ends.share_clock()? {
        running.start_surely(ends, LoadSide::Receiver, &rival)?;
    }
    Ok(())
}

fn together(plan: &LabStream) -> [Vec<usize>; 2] {
    let one = plan.cpus[0].first().copied().unwrap_or(0);
    [vec![one], vec![one]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_share_the_first_processor_that_is_named() {
        let named = LabStream { cpus: [vec![2], vec![3]], ..LabStream::default() };
        assert_eq!(together(&named), [[2], [2]]);
        assert_eq!(together(&LabStream::default()), [[0], [0]]);
    }

    #[test]
    fn all_schedulers_run_idle_loaded_and_sharing_a_core() {
        let all = cases(Span::from_millis(1));
        assert_eq!(all.iter().filter(|case| case.loaded).count(), 8 + 3);
        assert_eq!(all.iter().filter(|case| case.together).count(), 2 * 3 + 2);
        let mut names: Vec<_> = all.iter().map(|case| case.name.clone()).collect();
        assert_eq!(names.len(), 24);
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 24, "each has a name of its own: {names:?}");
        for case in &all {
            for scheduler in &case.schedulers {
                let read = scheduler.parse::<tautline_io::thread::Scheduler>();
                assert!(read.is_ok(), "{scheduler}: taut would refuse it");
            }
        }
        let fitting = "deadline:250us/1ms/1ms";
        assert!(names.iter().any(|name| name == fitting), "{names:?}");
    }
}
