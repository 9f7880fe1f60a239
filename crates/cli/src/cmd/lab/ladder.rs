//! `taut lab ladder`

use tautline_lab::ladder::{self, RUNGS};
use tautline_lab::report::LabReport;

use super::answer::ExperimentAnswer;
use super::ends::{line, over, plan};
use crate::cmd::stop_on_signals;
use crate::failure::Failure;
use crate::flags::Ladder;

pub(crate) fn run(flags: &Ladder) -> Result<(), Failure> {
    let stop = stop_on_signals()?;
    let answer = ExperimentAnswer::open(&flags.streams.reporting)?;
    let rungs = if flags.rung.is_empty() { RUNGS.to_vec() } else { flags.rung.clone() };
    let noises: Vec<_> = flags.noise.iter().map(|noise| noise.and_tcp(flags.tcp_rate)).collect();
    let steps = ladder::steps(&rungs, &noises);
    let plan = plan(&flags.streams);
    let mut left = steps.len();
    let asked = LabReport::of("ladder", ladder::QUESTION);
    over(&flags.streams.far.with, asked, answer, &stop, |ends, answer| {
        ladder::run(ends, &plan, &steps, flags.busy.load.as_ref(), |row| {
            left -= 1;
            answer.tell(&format!("{}; {left} more", line(row)));
            !stop.is_requested()
        })
    })
}
