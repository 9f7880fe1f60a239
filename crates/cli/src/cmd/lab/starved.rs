//! `taut lab starved`

use tautline_lab::report::LabReport;
use tautline_lab::starved::{self, HUNGERS};

use super::answer::ExperimentAnswer;
use super::ends::{line, over, plan};
use crate::cmd::stop_on_signals;
use crate::failure::Failure;
use crate::flags::Starved;

pub(crate) fn run(flags: &Starved) -> Result<(), Failure> {
    let stop = stop_on_signals()?;
    let answer = ExperimentAnswer::open(&flags.streams.reporting)?;
    let plan = plan(&flags.streams);
    let hungers = if flags.only.is_empty() { HUNGERS.to_vec() } else { flags.only.clone() };
    let steps = starved::steps(&hungers, plan.schedulers[1].as_deref());
    let mut left = steps.len();
    let asked = LabReport::of("starved", starved::QUESTION);
    over(&flags.streams.far.with, asked, answer, &stop, |ends, answer| {
        starved::run(ends, &plan, &steps, |row| {
            left -= 1;
            answer.tell(&format!("{}; {left} more", line(row)));
            !stop.is_requested()
        })
    })
}
