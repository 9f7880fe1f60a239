//! `taut lab stages`

use tautline_lab::report::LabReport;
use tautline_lab::stages;
use tautline_proto::device::Stop;

use super::answer::ExperimentAnswer;
use super::ends::{over, shaped};
use crate::failure::Failure;
use crate::flags::StagesFlags;

pub(crate) fn run(flags: &StagesFlags) -> Result<(), Failure> {
    let answer = ExperimentAnswer::open(&flags.streams.reporting)?;
    let plan = shaped(&flags.streams, &flags.shape);
    answer.tell(&format!("a stream of {} follows", plan.duration));
    let asked = LabReport::of("stages", stages::QUESTION);
    // Of one row nothing is left to be told: Ctrl-C ends the program itself.
    over(&flags.streams.far.with, asked, answer, &Stop::default(), |ends, _| {
        stages::run(ends, &plan, flags.busy.load.as_ref())
    })
}
