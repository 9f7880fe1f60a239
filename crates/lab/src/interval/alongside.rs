//! Rows of a bare loop that sends the same stream, with the ratio to ours.

use std::collections::HashSet;

use tautline_engine::plan::pacing::PacingMode;
use tautline_io::thread::Scheduler;
use tautline_report::{Report, StreamReport};

use crate::report::ReportRow;
use crate::streams::{LabStream, StreamOutcome};

pub(super) fn looping(stream: &LabStream, mode: PacingMode, sent: &Report) -> LabStream {
    let device: Option<Scheduler> = sent.host.scheduler.parse().ok();
    let (format, channels) = sent
        .streams
        .first()
        .map_or(("", 0), |StreamReport { format, channels, .. }| (&**format, *channels));
    let words = [
        ("--pacing", mode.to_string()),
        ("--format", format.to_owned()),
        ("--channels", channels.to_string()),
        ("--rate", stream.rate.to_string()),
        ("--ptime", stream.ptime.to_string()),
        ("--period", stream.period.to_string()),
        ("--latency", stream.latency.to_string()),
        ("--scheduler", device.map_or(Scheduler::Other, Scheduler::one_below).to_string()),
    ];
    let head = ["lab", "loop"].map(str::to_owned).into_iter();
    let words = words.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]);
    LabStream { instead: Some(head.chain(words).collect()), ..stream.clone() }
}

/// Compares by due time: the loop sends no capture times.
pub(super) fn counted_of_loop(outcome: &StreamOutcome) -> HashSet<u32> {
    let begin = outcome.departures.first().map_or(0, |first| first.due);
    let after = |due: i64| due.saturating_sub(begin) >= outcome.settle.as_nanos();
    let counted = outcome.departures.iter().filter(|packet| after(packet.due));
    counted.map(|packet| packet.timestamp).collect()
}

type FigureRatio = (&'static str, &'static str, fn(&ReportRow) -> Option<i64>);

const INTERVALS: [FigureRatio; 2] = [
    ("stdev_ratio", "stdev, ours to this", |row| row.measured?.stdev_ns),
    ("spread_ratio", "p99.9 - p0.1, ours to this", |row| {
        row.figures.iter().find(|figure| figure.key == "spread_ns")?.value.as_i64()
    }),
];
const LATENESS: [FigureRatio; 2] = [
    ("p50_ratio", "p50, ours to this", |row| row.measured?.p50_ns),
    ("p99_ratio", "p99, ours to this", |row| row.measured?.p99_ns),
];

pub(super) fn compare(mode: PacingMode, ours: &[ReportRow], bare: &mut [ReportRow]) {
    let sleeps = mode == PacingMode::Sleep;
    let compared = if sleeps { &[INTERVALS, LATENESS][..] } else { &[INTERVALS] };
    for ((ours, bare), compared) in ours.iter().zip(bare).zip(compared) {
        for (key, words, figure) in compared {
            let ratio = ratio(figure(ours), figure(bare));
            bare.add(key, words, ratio);
        }
    }
}

/// Three decimals; `None` if unknown or the divisor is not positive.
fn ratio(ours: Option<i64>, bare: Option<i64>) -> Option<f64> {
    let (ours, bare) = (ours?, bare.filter(|bare| *bare > 0)?);
    Some((ours as f64 / bare as f64 * 1e3).round() / 1e3)
}

#[cfg(test)]
mod tests {
    use tautline_proto::time::{LocalTime, Span};

    use super::*;
    use crate::statistics::Series;

    fn row(values: impl Iterator<Item = i64>, spread: Option<i64>) -> ReportRow {
        let mut series = Series::with_room(1000);
        values.for_each(|nanos| series.push(LocalTime::ZERO, Span::from_nanos(nanos)));
        let mut row = ReportRow::named("test").with(&series);
        row.add("spread_ns", "", spread);
        row
    }

    fn reported(row: &ReportRow) -> Vec<(&str, Option<f64>)> {
        let ratios = row.figures.iter().filter(|figure| figure.key.ends_with("_ratio"));
        ratios.map(|figure| (figure.key, figure.value.as_f64())).collect()
    }

    #[test]
    fn ours_are_so_many_times_the_loops_figures() {
        let ours = [row((0..1000).map(|n| n % 2 * 3000), Some(90)), row(1..1001, None)];
        let mut bare =
            [row((0..1000).map(|n| n % 2 * 2000), Some(40)), row((1..1001).map(|n| 4 * n), None)];
        compare(PacingMode::Sleep, &ours, &mut bare);
        assert_eq!(reported(&bare[0]), [("stdev_ratio", Some(1.5)), ("spread_ratio", Some(2.25))]);
        assert_eq!(reported(&bare[1]), [("p50_ratio", Some(0.25)), ("p99_ratio", Some(0.25))]);
    }

    #[test]
    fn only_queue_intervals_are_compared_and_unknown_has_no_ratio() {
        let ours = [row(0..3, None), row(0..3, None)];
        let mut bare = [row([7; 3].into_iter(), Some(40)), row(0..3, None)];
        compare(PacingMode::Etf, &ours, &mut bare);
        assert_eq!(reported(&bare[0]), [("stdev_ratio", None), ("spread_ratio", None)]);
        assert_eq!(reported(&bare[1]), []);
    }
}
