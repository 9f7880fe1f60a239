//! Cost of measuring every packet, one in 64, or none; and of the stall monitor.

use clap::Args;
use tautline_proto::time::Span;
use tautline_ui::failure::Failure;

use crate::hosts::HostError;
use crate::report::ReportRow;
use crate::runner::{StreamFlags, StreamShape};
use crate::statistics::{MIN, Series, compare, median};
use crate::streams::{LabStream, StreamEnds, StreamOutcome};

const SHORT_HELP: &str = r#"Examples:
  taut lab overhead --rounds 16 --duration 30s

All options and details: taut lab overhead --help"#;

const HELP: &str = r#"Examples:
  # Eight runs of each kind on this machine, in turn:
  taut lab overhead
  # Longer runs, for a smaller uncertainty:
  taut lab overhead --rounds 16 --duration 30s

CPU time of sender and receiver per period of sound: with nothing measured, with
one packet in 64, with every packet, and with the stall monitor in addition. The
added cost is reported with its 95 % interval."#;

const LATENCIES_UNCERTAINTY: &str = "Between two clocks, omit latencies whose median is less \
                                     certain than this [default: 250us]";

/// `taut lab overhead`
#[derive(Debug, Args)]
#[command(after_help = SHORT_HELP, after_long_help = HELP, mut_arg("max_uncertainty", |arg| arg.help(LATENCIES_UNCERTAINTY)))]
pub struct OverheadFlags {
    /// Number of runs of each kind
    #[arg(long, value_name = "N", default_value_t = 8, help_heading = "Run",
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    #[command(flatten)]
    shape: StreamShape,
    #[command(flatten)]
    streams: StreamFlags,
}

const KINDS: [(&str, &[&str]); 4] = [
    ("nothing measured", &["--sample-packets", "off", "--no-stall-monitor"]),
    ("1 of 64", &["--sample-packets", "64", "--no-stall-monitor"]),
    ("every packet", &["--sample-packets", "all", "--no-stall-monitor"]),
    ("every packet, and the stall monitor", &["--sample-packets", "all"]),
];

/// Alternates the order by round: slow changes of the machine cancel out.
pub(crate) fn run(flags: &OverheadFlags) -> Result<(), Failure> {
    let (plan, rounds) = (flags.streams.shaped(&flags.shape)?, flags.rounds);
    flags.streams.run(
        "overhead",
        |_| None,
        |ends, cases, answer| {
            cases.note(NOTE);
            let mut found: [Vec<(u32, OverheadRun)>; 4] = Default::default();
            let mut invalid: [Option<String>; 4] = Default::default();
            'rounds: for round in 0..rounds {
                let mut order: Vec<usize> = (0..KINDS.len()).collect();
                if round % 2 == 1 {
                    order.reverse();
                }
                for kind in order {
                    let (name, words) = KINDS[kind];
                    let name = format!("{name}, round {} of {rounds}", round + 1);
                    let Some(arrived) = cases.attempt(&name, ends, |ends| one(ends, &plan, words))
                    else {
                        break 'rounds;
                    };
                    match arrived.unwrap_or_else(|error| Err(error.to_string())) {
                        Ok(run) => found[kind].push((round, run)),
                        Err(why) => {
                            cases.note(format!("{name}: {why}"));
                            invalid[kind] = Some(why);
                        }
                    }
                    // A stop after this message applies to the next stream.
                    let goes_on = !answer.stop.is_requested();
                    answer.notify(&name);
                    cases.requested(goes_on, &name);
                }
            }
            let times = found.each_ref().map(|runs| by_round(runs, |run| Some(run.per_period)));
            let middles = found.each_ref().map(|runs| by_round(runs, OverheadRun::known));
            if times.iter().any(|runs| (1..MIN).contains(&runs.len())) {
                cases.note(format!(
            "fewer than {MIN} rounds give no interval: the added cost may be chance; use more \
             --rounds"
        ));
            }
            let unknown = found.iter().flatten().find_map(|(_, run)| run.latency.as_ref().err());
            if let Some(why) = unknown {
                cases.note(format!("latencies omitted: {why}"));
            }
            for (kind, (name, _)) in KINDS.iter().enumerate() {
                let mut row = row(name, &times[kind], &times[0]);
                if kind == WITNESSED {
                    witness(&mut row, &times[kind], &times[WITNESSED - 1]);
                }
                latency(&mut row, &middles[kind], &middles[FEW]);
                row.invalid = row.invalid.map(|none| invalid[kind].take().unwrap_or(none));
                cases.report.rows.push(row);
            }
        },
    )
}

