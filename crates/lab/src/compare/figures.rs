//! Compared figures of a row, and their time threshold.
//!
//! Each run starts both cards at a new phase. So `wakeup` and `device` may differ by a period
//! between equal runs; so may `capture` and `send` if packets and periods differ in length.
//! `sender_late` and `receiver_late` show a slow thread. Other lengths of periods or packets change
//! all of these.

use tautline_proto::time::Span;

use super::counts::{self, ReadCounts};
use super::read::{ReadPart, ReadRow};
use super::{CompareOptions, ComparedFigure, ComparedRow, ComparedVerdict, stages};
use crate::report::StreamBySecond;
use crate::statistics::{MIN, SeriesDifference, compare, median};

const DEFAULT_RATE: u32 = 48_000;

enum Judged {
    Beyond(f64),
    Follows(&'static str),
}

const OTHER_LATENCY: &str = "configured otherwise";
const OTHER_BLOCKS: &str = "other periods or packets";

/// Default threshold: a frame for streams and sound, else microseconds.
pub(super) fn add(
    row: &mut ComparedRow,
    first: &ReadRow,
    second: &ReadRow,
    (options, in_sound): (CompareOptions, bool),
) {
    let frame = [first, second].map(ReadRow::frame_ns).into_iter().fold(0.0, f64::max);
    let limit = |usual| options.threshold.map_or(usual, |limit| limit.as_nanos() as f64);
    let minimum = limit(if in_sound || first.is_stream() { frame } else { 0.0 });
    let threshold =
        minimum.max(sum([first, second].map(|row| row.row.uncertainty.map(Span::as_nanos))));
    let latency = match first.row.configured == second.row.configured {
        true => Judged::Beyond(0.0),
        false => Judged::Follows(OTHER_LATENCY),
    };
    if let Judged::Follows(_) = latency {
        let reported = [first, second]
            .map(|row| row.row.configured.map_or("nothing".to_owned(), |span| span.to_string()));
        let [first, second] = reported;
        row.lacks.push(format!("the latency, configured as {first} and {second}"));
    }
    stages::add(row, first, second, limit(frame));
    let both = [first, second].map(|row| row.seconds());
    row.figures.extend(times(None, both.each_ref(), &latency, threshold));
    if first.whole_run || second.whole_run {
        row.figures.extend(of_runs([first, second], &latency, threshold));
    }
    match (&first.row.stream, &second.row.stream) {
        (Some(one), Some(other)) => {
            parts(row, (first, one), (second, other), minimum);
            streams(row, (first, one), (second, other));
        }
        _ => {
            if first.is_stream() && second.is_stream() && !first.whole_run && !second.whole_run {
                let which = if first.row.stream.is_none() { "first" } else { "second" };
                row.lacks.push(format!(
                    "the stages: the {which} report has no seconds, as it is of an older taut"
                ));
            }
            row.figures.extend(missed(first, second));
            let seconds = [first, second].map(|row| row.run_seconds);
            // Shorter runs have only their counts listed.
            if seconds.iter().all(|seconds| *seconds >= MIN as u32) {
                xruns(row, (first, seconds[0]), (second, seconds[1]));
            }
        }
    }
}

fn xruns(row: &mut ComparedRow, first: (&ReadRow, u32), second: (&ReadRow, u32)) {
    for (key, figure) in
        [("sender_xruns", "sender_xruns_per_s"), ("receiver_xruns", "receiver_xruns_per_s")]
    {
        let unknown = |row: &ReadRow| row.own_xruns.is_some_and(|own| own != key);
        if unknown(first.0) || unknown(second.0) {
            continue;
        }
        let [a, b] = [first, second].map(|(row, seconds)| row.events(key, seconds));
        let due = [&a, &b].map(|counts| u64::from(counts.seconds));
        row.figures.push(counts::compare(figure, (&a, due[0]), (&b, due[1])));
    }
}

/// Median latency of whole runs: without seconds, chance is possible.
fn of_runs(both: [&ReadRow; 2], latency: &Judged, threshold: f64) -> Option<ComparedFigure> {
    let [first, second] = both.map(ReadRow::median);
    let (first, second) = (first? as f64, second? as f64);
    let (verdict, why) = match latency {
        Judged::Follows(why) => (ComparedVerdict::Follows, Some((*why).to_owned())),
        Judged::Beyond(_) if (second - first).abs() <= threshold => (ComparedVerdict::None, None),
        Judged::Beyond(_) if second < first => (ComparedVerdict::Less, None),
        Judged::Beyond(_) => (ComparedVerdict::More, None),
    };
    Some(ComparedFigure {
        key: "p50_ns",
        first,
        second,
        threshold_ns: Some(threshold),
        p: 1.0,
        verdict,
        why,
        ..ComparedFigure::default()
    })
}

/// Floats, as a report's integers could overflow.
fn sum(unsure: [Option<i64>; 2]) -> f64 {
    unsure.into_iter().flatten().map(|nanos| nanos as f64).sum()
}

fn missed(first: &ReadRow, second: &ReadRow) -> Option<ComparedFigure> {
    let (of_first, of_second) = first.row.missed.zip(second.row.missed)?;
    let seconds = first.missed_by_second().zip(second.missed_by_second());
    Some(match seconds {
        Some((a, b)) => counts::compare(counts::MISSED, (&a, of_first.due), (&b, of_second.due)),
        None if first.whole_run || second.whole_run => counts::without_times(of_first, of_second),
        None => counts::independent(of_first, of_second),
    })
}

fn parts(
    row: &mut ComparedRow,
    (first, one): (&ReadRow, &StreamBySecond),
    (second, other): (&ReadRow, &StreamBySecond),
    minimum: f64,
) {
    let [a, b] = [one, other].map(blocks);
    if a != b {
        row.lacks.push(format!("the stages, with {a} and with {b}"));
    }
    for part in &one.parts {
        let Some(there) = other.parts.iter().find(|there| there.name == part.name) else {
            row.lacks.push(format!("{}, which only the first report has", part.name));
            continue;
        };
        let unsure = sum([first, second].map(|row| row.uncertainty_of(&part.name)));
        let judged = judged(&part.name, one, a == b);
        let both = [part, there].map(ReadPart::of);
        let threshold = minimum.max(unsure);
        row.figures.extend(times(Some(&part.name), both.each_ref(), &judged, threshold));
    }
}

fn blocks(stream: &StreamBySecond) -> String {
    let StreamBySecond { rate, period, periods, ptime_ns, .. } = stream;
    let ptime = Span::from_nanos(*ptime_ns);
    format!("{periods} periods of {period} frames at {rate} Hz, packets of {ptime}")
}

fn judged(name: &str, one: &StreamBySecond, same_blocks: bool) -> Judged {
    let period = f64::from(one.period) / f64::from(one.rate.max(1)) * 1e9;
    let in_step = (period - one.ptime_ns as f64).abs() * f64::from(one.rate) < 1e9;
    match name {
        "buffer" => Judged::Follows("follows from the others"),
        _ if !same_blocks => Judged::Follows(OTHER_BLOCKS),
        "wakeup" | "device" => Judged::Beyond(period),
        "capture" | "send" if !in_step => Judged::Beyond(period),
        _ => Judged::Beyond(0.0),
    }
}

fn streams(
    row: &mut ComparedRow,
    (first, one): (&ReadRow, &StreamBySecond),
    (second, other): (&ReadRow, &StreamBySecond),
) {
    let both_tell_unsent = one.never_sent.is_some() && other.never_sent.is_some();
    let [(a, due_a), (b, due_b)] =
        [one, other].map(|stream| ReadCounts::missed(stream, both_tell_unsent));
    row.figures.push(counts::compare(counts::MISSED, (&a, due_a), (&b, due_b)));
    let mut missed = |key, of: fn(&StreamBySecond) -> ReadCounts| {
        row.figures.push(counts::compare(key, (&of(one), one.due), (&of(other), other.due)));
    };
    missed("late_share", |stream| ReadCounts::of(&stream.late, stream.seconds));
    missed("lost_share", |stream| ReadCounts::of(&stream.lost, stream.seconds));
    missed("underrun_discarded_share", |stream| {
        ReadCounts::of(&stream.underrun_discarded, stream.seconds)
    });
    xruns(row, (first, one.seconds), (second, other.seconds));
}

/// The tail is p99 if nearly all seconds have a p99, else the maximum: at 1 ms, one lost packet
/// leaves too few values.
fn times(
    part: Option<&str>,
    [first, second]: [&ReadPart; 2],
    judged: &Judged,
    threshold: f64,
) -> Vec<ComparedFigure> {
    let seldom = |part: &ReadPart| 10 * part.p99.len() < 9 * part.max.len();
    let greatest = !first.max.is_empty() && !second.max.is_empty();
    let tail = match greatest && (seldom(first) || seldom(second)) {
        true => ("max_ns", &first.max, &second.max),
        false => ("p99_ns", &first.p99, &second.p99),
    };
    let all = [("p50_ns", &first.p50, &second.p50), tail];
    let all = all.into_iter().filter(|(_, a, b)| !a.is_empty() && !b.is_empty());
    all.map(|(key, a, b)| time(part, key, (a, b), judged, threshold)).collect()
}

fn time(
    part: Option<&str>,
    key: &'static str,
    (a, b): (&[f64], &[f64]),
    judged: &Judged,
    threshold: f64,
) -> ComparedFigure {
    let threshold = match judged {
        Judged::Beyond(more) => threshold + more,
        Judged::Follows(_) => threshold,
    };
    let found = compare(a, b, threshold);
    let known = found.verdict != SeriesDifference::Unknown;
    let (verdict, why) = match judged {
        Judged::Follows(why) => (ComparedVerdict::Follows, Some((*why).to_owned())),
        Judged::Beyond(_) if known => (found.verdict.into(), None),
        Judged::Beyond(_) => {
            let [a, b] = [a.len(), b.len()];
            let why = format!(
                "too few seconds with a value: {a} in the first report, {b} in the second, minimum {MIN}"
            );
            (ComparedVerdict::Unknown, Some(why))
        }
    };
    let first = median(a);
    let judged = matches!(judged, Judged::Beyond(_)) && known;
    ComparedFigure {
        part: part.map(str::to_owned),
        key,
        first,
        second: first + found.difference,
        interval: known.then_some(found.interval),
        threshold_ns: Some(threshold),
        a12: known.then_some(f64::midpoint(found.delta, 1.0)),
        counted: None,
        p: found.p,
        p_of_all: (judged && could_differ(a, b, threshold)).then_some(1.0),
        verdict,
        why,
    }
}

impl ComparedFigure {
    /// Whether the difference follows from different settings.
    pub(super) fn is_of_settings(&self) -> bool {
        self.why.as_deref().is_some_and(|why| [OTHER_LATENCY, OTHER_BLOCKS].contains(&why))
    }
}

fn could_differ(a: &[f64], b: &[f64], threshold: f64) -> bool {
    let all = || a.iter().chain(b).copied();
    all().fold(f64::MIN, f64::max) - all().fold(f64::MAX, f64::min) > threshold
}

impl ReadRow {
    fn frame_ns(&self) -> f64 {
        let rate = self.row.stream.as_ref().map_or(DEFAULT_RATE, |stream| stream.rate.max(1));
        1e9 / f64::from(rate)
    }

    fn seconds(&self) -> ReadPart {
        let all = || self.row.intervals.iter();
        ReadPart {
            p50: all().map(|one| one.p50_ns as f64).collect(),
            p99: all().filter_map(|one| one.p99_ns).map(|p99| p99 as f64).collect(),
            max: all()
                .filter(|one| one.max_ns >= one.p50_ns)
                .map(|one| one.max_ns as f64)
                .collect(),
        }
    }
}
