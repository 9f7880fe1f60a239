//! Machine and process activity from proc(5).
//!
//! [`Sampler`] reads on an ordinary thread during a measurement. Values have their reading times;
//! unavailable values are left out.

mod counters;
mod rates;
mod record;
mod sampler;
#[cfg(test)]
mod tests;

use clap::Args;
use tautline_io::clock::{now, sleep_until};
use tautline_proto::device::Stop;
use tautline_proto::time::{LocalTime, Span};
use tautline_ui::failure::Failure;
use tautline_ui::readers::span;

use crate::answer::{Answer, Reporting, check_room, print_json};
use crate::report::{HostDescription, INTERVAL, LabReport, ReportRow};
use crate::signals::stop_with_agent;
pub use record::Record;
pub use sampler::{Sampler, SamplerOptions};

const SHORT_HELP: &str = r#"Examples:
  taut lab resources --pid 1 --duration 300s --report-file resources.html

Details and more examples: taut lab resources --help"#;

const HELP: &str = r#"Examples:
  # This machine for ten seconds, second by second:
  taut lab resources
  # And one program, every fifth of a second:
  taut lab resources --pid 1 --interval 200ms --duration 60s --report json
  # As charts over time:
  taut lab resources --pid 1 --duration 300s --report-file resources.html

CPU shares are of all cores for the machine and of one core for a process; the
kernel counts them in hundredths of a second. Packets are those of all
interfaces except loopback, in this network namespace. The table has means; the
JSON report has every interval ("meanwhile"). The page charts CPU time,
interrupts and context switches over time."#;

/// `taut lab resources`
#[derive(Debug, Args)]
#[command(after_help = SHORT_HELP, after_long_help = HELP)]
pub struct ResourceFlags {
    /// Also sample this process ID; repeatable
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pid: Vec<u32>,
    /// Sampling interval
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = span)]
    interval: Span,
    /// Duration
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = span)]
    duration: Span,
    #[command(flatten)]
    reporting: Reporting,
}

/// `taut lab sample`
#[derive(Debug, Args)]
pub struct SampleFlags {
    /// Maximum duration
    #[arg(long, value_name = "TIME", value_parser = span)]
    duration: Span,
}

/// Minimum interval: two 10 ms ticks of CPU time.
const SHORTEST: Span = Span::from_millis(20);

pub(crate) fn run(flags: &ResourceFlags) -> Result<(), Failure> {
    if flags.interval < SHORTEST {
        return Err(Failure::usage(format!(
            "--interval {} is shorter than the kernel's resolution of CPU time\nhint: use at least \
             {SHORTEST}",
            flags.interval
        )));
    }
    let options = SamplerOptions {
        interval: flags.interval,
        duration: flags.duration,
        pids: flags.pid.clone(),
    };
    // A reading is as large as twenty values.
    let readings = options.duration.as_nanos() / options.interval.as_nanos().max(1);
    check_room((readings.max(0) as usize).saturating_mul(20 * (1 + options.pids.len())))?;
    let answer = Answer::open(&flags.reporting)?;
    answer.notify(&format!("reading every {} for {}", options.interval, options.duration));
    let report = measure(&options, &answer.stop).map_err(Failure::open)?;
    answer.give(report)
}

/// Once a second until stopped; times are on the monotonic clock.
pub(crate) fn sample(flags: &SampleFlags) -> Result<(), Failure> {
    let stop = stop_with_agent()?;
    let options = SamplerOptions { interval: INTERVAL, duration: flags.duration, pids: Vec::new() };
    print_json(&read(&options, &stop).map_err(Failure::open)?.machine(LocalTime::ZERO))
}

pub(crate) fn machine_quantities() -> impl Iterator<Item = (&'static str, &'static str)> {
    rates::MACHINE.iter().map(|quantity| (quantity.key, quantity.words))
}

const BEAT: Span = Span::from_millis(20);

fn read(options: &SamplerOptions, stop: &Stop) -> Result<Record, String> {
    let ends = now() + options.duration;
    let sampler = Sampler::start(options)?;
    while !stop.is_requested() && now() < ends {
        sleep_until(ends.min(now() + BEAT));
    }
    Ok(sampler.finish())
}

/// A missing process is an invalid row.
pub fn measure(options: &SamplerOptions, stop: &Stop) -> Result<LabReport, String> {
    let mut report = LabReport::asking("resources");
    report.hosts.push(HostDescription::here("here"));
    let record = read(options, stop)?;
    report.rows.push(record.machine_row());
    for (index, pid) in options.pids.iter().enumerate() {
        report.rows.push(record.process_row(index).unwrap_or_else(|| {
            ReportRow::invalid(
                format!("process {pid}"),
                format!(
                    "no process {pid}, or it ended immediately\nhint: `pgrep NAME` finds process IDs"
                ),
            )
        }));
    }
    report.notes.extend(record.notes());
    Ok(report)
}
