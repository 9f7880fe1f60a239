//! `taut lab stalls`

use tautline_io::thread::affinity::usable_cores;
use tautline_lab::stalls::{StallOptions, measure};

use super::answer::ExperimentAnswer;
use super::room::check_room;
use crate::cmd::stop_on_signals;
use crate::failure::Failure;
use crate::flags::Stalls;

pub(crate) fn run(flags: &Stalls) -> Result<(), Failure> {
    let cores = if flags.cpus.is_empty() { usable_cores() } else { flags.cpus.clone() };
    let options = StallOptions {
        cores,
        scheduler: flags.scheduler,
        period: flags.period,
        duration: flags.duration,
    };
    check_room(options.values())?;
    let stop = stop_on_signals()?;
    let answer = ExperimentAnswer::open(&flags.reporting)?;
    answer.tell(&format!(
        "looking at {} cores every {} for {}; keep the machine as it will be used",
        options.cores.len(),
        options.period,
        options.duration
    ));
    answer.give(measure(&options, &stop))
}
