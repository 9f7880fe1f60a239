//! What experiments that send a stream share.

use core::time::Duration;

use tautline_lab::hosts::{HostPlace, LabHost};
use tautline_lab::least::least_accepted;
use tautline_lab::report::{LabReport, ReportRow};
use tautline_lab::streams::{LabStream, StreamEnds};
use tautline_proto::device::Stop;

use super::answer::ExperimentAnswer;
use crate::failure::Failure;
use crate::flags::{BlockSizes, Shape, Streams};
use crate::screen;

/// Runs an experiment over an agent at each end, this machine sending, and answers with what it found. An
/// end that cannot be had is told by a void row, too: nothing can be measured without it, nor where it is asked to
/// stop before an agent answers.
pub(super) fn over(
    with: &HostPlace,
    empty: LabReport,
    answer: ExperimentAnswer,
    stop: &Stop,
    run: impl FnOnce(&mut StreamEnds, &ExperimentAnswer) -> LabReport,
) -> Result<(), Failure> {
    // The one that may refuse first.
    let receiver = LabHost::at(with.clone(), stop).map_err(|error| (with, error));
    let local = &HostPlace::Local;
    let both = receiver.and_then(|receiver| {
        let sender = LabHost::at(local.clone(), stop).map_err(|error| (local, error))?;
        Ok(StreamEnds::new(sender, receiver))
    });
    match both {
        Ok(mut ends) => {
            if answer.tells() {
                ends.tell_ending(|left| screen::tell(&ending(left)));
            }
            let report = run(&mut ends, &answer);
            answer.give(report)
        }
        Err((place, error)) => {
            answer.write(empty.unusable(place.to_string(), error.to_string()))?;
            Err(error.into())
        }
    }
}

/// What is told where somebody asks to stop while a stream runs on to its end.
fn ending(left: Duration) -> String {
    let seconds = left.as_millis().div_ceil(1000);
    format!(
        "ending after this stream, in {seconds} s at most; Ctrl-C again ends at once, without a report"
    )
}

pub(super) fn plan(flags: &Streams) -> LabStream {
    LabStream {
        rate: flags.rate.hertz(),
        schedulers: [0, 1].map(|_| flags.scheduler.map(|scheduler| scheduler.to_string())),
        settle: flags.settle,
        duration: flags.duration,
        input: flags.input.clone(),
        output: flags.output.clone(),
        at: flags.far.at,
        max_uncertainty: Some(flags.clocks.most()),
        ..LabStream::default()
    }
}

/// The same of this shape; refused here where both programs would refuse it later, one after the other.
pub(super) fn shaped(flags: &Streams, shape: &Shape) -> Result<LabStream, Failure> {
    let plan = LabStream { latency: shape.latency, ..in_blocks(flags, &shape.blocks) };
    let least = least_accepted(flags.rate, &plan);
    if plan.latency < least {
        return Err(Failure::usage(format!(
            "--latency {} is less than the {least} that packets of {} and the buffer of {} periods of {} frames \
             take; use --latency {least} or more, or a shorter --ptime or --period",
            plan.latency, plan.ptime, plan.periods, plan.period
        )));
    }
    Ok(plan)
}

/// The same in such blocks.
pub(super) fn in_blocks(flags: &Streams, blocks: &BlockSizes) -> LabStream {
    LabStream { ptime: blocks.ptime, period: blocks.period, ..plan(flags) }
}

/// A row that is done: what was measured, as the report will have it, and what was missed.
pub(super) fn line(row: &ReportRow) -> String {
    let found = match (&row.void, row.measured_in_words()) {
        (Some(why), _) => format!("void: {why}"),
        (None, Some(middle)) => middle,
        (None, None) => "nothing measured".to_owned(),
    };
    let missed = row.missed.filter(|missed| missed.missed > 0);
    let missed = missed.map(|found| format!(", {} of {} missed", found.missed, found.due));
    format!("{}: {found}{}", row.name, missed.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use tautline_lab::statistics::{Missed, Series};
    use tautline_proto::time::{LocalTime, Span};
    use tautline_trial::snapshot;

    use super::*;

    #[test]
    fn few_values_are_shown_with_what_was_missed() {
        let mut series = Series::with_room(16);
        (0..16).for_each(|_| series.push(LocalTime::ZERO, Span::from_millis(100)));
        let mut row = ReportRow::named("slices of 100ms").with(&series);
        row.uncertainty = Some(Span::from_micros(11));
        assert_eq!(row.measured.unwrap().p50_ns, None, "too few for a median");
        row.missed = Some(Missed::of(176, 200));
        snapshot!(line(&row));
        row.missed = Some(Missed::of(0, 200));
        snapshot!("nothing missed", line(&row));
    }
}
