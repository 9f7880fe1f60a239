//! `taut lab load`

use tautline_lab::load::{self, LoadOptions};
use tautline_lab::report::LabReport;
use tautline_lab::streams::LabStream;

use super::answer::ExperimentAnswer;
use super::ends::{line, over, shaped};
use crate::cmd::stop_on_signals;
use crate::failure::Failure;
use crate::flags::LoadFlags;

pub(crate) fn run(flags: &LoadFlags) -> Result<(), Failure> {
    let stop = stop_on_signals()?;
    let answer = ExperimentAnswer::open(&flags.streams.reporting)?;
    let max_uncertainty = flags.streams.clocks.asked();
    let plan = LabStream { max_uncertainty, ..shaped(&flags.streams, &flags.shape)? };
    let options =
        LoadOptions { allowed: flags.allow.0, most: flags.most, hold: i64::from(flags.hold) };
    let asked = LabReport::of("load", load::QUESTION);
    over(&flags.streams.far.with, asked, answer, &stop, |ends, answer| {
        load::run(ends, &plan, options, flags.busy.load.as_ref(), |row| {
            answer.tell(&match row.missed.filter(|_| row.void.is_none()) {
                Some(missed) => format!("{}: {} of {} missed", row.name, missed.missed, missed.due),
                None => line(row),
            });
            !stop.is_requested()
        })
    })
}
