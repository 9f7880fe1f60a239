//! `taut lab least`

use tautline_lab::least::{self, LEAST, LeastOptions};
use tautline_lab::report::{LabReport, ReportRow};
use tautline_lab::streams::LabStream;
use tautline_proto::time::Span;

use super::answer::ExperimentAnswer;
use super::ends::{in_blocks, line, over};
use crate::cmd::stop_on_signals;
use crate::failure::Failure;
use crate::flags::LeastFlags;

pub(crate) fn run(flags: &LeastFlags) -> Result<(), Failure> {
    let blocks = in_blocks(&flags.streams, &flags.blocks);
    let max_uncertainty = flags.streams.clocks.asked();
    let plan = LabStream { periods: flags.periods, max_uncertainty, ..blocks };
    let options = options(flags, &plan)?;
    let stop = stop_on_signals()?;
    let answer = ExperimentAnswer::open(&flags.streams.reporting)?;
    let asked = LabReport::of("least", least::QUESTION);
    let mut unfound = None;
    over(&flags.streams.far.with, asked, answer, &stop, |ends, answer| {
        let report = least::run(ends, &plan, options, flags.busy.load.as_ref(), |row| {
            answer.tell(&format!("{}{}", line(row), result(row)));
            !stop.is_requested()
        });
        let is_found = report.rows.iter().any(|row| row.name == LEAST);
        // The last note says why.
        unfound = report.notes.last().filter(|_| !is_found && !stop.is_requested()).cloned();
        report
    })?;
    unfound.map_or(Ok(()), |why| Err(Failure::running(why)))
}

fn result(row: &ReportRow) -> String {
    let result = row.figures.iter().find(|figure| figure.key == "result");
    let word = result.and_then(|figure| figure.value.as_str());
    word.filter(|_| row.void.is_none()).map_or(String::new(), |word| format!(", {word}"))
}

/// Refuses what leaves nothing to try.
fn options(flags: &LeastFlags, plan: &LabStream) -> Result<LeastOptions, Failure> {
    let LeastFlags { step, most, hold, .. } = *flags;
    let taken = least::taken(flags.streams.rate, plan);
    let first = flags.first.unwrap_or_else(|| least::whole_steps(taken, step));
    let greater = match () {
        () if first < taken => "--first",
        () if first > most => "--most",
        () => {
            refuse_longer_than_noise(plan, hold)?;
            return Ok(LeastOptions { first, step, most, hold });
        }
    };
    Err(Failure::usage(format!(
        "there is no latency to try from {first} to {most}, as packets and the receiver's buffer take {taken}; \
         give a greater {greater}, or a shorter --ptime or --period"
    )))
}

/// Before the search, which would end with a hold that cannot be run.
fn refuse_longer_than_noise(plan: &LabStream, hold: Span) -> Result<(), Failure> {
    match (LabStream { duration: hold, ..plan.clone() }).outlasts_noise() {
        false => Ok(()),
        true => Err(Failure::usage(format!(
            "the least cannot be held for {hold}, as noise lasts an hour at most, --settle and 3 s more among it; \
             give a shorter --hold, or say what is sent (--input)"
        ))),
    }
}
