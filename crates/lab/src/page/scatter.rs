//! Value by value: one line of points for each boundary of stages, as in a map of every packet; and the
//! stretch around the worst of them, magnified.

use core::cmp::Reverse;

use plotters::style::text_anchor::{HPos, VPos};

use super::axis::{Axis, Named, Plot};
use super::svg::{Area, Drawn, FINE, Ink, LETTERS, letters, line, svg, width};
use super::words::Unit;
use crate::report::{Points, ReportRow};
use crate::statistics::median;

const HEIGHT: u32 = 330;
/// Bytes of one chart, at most.
const MOST: usize = 380_000;
/// Values of a line that are shown magnified.
const STRETCH: usize = 240;

pub(super) fn all(row: &ReportRow) -> Option<String> {
    let lines: Vec<(&Points, &[(i64, i64)])> =
        row.points.iter().map(|points| (points, &points.values[..])).collect();
    drawn(row, "every value", &lines, 5)
}

/// Those around the worst; with what it shows in a sentence. Nothing where that is all.
pub(super) fn magnified(row: &ReportRow) -> Option<(String, String)> {
    let longest = row.points.iter().max_by_key(|points| points.values.len())?;
    if longest.values.len() < 4 * STRETCH {
        return None;
    }
    let at = worst_at(row)?;
    let middle = longest.values.partition_point(|(when, _)| *when < at);
    let from = middle.saturating_sub(STRETCH / 2).min(longest.values.len() - STRETCH);
    let (begin, end) = (longest.values[from].0, longest.values[from + STRETCH - 1].0);
    let inside = |points: &'_ Points| {
        let first = points.values.partition_point(|(when, _)| *when < begin);
        let last = points.values.partition_point(|(when, _)| *when <= end);
        first..last
    };
    let lines: Vec<(&Points, &[(i64, i64)])> =
        row.points.iter().map(|points| (points, &points.values[inside(points)])).collect();
    let chart = drawn(row, "around the worst value", &lines, 12)?;
    let words =
        format!("{STRETCH} values around the worst, {:.3} s after the first", at as f64 / 1e9);
    Some((words, chart))
}

/// When any line was furthest above its own median: what a buffer took in is not in the last.
fn worst_at(row: &ReportRow) -> Option<i64> {
    let worst = |points: &Points| {
        let middle = middle(&points.values)?;
        let (when, value) = points.values.iter().max_by_key(|(_, value)| *value)?;
        Some((*value as f64 - middle, *when))
    };
    let all = row.points.iter().filter_map(worst);
    all.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, when)| when)
}

/// What happened meanwhile, by name; what is of no time that is shown is left out.
pub(super) fn happened(row: &ReportRow) -> String {
    let every = || row.points.iter().flat_map(|points| &points.values).map(|(when, _)| *when);
    let (Some(begin), Some(end)) = (every().min(), every().max()) else { return String::new() };
    let seen = row.events.iter().filter(|events| !events.within(begin..=end).is_empty());
    seen.map(|events| events.words).collect::<Vec<_>>().join(" and ")
}

/// With dots of this many steps, or larger ones where the chart were too long; and with what happened
/// meanwhile.
fn drawn(
    row: &ReportRow,
    which: &str,
    lines: &[(&Points, &[(i64, i64)])],
    dot: i32,
) -> Option<String> {
    let label = format!("{}: {which}", row.name);
    let every = || lines.iter().flat_map(|(_, values)| values.iter());
    let (begin, end) = (every().map(|v| v.0).min()?, every().map(|v| v.0).max()?);
    let (least, most) = (every().map(|v| v.1).min()?, every().map(|v| v.1).max()?);
    let (least, most) = (least as f64, most as f64);
    // What begins near nothing is seen from nothing on.
    let least = if least > 0.0 && least < most / 2.0 { 0.0 } else { least };
    let room = (most - least) * 0.03;
    let across = Axis::linear(begin as f64, end as f64, Unit::Time);
    let upwards =
        Axis::linear(if least == 0.0 { 0.0 } else { least - room }, most + room, Unit::Time);
    let events = row.events.iter().flat_map(|events| events.within(begin..=end));
    let events: Vec<i64> = events.map(|(at, _)| at).collect();
    let mut dot = dot;
    loop {
        let axes = (across, upwards);
        let chart = svg(HEIGHT, &label, dot, |area| points(area, axes, lines, &events));
        if chart.len() <= MOST || dot >= 64 {
            return Some(chart);
        }
        dot += 1 + dot / 3;
    }
}

fn points(
    area: &Area<'_>,
    axes: (Axis, Axis),
    lines: &[(&Points, &[(i64, i64)])],
    events: &[i64],
) -> Drawn {
    let names = lines.iter().map(|(points, _)| width(&points.name)).max().unwrap_or(0);
    let plot = Plot::begin(area, axes, Named::Both, [0, names + 10 * FINE])?;
    plot.rules(events.iter().map(|at| *at as f64), line(Ink::Bad, FINE))?;
    let ink = |index: usize| Ink::Line(index as u8);
    for (index, (_, values)) in lines.iter().enumerate() {
        for (when, value) in *values {
            plot.point(plot.at(*when as f64, *value as f64), ink(index))?;
        }
    }
    // Names stand right of where their lines end, none on another.
    let (across, upwards) = plot.bounds();
    let mut ends: Vec<(i32, usize)> = Vec::new();
    for (index, (_, values)) in lines.iter().enumerate() {
        let Some(middle) = middle(values) else { continue };
        ends.push((plot.at(0.0, middle).1, index));
    }
    let tall = (LETTERS * FINE) as i32;
    // Of lines that cannot be told apart the later stage stands above.
    ends.sort_unstable_by_key(|(at, index)| (at / tall, Reverse(*index)));
    let mut lowest = upwards.start;
    for (at, _) in &mut ends {
        *at = (*at).max(lowest);
        lowest = *at + tall;
    }
    // Back up where the last would stand below the axis.
    let mut highest = upwards.end;
    for (at, _) in ends.iter_mut().rev() {
        *at = (*at).min(highest);
        highest = *at - tall;
    }
    for (at, index) in ends {
        let style = letters(ink(index), HPos::Left, VPos::Center);
        plot.words(&lines[index].0.name, &style, (across.end + 6 * FINE as i32, at))?;
    }
    Ok(())
}

fn middle(values: &[(i64, i64)]) -> Option<f64> {
    let all: Vec<f64> = values.iter().map(|(_, value)| *value as f64).collect();
    (!all.is_empty()).then(|| median(&all))
}
