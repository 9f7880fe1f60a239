use super::markup::{Unit, span};
use super::plot::{Axis, Plot};
use super::svg::{Anchor, Chart, FINE, Ink, WIDTH, width};
use crate::compare::{ComparedRow, ComparedStage, signed_ms};
use crate::report::ReportRow;
use tautline_report::StageSummary;

const STAGE: i32 = 26;
const PART: i32 = 28;
const HALF: i32 = 8 * FINE;
const NARROW: i32 = 9 * FINE;

fn rows(
    mut chart: Chart,
    axis: Axis,
    right: i32,
    names: &[(&str, String)],
    mut draw: impl FnMut(&mut Chart, &Plot, usize, i32),
) -> Chart {
    let left = names.iter().map(|(name, _)| width(name)).max().unwrap_or(0);
    let axes = (axis, Axis::unnamed(names.len()));
    let plot = Plot::whole(&mut chart, axes, [left + 10 * FINE, right * FINE]);
    for (index, (name, figure)) in names.iter().enumerate() {
        let y = plot.y((names.len() - index) as f64 - 0.5);
        draw(&mut chart, &plot, index, y);
        chart.text(name, Ink::TEXT, Anchor::RIGHT, (plot.left - 8 * FINE, y));
        chart.text(figure, Ink::TEXT, Anchor::RIGHT, ((WIDTH - 2) * FINE, y));
    }
    chart
}

const fn height(each: i32, count: usize) -> i32 {
    each * count as i32 + 34
}

pub(super) fn waterfall(row: &ReportRow) -> Option<Chart> {
    let middle =
        |stage: &StageSummary| stage.summary.p50_ns.or(stage.summary.mean_ns).map(|ns| ns as f64);
    let stages: Vec<(&StageSummary, f64)> =
        row.stages.iter().filter_map(|stage| Some((stage, middle(stage)?))).collect();
    let mut begins = Vec::new();
    let (mut at, mut maximum) = (0.0_f64, 0.0_f64);
    for (stage, middle) in &stages {
        begins.push(at);
        maximum = maximum.max(at + stage.summary.p99_ns.map_or(*middle, |p99| p99 as f64));
        at += middle.max(0.0);
    }
    let maximum = maximum.max(at);
    if stages.is_empty() || maximum <= 0.0 {
        return None;
    }
    let label = format!("{}: {} stages, {} in all", row.name, stages.len(), span(at));
    let names: Vec<_> =
        stages.iter().map(|(stage, middle)| (&*stage.name, span(*middle))).collect();
    let chart = Chart::new("Stage by stage", label, height(STAGE, stages.len()));
    let axis = Axis::linear(0.0, maximum, Unit::Time);
    let mut chart = rows(chart, axis, 78, &names, |chart, plot, index, y| {
        let ((stage, middle), begin) = (&stages[index], begins[index]);
        let left = plot.x(begin);
        // Shows stages shorter than a pixel.
        let right = plot.x(begin + middle.max(0.0)).max(left + FINE);
        chart.bar((left, y - HALF), (right, y + HALF), Ink::line(index), 0.85);
        let end = stage.summary.p99_ns.map_or(right, |p99| plot.x(begin + p99 as f64));
        if end > right {
            chart.path([(right, y), (end, y)], Ink::TEXT, FINE);
            chart.path([(end, y - HALF / 2), (end, y + HALF / 2)], Ink::TEXT, FINE);
        }
    });
    chart.words = "median of each stage; the whisker ends at p99".to_owned();
    for (stage, _) in &stages {
        if let Some(error) = stage.uncertainty_ns.filter(|error| *error > 0) {
            chart.words += &format!("; {} ± {}", stage.name, span(error as f64));
        }
    }
    Some(chart)
}

/// The bar goes to the left if the second report has less.
pub(super) fn differences(row: &ComparedRow) -> Option<Chart> {
    const WORDS: &str = "medians, the second report minus the first";
    let known = |stage: &ComparedStage| stage.difference_ns;
    let stages: Vec<i64> = row.stages.iter().filter_map(known).collect();
    let greatest = stages.iter().map(|difference| difference.unsigned_abs()).max()?.max(1) as f64;
    let names =
        row.stages.iter().filter_map(|stage| Some((&*stage.name, signed_ms(known(stage)?))));
    let label = format!("{}: {} stages, {WORDS}", row.title(), stages.len());
    let chart = Chart::new("Stage by stage", label, height(STAGE, stages.len()));
    let axis = Axis::linear(-greatest, greatest, Unit::Time);
    let names: Vec<_> = names.collect();
    let mut edges = (0, 0, 0);
    let mut chart = rows(chart, axis, 92, &names, |chart, plot, index, y| {
        edges = (plot.x(0.0), plot.top, plot.bottom);
        let ink = if stages[index] > 0 { Ink::BAD } else { Ink::MEASURED };
        chart.bar((edges.0, y - HALF), (plot.x(stages[index] as f64), y + HALF), ink, 0.85);
    });
    let (zero, top, bottom) = edges;
    chart.path([(zero, top), (zero, bottom)], Ink::TEXT, FINE);
    chart.words = WORDS.to_owned();
    Some(chart)
}

/// A chart per row that its parts follow.
pub(super) fn shares(rows: &[ReportRow]) -> Vec<Chart> {
    let chart_of = |(at, whole): (usize, &ReportRow)| {
        let parts = rows[at + 1..].iter().map_while(|row| {
            let part = row.name.strip_prefix(&*whole.name)?.strip_prefix(": ")?;
            Some((part, shares_of(row)?))
        });
        let parts: Vec<_> = parts.collect();
        (!parts.is_empty()).then(|| shares_chart(&whole.name, &parts))
    };
    rows.iter().enumerate().filter_map(chart_of).collect()
}

fn shares_of(row: &ReportRow) -> Option<[f64; 2]> {
    let share = |key| row.figures.iter().find(|figure| figure.key == key)?.value.as_f64();
    Some([share("packets_share")?, share("bytes_share")?])
}

fn shares_chart(name: &str, parts: &[(&str, [f64; 2])]) -> Chart {
    let reported =
        |shares: [f64; 2]| shares.map(|share| format!("{:.1} %", 100.0 * share)).join(" | ");
    let names: Vec<_> = parts.iter().map(|(part, shares)| (*part, reported(*shares))).collect();
    let label = format!("{name}: shares of {} parts", parts.len());
    let chart = Chart::new(name, label, height(PART, parts.len()));
    let axis = Axis::linear(0.0, 1.0, Unit::Share);
    let mut chart = rows(chart, axis, 110, &names, |chart, plot, index, y| {
        for (line, (share, top)) in parts[index].1.iter().zip([y - NARROW, y]).enumerate() {
            let to = (plot.x(*share), top + NARROW);
            chart.bar((plot.x(0.0), top), to, Ink::line(line), 0.85);
        }
    });
    chart.words = "shares: above of packets, below of bytes".to_owned();
    chart
}
