//! `taut lab overhead`

use tautline_lab::overhead;
use tautline_lab::report::LabReport;

use super::answer::ExperimentAnswer;
use super::ends::{over, shaped};
use crate::cmd::stop_on_signals;
use crate::failure::Failure;
use crate::flags::Overhead;

pub(crate) fn run(flags: &Overhead) -> Result<(), Failure> {
    let stop = stop_on_signals()?;
    let answer = ExperimentAnswer::open(&flags.streams.reporting)?;
    let plan = shaped(&flags.streams, &flags.shape)?;
    let asked = LabReport::of("overhead", overhead::QUESTION);
    over(&flags.streams.far.with, asked, answer, &stop, |ends, answer| {
        overhead::run(ends, &plan, flags.rounds, |done| {
            // Who asks after that was told asks of the next stream.
            let goes_on = !stop.is_requested();
            answer.tell(done);
            goes_on
        })
    })
}
