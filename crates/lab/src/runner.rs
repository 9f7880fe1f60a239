//! Options and runner for streams between two hosts.

use core::time::Duration;
use std::net::IpAddr;

use clap::Args;
use tautline_audio::DeviceSpec;
use tautline_io::thread::Scheduler;
use tautline_proto::device::Stop;
use tautline_proto::time::Span;
use tautline_proto::units::Rate;
use tautline_ui::failure::{Failure, on_one_line};
use tautline_ui::readers::{parse, rate, span};
use tautline_ui::screen;

use crate::answer::{Answer, Reporting};
use crate::cases::Cases;
use crate::hosts::{HostError, HostPlace, LabHost};
use crate::loadgen::BusyHost;
use crate::report::ReportRow;
use crate::streams::{LabStream, MAX_UNSURE, StreamEnds};

/// Host and address of the receiver.
#[derive(Debug, Args)]
pub(crate) struct FarEnd {
    /// Receiver's host: local, netns:NAME, ssh:HOST
    ///
    /// The host must have the same version of `taut`.
    #[arg(long, value_name = "PLACE", default_value = "local", help_heading = "Hosts")]
    pub(crate) with: HostPlace,
    /// Address of the receiver [default: detected]
    #[arg(long, value_name = "IP", help_heading = "Hosts", hide_short_help = true)]
    pub(crate) at: Option<IpAddr>,
}

/// Required certainty of the clocks of two hosts.
#[derive(Debug, Args)]
pub(crate) struct ClockFlags {
    /// Between two clocks, reject rows whose median is less certain than this [default: 250us]
    #[arg(long, value_name = "TIME", value_parser = span, help_heading = "Hosts",
          hide_short_help = true)]
    max_uncertainty: Option<Span>,
}

impl ClockFlags {
    pub(crate) fn maximum(&self) -> Span {
        self.max_uncertainty.unwrap_or(MAX_UNSURE)
    }

    /// Default none: misses need no clock.
    pub(crate) const fn requested(&self) -> Option<Span> {
        self.max_uncertainty
    }
}

/// Options of every experiment that sends a stream.
#[derive(Debug, Args)]
pub(crate) struct StreamFlags {
    #[command(flatten)]
    pub(crate) far: FarEnd,
    #[command(flatten)]
    pub(crate) clocks: ClockFlags,
    /// Device of the sender [default: noise on a virtual card]
    #[arg(long, short, value_name = "DEVICE", value_parser = device, help_heading = "Devices")]
    pub(crate) input: Option<String>,
    /// Device of the receiver [default: a virtual card]
    #[arg(long, short, value_name = "DEVICE", value_parser = device, help_heading = "Devices")]
    pub(crate) output: Option<String>,
    /// Sample rate
    #[arg(long, value_name = "HZ", default_value = "48000", value_parser = rate,
          help_heading = "Devices", hide_short_help = true)]
    pub(crate) rate: Rate,
    /// Priority of the device threads
    #[arg(long, value_name = "CLASS", help_heading = "Devices", hide_short_help = true)]
    pub(crate) scheduler: Option<Scheduler>,
    /// Time before packets count, at least 1s
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = settle,
          help_heading = "Run", hide_short_help = true)]
    pub(crate) settle: Span,
    /// Time during which packets count, per row
    #[arg(long, value_name = "TIME", default_value = "12s", value_parser = span,
          help_heading = "Run")]
    pub(crate) duration: Span,
    #[command(flatten)]
    pub(crate) reporting: Reporting,
}

/// Load of the receiver's host, if any.
#[derive(Debug, Args)]
pub(crate) struct BusyFlags {
    /// Load of the receiver's host: spin, spin:N, stress-ng:… [default: none]
    ///
    /// spin starts one busy thread per core, spin:N starts N. stress-ng gets its options with their
    /// values, such as stress-ng:cpu,4.
    #[arg(long, value_name = "LOAD", help_heading = "Run")]
    pub(crate) load: Option<BusyHost>,
}

/// Packet and period length.
#[derive(Debug, Args)]
pub(crate) struct BlockSizes {
    /// Packet time
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = span,
          help_heading = "Stream")]
    pub(crate) ptime: Span,
    /// Device period in frames
    #[arg(long, value_name = "FRAMES", default_value_t = 48, help_heading = "Stream",
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) period: u32,
}

/// Shape of the one stream that an experiment sends.
#[derive(Debug, Args)]
pub(crate) struct StreamShape {
    #[command(flatten)]
    pub(crate) blocks: BlockSizes,
    /// Latency from capture to playback
    #[arg(long, value_name = "TIME", default_value = "5ms", value_parser = span,
          help_heading = "Stream")]
    pub(crate) latency: Span,
}

pub(crate) const ANY_UNCERTAINTY: &str = "Between two clocks, reject rows whose median is less \
                                          certain than this [default: any, as misses decide]";

/// Checked early, as another program opens the device.
fn device(text: &str) -> Result<String, String> {
    parse::<DeviceSpec>(text).map(|_| text.to_owned())
}

fn settle(text: &str) -> Result<Span, String> {
    match span(text)? {
        settle if settle >= Span::from_secs(1) => Ok(settle),
        _ => Err(format!("invalid time '{text}': must be at least 1s")),
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
            max_uncertainty: Some(self.clocks.maximum()),
            ..LabStream::default()
        }
    }

    pub(crate) fn in_blocks(&self, blocks: &BlockSizes) -> LabStream {
        LabStream { ptime: blocks.ptime, period: blocks.period, ..self.plan() }
    }

    pub(crate) fn shaped(&self, shape: &StreamShape) -> Result<LabStream, Failure> {
        let plan = LabStream { latency: shape.latency, ..self.in_blocks(&shape.blocks) };
        if plan.latency < plan.min_accepted(self.rate) {
            let needs = plan.needs(self.rate);
            return Err(Failure::usage(format!(
                "--latency {} is too short: {needs}\nhint: use --latency {} or more, or a shorter --ptime or --period",
                plan.latency,
                needs.total()
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

/// Runs an experiment with this machine as sender, and outputs its report. Without an end, the
/// report is an invalid row.
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
    if answer.notifies() {
        ends.notify_ending(|left| screen::notify(&ending(left)));
    }
    let mut notify = |row: &ReportRow| {
        words(row).iter().for_each(|words| answer.notify(words));
        !answer.stop.is_requested()
    };
    let mut cases = Cases::of(experiment, &mut notify);
    run(&mut ends, &mut cases, &answer);
    let Cases { mut report, unanswered, .. } = cases;
    report.hosts = ends.descriptions();
    answer.give_unless(unanswered, report)
}

/// Both agents, or the unavailable place.
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
        "stopping after this stream, in at most {seconds} s; Ctrl-C again stops immediately, without \
         a report"
    )
}

pub(crate) fn line(row: &ReportRow) -> String {
    let found = match (&row.invalid, crate::report::text::measured(row)) {
        (Some(why), _) => format!("invalid: {}", on_one_line(why)),
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
    fn few_values_are_shown_with_the_misses() {
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
