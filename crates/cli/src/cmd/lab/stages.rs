//! `taut lab stages`

use tautline_lab::report::LabReport;
use tautline_lab::stages;

use super::answer::ExperimentAnswer;
use super::ends::{over, shaped};
use crate::cmd::stop_on_signals;
use crate::failure::Failure;
use crate::flags::StagesFlags;

pub(crate) fn run(flags: &StagesFlags) -> Result<(), Failure> {
    let answer = ExperimentAnswer::open(&flags.streams.reporting)?;
    let plan = shaped(&flags.streams, &flags.shape)?;
    let stop = stop_on_signals()?;
    let asked = LabReport::of("stages", stages::QUESTION);
    over(&flags.streams.far.with, asked, answer, &stop, |ends, answer| {
        let seconds = plan.settle + plan.duration;
        answer.tell(&format!("a stream of {seconds} follows; Ctrl-C ends it sooner"));
        let progress = &mut |sentence: &str| answer.tell(sentence);
        stages::run(ends, &plan, flags.busy.load.as_ref(), &stop, progress)
    })
}
