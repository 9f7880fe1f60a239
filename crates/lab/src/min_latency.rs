//! Minimum latency without loss: increases until a run passes, then bisects and holds.

mod search;
#[cfg(test)]
mod tests;

use clap::Args;
use tautline_proto::stream::LONGEST_LINK_OFFSET;
use tautline_proto::time::Span;
use tautline_proto::units::Rate;
use tautline_ui::failure::Failure;
use tautline_ui::readers::span;

use crate::cases::{CaseHosts, Cases};
use crate::compare::MIN;
use crate::hosts::HostError;
use crate::latency_sweep::write_rest;
use crate::loadgen::BusyHost;
use crate::report::text::share;
use crate::report::{LabReport, ReportRow};
use crate::runner::{ANY_UNCERTAINTY, BlockSizes, BusyFlags, StreamFlags, line};
use crate::streams::{LabStream, StreamOutcome};
pub use search::{FROZEN_TRIES, LatencySearch, LatencyTry, SearchResult, TryVerdict, XRUN_TRIES};

const SHORT_HELP: &str = r#"Examples:
  taut lab min-latency --with ssh:studio --output alsa:hw:0 --hold 600s

All options and details: taut lab min-latency --help"#;

const HELP: &str = r#"Examples:
  # On this machine, in periods and packets of a millisecond:
  taut lab min-latency
  # To another machine's card, held for ten minutes, with a page at the end:
  taut lab min-latency --with ssh:studio --output alsa:hw:0 --hold 600s \
      --report-file min.html
  # In shorter periods, while every core of the receiver's host is busy:
  taut lab min-latency --period 32 --ptime 667us --load spin
  # In coarse steps from 20 ms on, over Wi-Fi:
  taut lab min-latency --with ssh:laptop --first 20ms --step 5ms \
      --max-latency 400ms

The latency increases, with --duration each, until a run passes: first by
--step, then by more and more steps. Then the interval is bisected down to one
step. The result is held for --hold, and increased if that fails. A run passes
if after --settle no packet is late, lost or discarded and no device has an
xrun. `taut recv --latency auto --loss-target 0.1%` permits a share of late
packets instead. A try is repeated, at most twice, if packets were missed
while a host stalled, or if only xruns failed: no latency prevents those, so
xruns in three tries end the search. The report begins with the minimum. Its row
is the last one, with the misses one step below it."#;

/// `taut lab min-latency`
#[derive(Debug, Args)]
#[command(after_help = SHORT_HELP, after_long_help = HELP, mut_arg("max_uncertainty", |arg| arg.help(ANY_UNCERTAINTY)))]
pub struct MinLatencyFlags {
    /// Step between latencies
    #[arg(long, value_name = "TIME", default_value = "100us", value_parser = step,
          help_heading = "Run")]
    step: Span,
    /// First latency [default: the minimum for packets and buffers]
    #[arg(long, value_name = "TIME", value_parser = span, help_heading = "Run")]
    first: Option<Span>,
    /// Maximum latency
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = max_latency,
          help_heading = "Run")]
    max_latency: Span,
    /// Duration of the final hold
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = span,
          help_heading = "Run")]
    hold: Span,
    #[command(flatten)]
    busy: BusyFlags,
    #[command(flatten)]
    blocks: BlockSizes,
    /// Periods in each device buffer
    #[arg(long, value_name = "N", default_value_t = 2, help_heading = "Stream",
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    periods: u32,
    #[command(flatten)]
    streams: StreamFlags,
}

fn step(text: &str) -> Result<Span, String> {
    match span(text)? {
        step if step >= Span::from_micros(1) => Ok(step),
        _ => Err(format!("invalid step '{text}': must be at least 1us")),
    }
}

fn max_latency(text: &str) -> Result<Span, String> {
    match span(text)? {
        max_latency if max_latency <= LONGEST_LINK_OFFSET => Ok(max_latency),
        _ => Err(format!("must be at most {LONGEST_LINK_OFFSET}")),
    }
}

/// Time to start and end both programs.
const START: Span = Span::from_secs(2);
/// The interval doubles, and is then bisected.
const MAX_TRIES_PER_DOUBLING: u32 = 2;
const FEWEST_TRIES: u32 = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MinLatencyOptions {
    pub first: Span,
    pub step: Span,
    pub max_latency: Span,
    pub hold: Span,
}

