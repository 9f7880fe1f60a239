//! What goes on in the machine: how busy its cores are and with what, switches, interrupts, faults,
//! memory, blocks and packets; of the whole machine and of given processes.
//!
//! [`Sampler`] runs beside whatever is measured, on an ordinary thread that reads a few files of
//! proc(5) at each interval; each value carries the instant of its reading, so that it joins what was
//! measured then. What a kernel does not say is left out.

mod counters;
mod rates;
mod record;
mod sampler;
#[cfg(test)]
mod tests;

use tautline_io::clock::{now, sleep_until};
use tautline_proto::device::Stop;
use tautline_proto::time::{LocalTime, Span};

use crate::report::{HostDescription, INTERVAL, LabReport, Meanwhile, ReportRow};

pub use record::Record;
pub use sampler::{Sampler, SamplerOptions};

/// What is read of a machine, in this order: each for programs, with its unit, and for people.
pub(crate) fn machine_quantities() -> impl Iterator<Item = (&'static str, &'static str)> {
    rates::MACHINE.iter().map(|quantity| (quantity.key, quantity.words))
}

/// How often it is looked whether it is over.
const BEAT: Span = Span::from_millis(20);

pub const QUESTION: &str = "what goes on in this machine?";

/// Reads what the machine does until it is asked to stop, for so long at most: each second's, at instants of
/// the monotonic clock, for what is measured by the same clock.
pub fn sample(most: Span, stop: &Stop) -> Result<Vec<Meanwhile>, String> {
    let options = SamplerOptions { interval: INTERVAL, duration: most, pids: Vec::new() };
    Ok(read(&options, stop)?.machine(LocalTime::ZERO))
}

fn read(options: &SamplerOptions, stop: &Stop) -> Result<Record, String> {
    let ends = now() + options.duration;
    let sampler = Sampler::start(options)?;
    while !stop.is_requested() && now() < ends {
        sleep_until(ends.min(now() + BEAT));
    }
    Ok(sampler.finish())
}

/// Reads for a while and reports: the machine, and each process; one that is not there is a void row.
pub fn measure(options: &SamplerOptions, stop: &Stop) -> Result<LabReport, String> {
    let mut report = LabReport::of("resources", QUESTION);
    report.hosts.push(HostDescription::here("here"));
    let record = read(options, stop)?;
    report.rows.push(record.machine_row());
    for (index, pid) in options.pids.iter().enumerate() {
        report.rows.push(record.process_row(index).unwrap_or_else(|| {
            ReportRow::void(
                format!("process {pid}"),
                format!("there was no process {pid}, or it ended at once; pgrep NAME finds them"),
            )
        }));
    }
    report.notes.extend(record.notes());
    Ok(report)
}
