//! What a measured time is made of: stages one below the other, each beginning where the one before ended.

use plotters::style::text_anchor::{HPos, VPos};
use tautline_report::StageSummary;

use super::axis::{Axis, Named, Plot};
use super::svg::{FINE, Ink, filled, letters, line, svg, width};
use super::words::{Unit, span};
use crate::report::ReportRow;

/// How tall a stage is, in pixels.
const STAGE: u32 = 26;

/// The chart, where there are stages; with what it shows in a sentence.
pub(super) fn waterfall(row: &ReportRow) -> Option<(String, String)> {
    let middle =
        |stage: &StageSummary| stage.summary.p50_ns.or(stage.summary.mean_ns).map(|ns| ns as f64);
    let stages: Vec<(&StageSummary, f64)> =
        row.stages.iter().filter_map(|stage| Some((stage, middle(stage)?))).collect();
    let mut begins = Vec::new();
    let (mut at, mut most) = (0.0_f64, 0.0_f64);
    for (stage, middle) in &stages {
        begins.push(at);
        most = most.max(at + stage.summary.p99_ns.map_or(*middle, |p99| p99 as f64));
        at += middle.max(0.0);
    }
    let most = most.max(at);
    if stages.is_empty() || most <= 0.0 {
        return None;
    }
    let label = format!("{}: {} stages, {} in all", row.name, stages.len(), span(at));
    let names = stages.iter().map(|(stage, _)| width(&stage.name)).max().unwrap_or(0);
    let count = stages.len() as f64;
    let chart = svg(STAGE * stages.len() as u32 + 34, &label, 1, |area| {
        let axes = (Axis::linear(0.0, most, Unit::Time), Axis::unnamed(stages.len()));
        let plot = Plot::begin(area, axes, Named::Across, [names + 10 * FINE, 78 * FINE])?;
        let (across, _) = plot.bounds();
        for (index, ((stage, middle), begin)) in stages.iter().zip(&begins).enumerate() {
            let height = count - index as f64 - 0.5;
            let ((left, y), (right, _)) =
                (plot.at(*begin, height), plot.at(begin + middle.max(0.0), height));
            let tall = 8 * FINE as i32;
            // A stage that takes nothing worth a pixel is there, too.
            let right = right.max(left + FINE as i32);
            let bar = [(left, y - tall), (right, y - tall), (right, y + tall), (left, y + tall)];
            plot.shape(bar, filled(Ink::Line(index as u8), 0.85))?;
            if let Some(p99) = stage.summary.p99_ns {
                let (end, _) = plot.at(begin + p99 as f64, height);
                if end > right {
                    plot.path([(right, y), (end, y)], line(Ink::Text, FINE))?;
                    plot.path([(end, y - tall / 2), (end, y + tall / 2)], line(Ink::Text, FINE))?;
                }
            }
            let (name, value) = (
                (across.start - 8 * FINE as i32, y),
                (area.dim_in_pixel().0 as i32 - 2 * FINE as i32, y),
            );
            plot.words(&stage.name, &letters(Ink::Text, HPos::Right, VPos::Center), name)?;
            plot.words(&span(*middle), &letters(Ink::Text, HPos::Right, VPos::Center), value)?;
        }
        Ok(())
    });
    let mut words = "median of each stage; the whisker ends where 99 of 100 do".to_owned();
    for (stage, _) in &stages {
        if let Some(error) = stage.uncertainty_ns.filter(|error| *error > 0) {
            words += &format!("; {} ± {}", stage.name, span(error as f64));
        }
    }
    Some((words, chart))
}
