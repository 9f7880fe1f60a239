//! Histogram, and share beyond each value: both show single values among thousands.

use super::markup::{Unit, from_to, with_error};
use super::plot::{Axis, Plot};
use super::svg::{Anchor, Chart, FINE, Ink, Place};
use crate::report::ReportRow;
use crate::statistics::Bin;

const HEIGHT: i32 = 230;
const BARS: usize = 72;

fn count(bins: &[Bin]) -> u64 {
    bins.iter().map(|bin| bin.count).sum()
}

fn share(bins: &[Bin], share: f64) -> f64 {
    let rank = (count(bins) as f64 * share).ceil().max(1.0) as u64;
    let mut seen = 0;
    let found = bins.iter().find(|bin| {
        seen += bin.count;
        seen >= rank
    });
    found.or(bins.last()).map_or(0.0, |bin| bin.value_ns as f64)
}

pub(super) fn histogram(row: &ReportRow) -> Option<Chart> {
    let (first, last) = (row.histogram.first()?, row.histogram.last()?);
    let axis = Axis::fitting(first.value_ns as f64, last.value_ns as f64, Unit::Time);
    let label = format!("{}: frequency of each value", row.name);
    let words = format!("values in each of {BARS} classes, logarithmic");
    Some(bars("How often", words, label, &row.histogram, axis))
}

/// The middle 99 %, if the full range hides its shape.
pub(super) fn body(row: &ReportRow) -> Option<Chart> {
    let (first, last) = (row.histogram.first()?, row.histogram.last()?);
    let (from, to) = (share(&row.histogram, 0.005), share(&row.histogram, 0.995));
    let all = (last.value_ns - first.value_ns) as f64;
    if count(&row.histogram) < 1000 || all < 12.0 * (to - from) || to - from < 1e-4 * to {
        return None;
    }
    let mut inside = row.histogram.clone();
    inside.retain(|bin| (from..=to).contains(&(bin.value_ns as f64)));
    let axis = Axis::linear(from - (to - from) * 0.02, to + (to - from) * 0.02, Unit::Time);
    let words = format!("99 of 100 values, {}; logarithmic", from_to(from, to));
    let label = format!("{}: the middle of the distribution", row.name);
    Some(bars("How often, the middle alone", words, label, &inside, axis))
}

fn bars(title: &str, words: String, label: String, bins: &[Bin], axis: Axis) -> Chart {
    let parts = axis.parts(BARS);
    let mut counts = vec![0_u64; BARS];
    for bin in bins {
        let at = parts.partition_point(|begin| *begin <= bin.value_ns as f64).saturating_sub(1);
        counts[at.min(BARS - 1)] += bin.count;
    }
    let maximum = counts.iter().copied().max().unwrap_or(1) as f64;
    let mut chart = Chart { words, ..Chart::new(title, label, HEIGHT) };
    let axes = (axis, Axis::log(0.7, maximum * 1.3, Unit::Count));
    let plot = Plot::whole(&mut chart, axes, [0, 0]);
    for (ends, count) in parts.windows(2).zip(&counts).filter(|(_, count)| **count > 0) {
        let from = plot.at(ends[0], 0.7);
        let (right, top) = plot.at(ends[1], *count as f64);
        let right = right.max(from.0 + 2 * FINE) - FINE;
        let corners = [from, (from.0, top), (right, top), (right, from.1)];
        chart.shape(corners, Ink::MEASURED, 0.8);
    }
    chart
}

pub(super) fn tail(row: &ReportRow) -> Option<Chart> {
    let bins = &row.histogram;
    let (first, last) = (bins.first()?, bins.last()?);
    let all = count(bins) as f64;
    if all < 20.0 || first.value_ns == last.value_ns {
        return None;
    }
    let across =
        Axis::fitting(first.value_ns as f64, last.value_ns as f64, Unit::Time).with_room(0.02);
    let label = format!("{}: what share of the values is greater", row.name);
    let mut chart = Chart::new("The tail", label, HEIGHT);
    "share of the values that is greater, logarithmic".clone_into(&mut chart.words);
    let axes = (across, Axis::log(0.6 / all, 1.3, Unit::Share));
    let plot = Plot::whole(&mut chart, axes, [0, 0]);
    let mut beyond = all;
    let mut places = vec![plot.at(first.value_ns as f64, 1.0)];
    for bin in bins {
        places.push(plot.at(bin.value_ns as f64, beyond / all));
        beyond -= bin.count as f64;
        if beyond > 0.0 {
            places.push(plot.at(bin.value_ns as f64, beyond / all));
        }
    }
    places.dedup();
    chart.path(thinned(&places), Ink::MEASURED, 2 * FINE);
    named(&mut chart, &plot, row);
    Some(chart)
}

/// Drops steps of less than half a pixel.
fn thinned(places: &[Place]) -> Vec<Place> {
    let mut kept: Vec<Place> = Vec::new();
    for (index, place) in places.iter().enumerate() {
        let near = kept
            .last()
            .is_some_and(|last| (last.0 - place.0).abs() + (last.1 - place.1).abs() < FINE / 2);
        if !near || index + 1 == places.len() {
            kept.push(*place);
        }
    }
    kept
}

fn named(chart: &mut Chart, plot: &Plot, row: &ReportRow) {
    let Some(measured) = &row.measured else { return };
    let known = [
        ("p50", 0.5, measured.p50_ns),
        ("p99", 0.01, measured.p99_ns),
        ("p99.9", 0.001, measured.p999_ns),
        ("p99.99", 0.0001, measured.p9999_ns),
    ];
    for (name, beyond, value) in known {
        let Some(value) = value else { continue };
        let (x, y) = plot.at(value as f64, beyond);
        chart.disc((x, y), 3, Ink::MEASURED);
        let (anchor, away) = match x * 5 < plot.left * 2 + plot.right * 3 {
            true => (Anchor::LEFT_BOTTOM, 8),
            false => (Anchor::RIGHT_TOP, -8),
        };
        let words = format!("{name}  {}", with_error(value as f64, 0.0));
        chart.text(&words, Ink::TEXT, anchor, (x + away * FINE, y));
    }
}