/// Kind of run that is the reference for latencies, as an unmeasured stream has none.
const FEW: usize = 1;
const WITNESSED: usize = 3;
const NOTE: &str = "CPU time is the stream's while packets count, without program start and end; \
                    an unmeasured stream has no latency, so median latencies are compared with \
                    the stream that measures one packet in 64";

struct OverheadRun {
    per_period: f64,
    /// Median in ns, if measured, or why it is unusable.
    latency: Result<Option<f64>, String>,
}

impl OverheadRun {
    fn known(&self) -> Option<f64> {
        self.latency.as_ref().ok().copied().flatten()
    }
}

fn median_of(outcome: &StreamOutcome) -> Result<Option<f64>, String> {
    let stream = outcome.received.streams.first();
    let latency = stream.and_then(|one| one.latency.measured.p50_ns).map(|nanos| nanos as f64);
    // Without a latency, the clock offset does not matter.
    match latency.and_then(|_| outcome.untimely(None)) {
        Some(why) => Err(why),
        None => Ok(latency),
    }
}

fn by_round(
    runs: &[(u32, OverheadRun)],
    figure: impl Fn(&OverheadRun) -> Option<f64>,
) -> Vec<(u32, f64)> {
    runs.iter().filter_map(|(round, run)| Some((*round, figure(run)?))).collect()
}

fn values(runs: &[(u32, f64)]) -> Vec<f64> {
    runs.iter().map(|(_, value)| *value).collect()
}

/// Paired by round, with 95 % interval; `None` without pairs.
fn added(base: &[(u32, f64)], more: &[(u32, f64)]) -> Option<(f64, [f64; 2])> {
    let of = |round: u32| base.iter().find(|(other, _)| *other == round);
    let differences: Vec<f64> =
        more.iter().filter_map(|(round, value)| Some(value - of(*round)?.1)).collect();
    (!differences.is_empty()).then(|| {
        let against = compare(&vec![0.0; differences.len()], &differences, 0.0);
        (against.difference, against.interval)
    })
}

fn latency(row: &mut ReportRow, middles: &[(u32, f64)], few: &[(u32, f64)]) {
    if middles.is_empty() {
        return;
    }
    row.add("latency_p50_ns", "latency, median", median(&values(middles)).round() as i64);
    if let Some((more, interval)) = added(few, middles) {
        row.add("latency_added_ns", "more than for 1 in 64", more.round() as i64);
        between(row, ["latency_added_low_ns", "latency_added_high_ns"], interval);
    }
}

fn one(
    ends: &mut StreamEnds,
    plan: &LabStream,
    probes: &[&str],
) -> Result<Result<OverheadRun, String>, HostError> {
    let more = probes.iter().map(|word| (*word).to_owned());
    let mut plan = LabStream { ledgers: false, ..plan.clone() };
    plan.send.extend(more.clone());
    plan.recv.extend(more);
    let outcome = ends.run(&plan)?;
    if let Some(why) = &outcome.refused {
        return Ok(Err(why.clone()));
    }
    let period = f64::from(plan.period) / f64::from(plan.rate) * 1e9;
    let latency = median_of(&outcome);
    let [Some(sender), Some(receiver)] = outcome.used else {
        return Ok(Err(
            "cannot read the CPU time of its programs\nhint: the kernel needs CONFIG_SCHED_INFO"
                .into(),
        ));
    };
    let per_period =
        [sender, receiver].iter().map(|used| used.percent(used.cpu) / 100.0 * period).sum();
    Ok(Ok(OverheadRun { per_period, latency }))
}

fn witness(row: &mut ReportRow, times: &[(u32, f64)], without: &[(u32, f64)]) {
    if let Some((more, interval)) = added(without, times) {
        row.add("stall_monitor_ns", "of that the stall monitor", more.round() as i64);
        between(row, ["stall_monitor_low_ns", "stall_monitor_high_ns"], interval);
    }
}

