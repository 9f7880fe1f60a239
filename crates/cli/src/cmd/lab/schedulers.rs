//! `taut lab schedulers`

use tautline_lab::report::LabReport;
use tautline_lab::schedulers;
use tautline_lab::streams::LabStream;
use tautline_proto::time::{Frames, Span};

use super::answer::ExperimentAnswer;
use super::ends::{line, over, shaped};
use crate::cmd::stop_on_signals;
use crate::failure::Failure;
use crate::flags::Schedulers;

pub(crate) fn run(flags: &Schedulers) -> Result<(), Failure> {
    if let Some(scheduler) = &flags.streams.scheduler {
        return Err(Failure::usage(format!(
            "--scheduler {scheduler}: this experiment sets it; --case picks some"
        )));
    }
    let period: Span =
        flags.streams.rate.span_of(Frames::new(i64::from(flags.shape.blocks.period)));
    let mut cases = schedulers::cases(period);
    let wanted = |name: &str| flags.case.iter().any(|begin| name.starts_with(begin.as_str()));
    if !flags.case.is_empty() {
        let names: Vec<_> = cases.iter().map(|case| case.name.clone()).collect();
        cases.retain(|case| wanted(&case.name));
        if cases.is_empty() {
            return Err(Failure::usage(format!(
                "no case begins so; there are {}",
                names.join("; ")
            )));
        }
    }
    let stop = stop_on_signals()?;
    let answer = ExperimentAnswer::open(&flags.streams.reporting)?;
    let cpus = match flags.cpus[..] {
        [] => [Vec::new(), Vec::new()],
        [one] => [vec![one], vec![one]],
        [sender, receiver, ..] => [vec![sender], vec![receiver]],
    };
    let plan = LabStream { cpus, ..shaped(&flags.streams, &flags.shape)? };
    let mut left = cases.len();
    let asked = LabReport::of("schedulers", schedulers::QUESTION);
    over(&flags.streams.far.with, asked, answer, &stop, |ends, answer| {
        schedulers::run(ends, &plan, &cases, &flags.load, |row| {
            left -= 1;
            answer.tell(&format!("{}; {left} more", line(row)));
            !stop.is_requested()
        })
    })
}