impl MinLatencyOptions {
    fn steps(&self) -> u32 {
        let (way, step) = ((self.max_latency - self.first).as_nanos(), self.step.as_nanos().max(1));
        let steps = way.div_euclid(step) + i64::from(way.rem_euclid(step) > 0);
        u32::try_from(steps).unwrap_or(0)
    }

    /// Longest duration of the search, unless tries are repeated or the hold fails.
    fn expected(&self, plan: &LabStream) -> String {
        let each = plan.settle + plan.duration + START;
        let tries = MAX_TRIES_PER_DOUBLING * self.steps().max(1).ilog2() + FEWEST_TRIES;
        let all = each.times(i64::from(tries)) + plan.settle + self.hold + START;
        let minutes = all.as_nanos().div_euclid(60_000_000_000) + 1;
        format!(
            "at most {tries} tries of {each}, then a hold of {}: up to {minutes} min, unless tries \
             are repeated or the hold fails",
            self.hold
        )
    }

    fn latency(&self, steps: u32) -> Span {
        (self.first + self.step.times(i64::from(steps))).min(self.max_latency)
    }
}

pub fn whole_steps(minimum: Span, step: Span) -> Span {
    let step = step.as_nanos().max(1);
    Span::from_nanos(step * (minimum.as_nanos() + step - 1).div_euclid(step))
}

/// Packets and the receiver's device buffer: the search finds the network's part.
pub fn taken(rate: Rate, plan: &LabStream) -> Span {
    plan.needs(rate).without_network()
}

pub(crate) fn run(flags: &MinLatencyFlags) -> Result<(), Failure> {
    let max_uncertainty = flags.streams.clocks.requested();
    let blocks = flags.streams.in_blocks(&flags.blocks);
    let plan = LabStream { periods: flags.periods, max_uncertainty, ..blocks };
    let (options, load) = (options(flags, &plan)?, flags.busy.load.as_ref());
    let words = |row: &ReportRow| Some(format!("{}{}", line(row), result(row)));
    flags.streams.run("min-latency", words, |ends, cases, answer| {
        answer.notify(&options.expected(&plan));
        let tries = tries(cases, ends, (&plan, options), |ends, plan| {
            BusyHost::around_if(load, ends, plan, |ends| ends.run(plan))
        });
        let over = cases.is_over();
        tries.notify(&mut cases.report, options, over);
        if !cases.report.rows.iter().any(|row| row.name == MIN) && !answer.stop.is_requested() {
            let why = cases.report.answer.as_ref().or(cases.report.notes.last());
            cases.unanswered = why.cloned();
        }
    })
}

fn result(row: &ReportRow) -> String {
    let result = row.figures.iter().find(|figure| figure.key == "result");
    let word = result.and_then(|figure| figure.value.as_str());
    word.filter(|_| row.invalid.is_none()).map_or(String::new(), |word| format!(", {word}"))
}

fn options(flags: &MinLatencyFlags, plan: &LabStream) -> Result<MinLatencyOptions, Failure> {
    let MinLatencyFlags { step, max_latency, hold, .. } = *flags;
    let taken = taken(flags.streams.rate, plan);
    let first = flags.first.unwrap_or_else(|| whole_steps(taken, step));
    let greater = match () {
        () if first < taken => "--first",
        () if first > max_latency => "--max-latency",
        () => {
            refuse_longer_than_noise(plan, hold)?;
            return Ok(MinLatencyOptions { first, step, max_latency, hold });
        }
    };
    Err(Failure::usage(format!(
        "no latency to try from {first} to {max_latency}: packets and the receiver's buffer take \
         {taken}\nhint: use a greater {greater}, or a shorter --ptime or --period"
    )))
}

/// Fails early, before the search.
fn refuse_longer_than_noise(plan: &LabStream, hold: Span) -> Result<(), Failure> {
    match (LabStream { duration: hold, ..plan.clone() }).outlasts_noise() {
        false => Ok(()),
        true => Err(Failure::usage(format!(
            "cannot hold for {hold}: generated noise lasts at most an hour, including --settle \
             and 3 s\nhint: use a shorter --hold, or set --input"
        ))),
    }
}

