//! Values as points per stage boundary, and the part around the worst, magnified.

use core::cmp::Reverse;
use core::ops::RangeInclusive;

use super::markup::Unit;
use super::plot::{Axis, Plot};
use super::svg::{Anchor, Chart, FINE, Ink, LETTERS, width};
use crate::report::ReportRow;
use crate::statistics::median;

const HEIGHT: i32 = 330;
const MAX: usize = 380_000;
const STRETCH: usize = 240;

type Values<'a> = &'a [(i64, i64)];

pub(super) fn all(row: &ReportRow) -> Option<Chart> {
    let every = || row.points.iter().flat_map(|points| &points.values).map(|(when, _)| *when);
    let (begin, end) = (every().min()?, every().max()?);
    let mut chart = drawn(row, ["Every value", "every value"], begin..=end, 5)?;
    "by the time it was due; each line ends in its name".clone_into(&mut chart.words);
    let seen = row.events.iter().filter(|events| !events.within(begin..=end).is_empty());
    let happened = seen.map(|events| &*events.words).collect::<Vec<_>>().join(" and ");
    if !happened.is_empty() {
        chart.words += &format!("; {happened} are marked");
    }
    Some(chart)
}

pub(super) fn magnified(row: &ReportRow) -> Option<Chart> {
    let longest = row.points.iter().max_by_key(|points| points.values.len())?;
    if longest.values.len() < 4 * STRETCH {
        return None;
    }
    // A buffer may hide a peak from the last line.
    let worst = |values: Values<'_>| {
        let (when, value) = values.iter().max_by_key(|(_, value)| *value)?;
        Some((*value as f64 - middle(values)?, *when))
    };
    let all = row.points.iter().filter_map(|points| worst(&points.values));
    let (_, at) = all.max_by(|a, b| a.0.total_cmp(&b.0))?;
    let middle = longest.values.partition_point(|(when, _)| *when < at);
    let from = middle.saturating_sub(STRETCH / 2).min(longest.values.len() - STRETCH);
    let (begin, end) = (longest.values[from].0, longest.values[from + STRETCH - 1].0);
    let titles = ["The worst, magnified", "around the worst value"];
    let mut chart = drawn(row, titles, begin..=end, 12)?;
    chart.words =
        format!("{STRETCH} values around the worst, {:.3} s after the first", at as f64 / 1e9);
    Some(chart)
}

/// Dots grow if the chart would be too long.
fn drawn(
    row: &ReportRow,
    [title, which]: [&str; 2],
    time: RangeInclusive<i64>,
    dot: i32,
) -> Option<Chart> {
    let inside = |values: Values<'_>| {
        let first = values.partition_point(|(when, _)| when < time.start());
        first..values.partition_point(|(when, _)| when <= time.end())
    };
    let lines =
        row.points.iter().map(|points| (&*points.name, &points.values[inside(&points.values)]));
    let lines: Vec<(&str, Values<'_>)> = lines.collect();
    let every = || lines.iter().flat_map(|(_, values)| *values);
    let (begin, end) = (every().map(|v| v.0).min()?, every().map(|v| v.0).max()?);
    let (minimum, maximum) =
        (every().map(|v| v.1).min()? as f64, every().map(|v| v.1).max()? as f64);
    // An axis from near zero begins at zero.
    let minimum = if minimum > 0.0 && minimum < maximum / 2.0 { 0.0 } else { minimum };
    let room = (maximum - minimum) * 0.03;
    let below = if minimum == 0.0 { 0.0 } else { room };
    let across = Axis::linear(begin as f64, end as f64, Unit::Time);
    let upwards = Axis::linear(minimum - below, maximum + room, Unit::Time);
    let mut chart = Chart::new(title, format!("{}: {which}", row.name), HEIGHT);
    chart.dot = dot;
    let names = lines.iter().map(|(name, _)| width(name)).max().unwrap_or(0);
    let plot = Plot::whole(&mut chart, (across, upwards), [0, names + 10 * FINE]);
    let events = row.events.iter().flat_map(|events| events.within(begin..=end));
    plot.rules(&mut chart, events.map(|(at, _)| at as f64));
    for (index, (_, values)) in lines.iter().enumerate() {
        for (when, value) in *values {
            chart.points.push((Ink::line(index), plot.at(*when as f64, *value as f64)));
        }
    }
    name_lines(&mut chart, &plot, &lines);
    while chart.length() > MAX && chart.dot < 64 {
        chart.dot += 1 + chart.dot / 3;
    }
    Some(chart)
}

fn name_lines(chart: &mut Chart, plot: &Plot, lines: &[(&str, Values<'_>)]) {
    let ends = lines.iter().enumerate();
    let mut ends: Vec<(i32, usize)> =
        ends.filter_map(|(index, (_, values))| Some((plot.y(middle(values)?), index))).collect();
    let tall = LETTERS * FINE;
    ends.sort_unstable_by_key(|(at, index)| (at / tall, Reverse(*index)));
    let mut lowest = plot.top;
    for (at, _) in &mut ends {
        *at = (*at).max(lowest);
        lowest = *at + tall;
    }
    let mut highest = plot.bottom;
    for (at, _) in ends.iter_mut().rev() {
        *at = (*at).min(highest);
        highest = *at - tall;
    }
    for (at, index) in ends {
        let place = (plot.right + 6 * FINE, at);
        chart.text(lines[index].0, Ink::line(index), Anchor::LEFT, place);
    }
}

fn middle(values: Values<'_>) -> Option<f64> {
    let all: Vec<f64> = values.iter().map(|(_, value)| *value as f64).collect();
    (!all.is_empty()).then(|| median(&all))
}
