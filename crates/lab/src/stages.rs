//! Time of every packet by stage, with two hosts on one timeline.

use clap::Args;
use tautline_ui::failure::Failure;

use crate::loadgen::BusyHost;
use crate::runner::{BusyFlags, StreamFlags, StreamShape};
use crate::streams::StreamEnds;

const SHORT_HELP: &str = r#"Examples:
  taut lab stages --with ssh:studio --input alsa:hw:0 --output alsa:hw:0

All options and details: taut lab stages --help"#;

const HELP: &str = r#"Examples:
  # Where 5 ms go, on this machine:
  taut lab stages
  # To another machine, for a minute, with sound cards:
  taut lab stages --with ssh:studio --input alsa:hw:0 --output alsa:hw:0 \
      --duration 60s
  # Only if the clock uncertainty between both hosts is at most 50 us:
  taut lab stages --with ssh:studio --max-uncertainty 50us
  # While stress-ng loads the receiver's host:
  taut lab stages --load stress-ng:cpu,4,vm,1

Stages, in the order of travel: capture, pack, send, wire, wakeup, buffer,
render, device. The sender's are translated to the receiver's clock; `wire` has
the uncertainty of that. If it exceeds --max-uncertainty, or if a clock was set
during the run, the row is invalid. Times on a single clock are shown as well:
the way through each host, and the round trip between them."#;

/// `taut lab stages`
#[derive(Debug, Args)]
#[command(after_help = SHORT_HELP, after_long_help = HELP)]
pub struct StagesFlags {
    #[command(flatten)]
    busy: BusyFlags,
    #[command(flatten)]
    shape: StreamShape,
    #[command(flatten)]
    streams: StreamFlags,
}

/// Minimum packets. Fewer have no useful tail.
const MANY: u64 = 10_000;

/// A stop gives a partial report.
pub(crate) fn run(flags: &StagesFlags) -> Result<(), Failure> {
    let plan = flags.streams.shaped(&flags.shape)?;
    let load = flags.busy.load.as_ref();
    flags.streams.run(
        "stages",
        |_| None,
        |ends, cases, answer| {
            let seconds = plan.settle + plan.duration;
            answer.notify(&format!("sending a stream for {seconds}; Ctrl-C ends it early"));
            let name =
                BusyHost::named(load, format!("{} in packets of {}", plan.latency, plan.ptime));
            cases.run(&name, ends, |ends| {
                let mut progress = |sentence: &str| answer.notify(sentence);
                let run = |ends: &mut StreamEnds| ends.run_watched(&plan, Some(&mut progress));
                Ok(BusyHost::around_if(load, ends, &plan, run)?.row(&name))
            });
            let measured = cases.report.rows.first().filter(|row| row.invalid.is_none());
            let count = measured.map(|row| row.measured.as_ref().map_or(0, |all| all.count));
            if let Some(count) = count.filter(|count| *count < MANY) {
                cases.note(format!(
                    "{count} packets measured; tails need at least {MANY}: use a longer --duration"
                ));
            }
        },
    )
}