#[derive(Default)]
struct Tries {
    search: LatencySearch,
    failed: Vec<(u32, String)>,
    held: Option<String>,
    failed_holds: u32,
    /// Tries repeated because of misses during stalls.
    frozen_holds: Vec<u32>,
    repeated: u32,
}

fn tries<H: CaseHosts>(
    cases: &mut Cases<'_>,
    hosts: &mut H,
    (plan, options): (&LabStream, MinLatencyOptions),
    carry: impl Fn(&mut H, &LabStream) -> Result<StreamOutcome, HostError>,
) -> Tries {
    let search = LatencySearch::new(options.steps());
    let mut tries = Tries { search, ..Tries::default() };
    let mut number = 1;
    while let Some(next) = tries.search.next() {
        let latency = options.latency(next.steps);
        let duration = if next.held { options.hold } else { plan.duration };
        let plan = LabStream { latency, duration, ..plan.clone() };
        let name = named(latency, next.held, number);
        let Some(arrived) = cases.attempt(&name, hosts, |hosts| carry(hosts, &plan)) else { break };
        let seen = judged(arrived, &plan, &name);
        let verdict = tries.search.tried(seen.finding);
        number = if verdict == TryVerdict::Again { number + 1 } else { 1 };
        cases.row(tries.take(next, verdict, seen));
    }
    tries
}

impl Tries {
    fn take(&mut self, next: LatencyTry, verdict: TryVerdict, seen: MeasuredTry) -> ReportRow {
        let MeasuredTry { mut row, finding, lacked } = seen;
        if next.held {
            match verdict {
                TryVerdict::Fails | TryVerdict::Unknown => self.failed_holds += 1,
                TryVerdict::Again if matches!(finding, SearchResult::Frozen { .. }) => {
                    self.frozen_holds.push(next.steps);
                }
                _ => {}
            }
        }
        let result = match verdict {
            TryVerdict::Goes => "no loss",
            _ if finding == SearchResult::Xruns => "xruns",
            TryVerdict::Fails => "missed",
            _ => "host stalled",
        };
        if row.invalid.is_none() {
            row.add("result", "result", result);
        }
        match verdict {
            TryVerdict::Goes if next.held => self.held = Some(row.name.clone()),
            TryVerdict::Fails => self.failed.push((next.steps, lacked)),
            TryVerdict::Unknown => {
                let why = format!("unknown: the host stalled in each of {FROZEN_TRIES} tries");
                self.failed.push((next.steps, why));
            }
            TryVerdict::Again => self.repeated += 1,
            TryVerdict::GivesUp if finding == SearchResult::Xruns => {
                self.failed.push((next.steps, lacked));
            }
            TryVerdict::Goes | TryVerdict::GivesUp => {}
        }
        // The page shows packets only of holds.
        if !next.held {
            row.points.clear();
        }
        row
    }

    fn notify(&self, report: &mut LabReport, options: MinLatencyOptions, over: bool) {
        if self.repeated > 0 {
            report.notes.push(format!(
                "repeated tries (host stalled, only xruns, or invalid): {}",
                self.repeated
            ));
        }
        match (self.search.minimum(), &self.held) {
            (Some(steps), Some(held)) => self.write_min(report, options, (steps, held)),
            _ if over => {}
            _ => report.answer = Some(self.why_unknown(options)),
        }
    }

    fn write_min(
        &self,
        report: &mut LabReport,
        options: MinLatencyOptions,
        (steps, held): (u32, &str),
    ) {
        let Some(at) = report.rows.iter().position(|row| row.name == held) else { return };
        let mut row = report.rows.remove(at);
        MIN.clone_into(&mut row.name);
        let below = steps.checked_sub(1);
        let missed = below.map(|below| {
            let of_it = |(steps, _): &&(u32, String)| *steps == below;
            self.failed.iter().rfind(of_it).map_or("", |(_, why)| why)
        });
        let below = below.map(|below| options.latency(below));
        row.add("below_ns", "one step below", below.map(Span::as_nanos));
        row.add("below_missed", "missed there", missed);
        let below = match below.zip(missed) {
            Some((latency, missed)) => format!("one step below, at {latency}: {missed}"),
            None => "lower latencies were not tried: this is --first, or the minimum for packets \
                     and the receiver's buffer in whole steps"
                .to_owned(),
        };
        let (due, max_latency) = row.missed.map_or((0, 1.0), |missed| (missed.due, missed.at_most));
        report.answer = Some(format!(
            "minimum {}: no misses in {due} packets ({}), so at most {} in the long run (95 % \
             confidence, if misses are independent){}; {below}",
            options.latency(steps),
            options.hold,
            share(max_latency),
            self.left_out(steps)
        ));
        report.rows.push(row);
    }