fn between(row: &mut ReportRow, keys: [&'static str; 2], [low, high]: [f64; 2]) {
    if low.is_finite() && high.is_finite() {
        row.add(keys[0], "at least", low.round() as i64);
        row.add(keys[1], "at most", high.round() as i64);
    }
}

fn row(name: &str, times: &[(u32, f64)], base: &[(u32, f64)]) -> ReportRow {
    if times.is_empty() {
        return ReportRow::invalid(name, "stopped before its first run");
    }
    let mut series = Series::with_room(times.len());
    for (round, time) in times {
        let due = tautline_proto::time::LocalTime::ZERO + Span::from_secs(i64::from(*round));
        series.push(due, Span::from_nanos(*time as i64));
    }
    let mut row = ReportRow { of_rounds: true, ..ReportRow::named(name).with(&series) };
    if let Some((more, interval)) = added(base, times) {
        let middle = median(&values(base));
        row.add("added_ns", "added to a period", more.round() as i64);
        row.add("added_percent", "of the stream's CPU, %", 100.0 * more / middle);
        between(&mut row, ["added_low_ns", "added_high_ns"], interval);
    }
    row
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use super::*;
    use crate::report::LabReport;
    use crate::streams::MAX_UNSURE;
    use crate::streams::tests::between_two;

    #[test]
    fn measured_overhead_has_its_interval() {
        let base: Vec<_> = (0..12).map(|run| (run, 10_000.0 + 400.0 * f64::from(run))).collect();
        let added = |(run, time): &(u32, f64)| (*run, time + 150.0 + f64::from(run % 2));
        let mut more: Vec<_> = base.iter().map(added).collect();
        more.push((12, 1e6));
        let row = row("every packet", &more, &base);
        let figure =
            |key| row.figures.iter().find(|figure| figure.key == key).unwrap().value.clone();
        let reported = figure("added_ns").as_i64().unwrap();
        assert!((150..=151).contains(&reported), "{reported}");
        assert!((figure("added_percent").as_f64().unwrap() - 1.23).abs() < 0.01);
        let [low, high] =
            ["added_low_ns", "added_high_ns"].map(|key| figure(key).as_i64().unwrap());
        assert!(
            low >= 150 && low <= reported && reported <= high && high <= 151,
            "{low} to {high}"
        );
        assert_eq!(row.measured.unwrap().count, 13);
    }

    #[test]
    fn rounds_are_shown_without_the_spread_of_packets() {
        let rounds: Vec<_> = (0..8).map(|run| (run, 10_000.0 + f64::from(run))).collect();
        let mut report = LabReport::asking("overhead");
        report.rows = vec![row("1 of 64", &rounds, &[]), row("every packet", &rounds, &rounds)];
        let text = report.to_string();
        let head = text.lines().find(|line| line.contains("measured")).unwrap();
        assert!(head.contains("rounds"), "{text}");
        for misread in ["min", "p99", "max", "count"] {
            assert!(!head.contains(misread), "{misread}: {text}");
        }
        assert!(!text.contains("needs at least 1000 values"), "{text}");
    }

    #[test]
    fn latency_is_compared_with_that_of_sampled_packets() {
        let mut row = ReportRow::named("every packet");
        let middles = [(0, 5_000_900.0), (1, 5_000_700.0), (2, 5_000_800.0)];
        latency(&mut row, &middles, &[(2, 5_000_000.0)]);
        let reported: Vec<_> = row.figures.iter().map(|one| (one.key, one.value.clone())).collect();
        let known = [("latency_p50_ns", 5_000_800.into()), ("latency_added_ns", 800.into())];
        assert_eq!(reported, known);
        let mut none = ReportRow::named("nothing measured");
        latency(&mut none, &[], &[(0, 5_000_000.0)]);
        assert!(none.figures.is_empty());
    }

    #[test]
    fn stall_monitor_cost_is_separate_from_measuring_cost() {
        let measured: Vec<_> = (0..12).map(|run| (run, 10_100.0 + f64::from(run % 3))).collect();
        let watched: Vec<_> = measured.iter().map(|(run, time)| (*run, time + 40.0)).collect();
        let mut row = ReportRow::named("every packet, and the stall monitor");
        witness(&mut row, &watched, &measured);
        let reported: Vec<_> = row.figures.iter().map(|one| one.key).collect();
        assert_eq!(reported, ["stall_monitor_ns", "stall_monitor_low_ns", "stall_monitor_high_ns"]);
        assert_eq!(row.figures[0].value, 40);
        let mut none = ReportRow::named("every packet, and the stall monitor");
        witness(&mut none, &watched, &[]);
        assert!(none.figures.is_empty());
    }

    #[test]
    fn latency_with_uncertain_clocks_is_omitted_with_a_reason() {
        let mut outcome = between_two(MAX_UNSURE + Span::from_micros(1));
        assert_eq!(median_of(&outcome), Ok(None));
        outcome.received.streams[0].latency.measured.p50_ns = Some(5_000_000);
        let why = median_of(&outcome).unwrap_err();
        snapshot!(why);
        let mut sure = between_two(MAX_UNSURE);
        sure.received.streams[0].latency.measured.p50_ns = Some(5_000_000);
        assert_eq!(median_of(&sure), Ok(Some(5e6)));
    }

    #[test]
    fn a_kind_that_never_ran_is_void() {
        assert!(row("1 of 64", &[], &[(0, 1.0)]).invalid.is_some());
    }
}
