//! Options and runner of the experiments that send streams between two hosts.

use core::time::Duration;
use std::net::IpAddr;

use clap::Args;
use tautline_audio::DeviceSpec;
use tautline_io::thread::Scheduler;
use tautline_proto::device::Stop;
use tautline_proto::time::Span;
use tautline_proto::units::Rate;
use tautline_ui::failure::Failure;
use tautline_ui::readers::{parse, rate, span};
use tautline_ui::screen;

use crate::answer::{Answer, Reporting};
use crate::cases::Cases;
use crate::hosts::{HostError, HostPlace, LabHost};
use crate::loadgen::BusyHost;
use crate::report::ReportRow;
use crate::streams::{LabStream, MOST_UNSURE, StreamEnds};

/// Where a stream goes that is sent from here.
#[derive(Debug, Args)]
pub(crate) struct FarEnd {
    /// Where the receiver is: local, netns:NAME or ssh:HOST, where `taut` of this version must be
    #[arg(long, value_name = "PLACE", default_value = "local", help_heading = "Hosts")]
    pub(crate) with: HostPlace,
    /// By which address it is reached [default: the first that a datagram arrives at]
    #[arg(long, value_name = "IP", help_heading = "Hosts")]
    pub(crate) at: Option<IpAddr>,
}

/// How well two hosts must know each other's clocks.
#[derive(Debug, Args)]
pub(crate) struct ClockFlags {
    /// Between hosts of two clocks, a row is void whose median may be off by more, either way; of one
    /// clock none is [default: 250us]
    #[arg(long, value_name = "TIME", value_parser = span, help_heading = "Hosts")]
    max_uncertainty: Option<Span>,
}

impl ClockFlags {
    /// For figures that are times.
    pub(crate) fn most(&self) -> Span {
        self.max_uncertainty.unwrap_or(MOST_UNSURE)
    }

    /// For results from missed packets, which do not depend on clocks.
    pub(crate) const fn asked(&self) -> Option<Span> {
        self.max_uncertainty
    }
}

/// What every experiment that sends a stream has.
#[derive(Debug, Args)]
pub(crate) struct StreamFlags {
    #[command(flatten)]
    pub(crate) far: FarEnd,
    #[command(flatten)]
    pub(crate) clocks: ClockFlags,
    /// What is sent: a device there is [default: noise on a virtual card]
    #[arg(long, short, value_name = "DEVICE", value_parser = device, help_heading = "Devices")]
    pub(crate) input: Option<String>,
    /// Where it is played [default: a virtual card]
    #[arg(long, short, value_name = "DEVICE", value_parser = device, help_heading = "Devices")]
    pub(crate) output: Option<String>,
    /// Sample rate
    #[arg(long, value_name = "HZ", default_value = "48000", value_parser = rate,
          help_heading = "Devices")]
    pub(crate) rate: Rate,
    /// Priority of the devices' threads
    #[arg(long, value_name = "CLASS", help_heading = "Devices")]
    pub(crate) scheduler: Option<Scheduler>,
    /// How long the stream settles before packets count, from 1s on
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = settle,
          help_heading = "Run")]
    pub(crate) settle: Span,
    /// How long packets count in each row
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = span,
          help_heading = "Run")]
    pub(crate) duration: Span,
    #[command(flatten)]
    pub(crate) reporting: Reporting,
}

/// What keeps the receiver's host busy, where anything does.
#[derive(Debug, Args)]
pub(crate) struct BusyFlags {
    /// What loads the receiver's host meanwhile: spin (a thread for each processor), spin:N, or
    /// stress-ng with its options and their values, such as stress-ng:cpu,4 [default: nothing]
    #[arg(long, value_name = "LOAD", help_heading = "Run")]
    pub(crate) load: Option<BusyHost>,
}

/// How much of a stream is taken at once.
#[derive(Debug, Args)]
pub(crate) struct BlockSizes {
    /// Audio time in one packet
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = span,
          help_heading = "Stream")]
    pub(crate) ptime: Span,
    /// Frames that each device takes at a time
    #[arg(long, value_name = "FRAMES", default_value_t = 48, help_heading = "Stream",
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) period: u32,
}

/// Of the one stream that an experiment sends.
#[derive(Debug, Args)]
pub(crate) struct StreamShape {
    #[command(flatten)]
    pub(crate) blocks: BlockSizes,
    /// The link offset
    #[arg(long, value_name = "TIME", default_value = "5ms", value_parser = span,
          help_heading = "Stream")]
    pub(crate) latency: Span,
}

