//! `taut lab resources`

use tautline_lab::resources::{self, SamplerOptions, measure};
use tautline_proto::time::Span;

use super::answer::ExperimentAnswer;
use super::room::check_room;
use super::stop_with_agent;
use crate::cmd::stop_on_signals;
use crate::failure::Failure;
use crate::flags::{Resources, SampleFlags};
use crate::screen;

/// The kernel counts processor time in ticks of 10 ms: of less than two of them nothing can be said.
const SHORTEST: Span = Span::from_millis(20);

pub(crate) fn run(flags: &Resources) -> Result<(), Failure> {
    if flags.interval < SHORTEST {
        return Err(Failure::usage(format!(
            "--interval {} is shorter than the kernel counts processor time by; use {SHORTEST} or more",
            flags.interval
        )));
    }
    let options = SamplerOptions {
        interval: flags.interval,
        duration: flags.duration,
        pids: flags.pid.clone(),
    };
    // A reading takes as much as twenty values.
    let readings = options.duration.as_nanos() / options.interval.as_nanos().max(1);
    check_room((readings.max(0) as usize).saturating_mul(20 * (1 + options.pids.len())))?;
    let stop = stop_on_signals()?;
    let answer = ExperimentAnswer::open(&flags.reporting)?;
    answer.tell(&format!("reading every {} for {}", options.interval, options.duration));
    answer.give(measure(&options, &stop).map_err(Failure::open)?)
}

pub(crate) fn sample(flags: &SampleFlags) -> Result<(), Failure> {
    let stop = stop_with_agent()?;
    let read = resources::sample(flags.duration, &stop).map_err(Failure::open)?;
    let json = serde_json::to_string(&read).map_err(|e| Failure::running(e.to_string()))?;
    screen::print(&(json + "\n"));
    Ok(())
}
