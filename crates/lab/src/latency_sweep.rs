//! Measured against configured latency, from high to low.
//!
//! The ten tests of table 2.1 of a 2020 thesis on a networked audio pipeline, and tests with lower
//! latencies. The link offset left by blocks and devices is reported as the network's.

mod modes;

use clap::Args;
use tautline_proto::time::Span;
use tautline_ui::failure::Failure;

use crate::loadgen::{BusyHost, Noise, TcpRate};
use crate::report::ReportRow;
use crate::runner::{BusyFlags, StreamFlags, counted_down, line};
pub use modes::{RUNGS, SweepCase};

const SHORT_HELP: &str = r#"Examples:
  taut lab latency-sweep --with ssh:studio --report-file sweep.html
  taut lab latency-sweep --only "test 10" --load spin

All options and details: taut lab latency-sweep --help"#;

const HELP: &str = r#"Examples:
  # On this machine alone, the ten latencies of the thesis and four lower ones:
  taut lab latency-sweep
  # To another machine, via ssh without a password, with a page at the end:
  taut lab latency-sweep --with ssh:studio --report-file sweep.html
  # One case, between two network namespaces of one machine:
  taut lab latency-sweep --only "test 10" --with netns:far --duration 60s
  # The same with the network traffic of the thesis, and without the part that
  # programs handle:
  taut lab latency-sweep --only "test 10" --with ssh:studio --noise silent \
      --noise noisy --noise unhandled
  # While every core of the receiver's host is busy:
  taut lab latency-sweep --only "1 ms" --load spin

Each row runs `taut send` and `taut recv` as a user would, and measures every
packet in the sound, from capture to DAC. The configured latency includes the
period that the thesis had in addition. Misses have an upper bound of their
long-run share, with 95 % confidence. A row is invalid if the clock uncertainty
between two hosts exceeds --max-uncertainty, or if a clock was set during it."#;

/// `taut lab latency-sweep`
#[derive(Debug, Args)]
#[command(after_help = SHORT_HELP, after_long_help = HELP)]
pub struct LatencySweepFlags {
    /// Only this case, such as `test 10`; repeatable
    #[arg(long, value_name = "NAME", value_parser = case, help_heading = "Run")]
    only: Vec<SweepCase>,
    /// Other traffic: silent, noisy or unhandled; repeatable
    ///
    /// noisy is multicast that no program reads, and small packets that a program reads; unhandled
    /// is the multicast alone.
    #[arg(long, value_name = "NOISE", default_value = "silent", help_heading = "Network")]
    noise: Vec<Noise>,
    /// Rate of TCP with noise, such as 100Mbit, or full [default: no TCP]
    #[arg(long, value_name = "RATE", help_heading = "Network")]
    tcp_rate: Option<TcpRate>,
    #[command(flatten)]
    busy: BusyFlags,
    #[command(flatten)]
    streams: StreamFlags,
}

fn case(text: &str) -> Result<SweepCase, String> {
    let found = RUNGS.into_iter().find(|case| case.name == text);
    found.ok_or_else(|| {
        let names = RUNGS.map(|case| format!("`{}` ({})", case.name, case.latency)).join(", ");
        format!("unknown case '{text}'\nhint: the cases are {names}")
    })
}

pub(crate) fn run(flags: &LatencySweepFlags) -> Result<(), Failure> {
    let modes = if flags.only.is_empty() { &RUNGS[..] } else { &flags.only };
    let noises: Vec<_> = flags.noise.iter().map(|noise| noise.and_tcp(flags.tcp_rate)).collect();
    let (plan, load) = (flags.streams.plan(), flags.busy.load.as_ref());
    let words = counted_down(modes.len() * noises.len(), line);
    flags.streams.run("latency-sweep", words, |ends, cases, _| {
        for (case, noise) in
            modes.iter().flat_map(|case| noises.iter().map(move |noise| (case, *noise)))
        {
            let name = match noise {
                Noise::SILENT => case.to_string(),
                noise => format!("{case}, {noise}"),
            };
            let name = BusyHost::named(load, name);
            cases.run(&name, ends, |ends| {
                let plan = case.plan(&plan);
                let (outcome, alongside) =
                    BusyHost::around_if(load, ends, &plan, |ends| noise.around(ends, &plan))?;
                let mut row = judged(outcome.row(&name), case, plan.rate);
                // The published values had only network load.
                row.published = load.map_or_else(|| case.published(noise), |_| Vec::new());
                alongside.notify(&mut row);
                Ok(row)
            });
        }
        cases.note(REST);
    })
}

const REST: &str = "measured minus configured is within a frame if it is at most a frame plus the \
                    uncertainty of the median, in either direction";

fn judged(mut row: ReportRow, case: &SweepCase, rate: u32) -> ReportRow {
    row.add("period_ns", "period", case.period.as_nanos());
    row.add("ptime_ns", "ptime", case.ptime.as_nanos());
    row.add("left_for_network_ns", "for the network", case.left_for_network().as_nanos());
    write_rest(&mut row, rate);
    row
}

pub(crate) fn write_rest(row: &mut ReportRow, rate: u32) {
    let middle = row.measured.as_ref().and_then(|measured| measured.p50_ns);
    if let (Some(middle), Some(configured)) = (middle, row.configured) {
        let rest = middle - configured.as_nanos();
        let frame = 1_000_000_000 / i64::from(rate.max(1));
        let maximum = frame + row.uncertainty.map_or(0, Span::as_nanos);
        row.add("rest_ns", "measured minus configured", rest);
        row.add("within_a_frame", "within a frame", rest.abs() <= maximum);
    }
}