pub(crate) const ANY_UNCERTAINTY: &str = "Between hosts of two clocks, a row is void whose median may be off by more, either way \
                               [default: any, as it is judged by what is missed]";

/// Checks a device name early, as another program opens the device.
fn device(text: &str) -> Result<String, String> {
    parse::<DeviceSpec>(text).map(|_| text.to_owned())
}

fn settle(text: &str) -> Result<Span, String> {
    match span(text)? {
        settle if settle >= Span::from_secs(1) => Ok(settle),
        _ => Err(format!("{text} is too short for a stream to begin; write 1s or more")),
    }
}

impl StreamFlags {
    pub(crate) fn plan(&self) -> LabStream {
        LabStream {
            rate: self.rate.hertz(),
            schedulers: [0, 1].map(|_| self.scheduler.map(|scheduler| scheduler.to_string())),
            settle: self.settle,
            duration: self.duration,
            input: self.input.clone(),
            output: self.output.clone(),
            at: self.far.at,
            max_uncertainty: Some(self.clocks.most()),
            ..LabStream::default()
        }
    }

    pub(crate) fn in_blocks(&self, blocks: &BlockSizes) -> LabStream {
        LabStream { ptime: blocks.ptime, period: blocks.period, ..self.plan() }
    }

    /// Rejects here what both programs would reject later, one after the other.
    pub(crate) fn shaped(&self, shape: &StreamShape) -> Result<LabStream, Failure> {
        let plan = LabStream { latency: shape.latency, ..self.in_blocks(&shape.blocks) };
        let least = plan.least_accepted(self.rate);
        if plan.latency < least {
            return Err(Failure::usage(format!(
                "--latency {} is less than the {least} that packets of {} and the buffer of {} periods of {} frames \
                 take; use --latency {least} or more, or a shorter --ptime or --period",
                plan.latency, plan.ptime, plan.periods, plan.period
            )));
        }
        Ok(plan)
    }

    pub(crate) fn run(
        &self,
        experiment: &'static str,
        words: impl FnMut(&ReportRow) -> Option<String>,
        run: impl FnOnce(&mut StreamEnds, &mut Cases<'_>, &Answer),
    ) -> Result<(), Failure> {
        run_streams(Answer::open(&self.reporting)?, (experiment, &self.far), words, run)
    }
}

/// Runs an experiment with an agent at each end, this machine sending, and outputs its report.
/// `words` formats each finished row. If an end is unavailable, or a stop comes before an agent
/// answers, the report is a void row.
pub(crate) fn run_streams(
    answer: Answer,
    (experiment, far): (&'static str, &FarEnd),
    mut words: impl FnMut(&ReportRow) -> Option<String>,
    run: impl FnOnce(&mut StreamEnds, &mut Cases<'_>, &Answer),
) -> Result<(), Failure> {
    let mut ends = match here_and_at(&far.with, &answer.stop) {
        Ok((here, receiver)) => StreamEnds::new(here, receiver),
        Err((place, error)) => return answer.unusable(experiment, place, error),
    };
    if answer.tells() {
        ends.tell_ending(|left| screen::tell(&ending(left)));
    }
    let mut tell = |row: &ReportRow| {
        words(row).iter().for_each(|words| answer.tell(words));
        !answer.stop.is_requested()
    };
    let mut cases = Cases::of(experiment, &mut tell);
    run(&mut ends, &mut cases, &answer);
    let Cases { mut report, unanswered, .. } = cases;
    report.hosts = ends.descriptions();
    answer.give_unless(unanswered, report)
}

/// An agent here and one there, or the unavailable one. The one that may refuse comes first.
pub(crate) fn here_and_at<'a>(
    there: &'a HostPlace,
    stop: &Stop,
) -> Result<(LabHost, LabHost), (&'a HostPlace, HostError)> {
    let at =
        |place: &'a HostPlace| LabHost::at(place.clone(), stop).map_err(|error| (place, error));
    let far = at(there)?;
    Ok((at(&HostPlace::Local)?, far))
}

pub(crate) fn counted_down(
    mut left: usize,
    words: impl Fn(&ReportRow) -> String,
) -> impl FnMut(&ReportRow) -> Option<String> {
    move |row| {
        left -= 1;
        Some(format!("{}; {left} more", words(row)))
    }
}

fn ending(left: Duration) -> String {
    let seconds = left.as_millis().div_ceil(1000);
    format!(
        "ending after this stream, in {seconds} s at most; Ctrl-C again ends at once, without a report"
    )
}

pub(crate) fn line(row: &ReportRow) -> String {
    let found = match (&row.void, crate::report::text::measured(row)) {
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
    use crate::statistics::{Missed, Series};
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