    fn left_out(&self, steps: u32) -> String {
        let holds = |count: usize| format!("{count} hold{}", if count == 1 { "" } else { "s" });
        let mut left_out = String::new();
        let frozen = self.frozen_holds.iter().filter(|held| **held == steps).count();
        if frozen > 0 {
            left_out +=
                &format!(", not counting host stalls, in which {} had misses", holds(frozen));
        }
        if self.failed_holds > 0 {
            left_out += &format!(
                "; {} at lower latencies failed, so this one may have passed by luck",
                holds(self.failed_holds as usize)
            );
        }
        left_out
    }

    fn why_unknown(&self, options: MinLatencyOptions) -> String {
        match () {
            () if self.search.has_xruns() => self.only_xruns(options),
            () if self.search.gave_up() => {
                "search aborted: the last two rows are invalid; the minimum is unknown".to_owned()
            }
            () => self.none_went(options),
        }
    }

    fn only_xruns(&self, options: MinLatencyOptions) -> String {
        let (steps, why) = self.failed.last().map_or((0, ""), |(steps, why)| (*steps, &**why));
        format!(
            "search ended at {}: in {XRUN_TRIES} tries nothing failed but devices had xruns (last: {why}); a longer \
             latency does not prevent them, so the minimum is unknown\nhint: use more --periods, a longer --period, \
             or real-time priority (taut doctor)",
            options.latency(steps)
        )
    }

    fn none_went(&self, options: MinLatencyOptions) -> String {
        let max_latency = options.latency(options.steps());
        let why = self.failed.last().map_or("", |(_, why)| why);
        format!(
            "no latency up to {max_latency} passed (last: {why})\nhint: use a greater --max-latency"
        )
    }
}

fn named(latency: Span, held: bool, number: u32) -> String {
    let held = if held { ", held" } else { "" };
    match number {
        1 => format!("{latency}{held}"),
        number => format!("{latency}{held}, try {number}"),
    }
}

struct MeasuredTry {
    row: ReportRow,
    finding: SearchResult,
    lacked: String,
}

impl MeasuredTry {
    fn invalid(row: ReportRow) -> Self {
        Self { row, finding: SearchResult::Invalid, lacked: String::new() }
    }
}

fn judged(arrived: Result<StreamOutcome, HostError>, plan: &LabStream, name: &str) -> MeasuredTry {
    let outcome = match arrived {
        Ok(outcome) => outcome,
        Err(error) => return MeasuredTry::invalid(ReportRow::invalid(name, error.to_string())),
    };
    let mut row = outcome.row(name);
    // If all packets are late, an unmeasured row is valid.
    if outcome.is_unmeasured_by_misses(&row) {
        row.invalid = None;
    }
    if row.invalid.is_some() {
        return MeasuredTry::invalid(row);
    }
    write_rest(&mut row, plan.rate);
    let losses = outcome.losses(plan);
    for (key, words, count) in [
        ("late", "late", losses.late),
        ("lost", "lost", losses.lost),
        ("underrun_discarded", "discarded by underruns", losses.underrun_discarded),
        ("sender_xruns", "xruns while packets count, sender", losses.xruns[0]),
        ("receiver_xruns", "xruns while packets count, receiver", losses.xruns[1]),
        ("stalls", "stalls", losses.freezes),
    ] {
        row.add(key, words, count);
    }
    let finding = match losses.freezes {
        _ if losses.is_none() => SearchResult::Whole,
        0 if losses.are_of_xruns() => SearchResult::Xruns,
        0 => SearchResult::Missed,
        _ if losses.besides > 0 && losses.are_of_xruns() => SearchResult::Xruns,
        _ => SearchResult::Frozen { besides: losses.besides > 0 },
    };
    let due = row.missed.map_or(0, |missed| missed.due);
    MeasuredTry { row, finding, lacked: format!("{losses}; {due} packets were due") }
}
