//! How much of the packets and of the bytes is of which part, one part below the other.

use plotters::style::text_anchor::{HPos, VPos};

use super::axis::{Axis, Named, Plot};
use super::standalone::TitledChart;
use super::svg::{FINE, Ink, filled, letters, svg, width};
use super::words::Unit;
use crate::report::ReportRow;

/// How tall a part is, and each of its two bars, in pixels.
const PART: u32 = 28;
const BAR: i32 = 9;

/// A chart for each row whose parts follow it.
pub(super) fn shares(rows: &[ReportRow]) -> Vec<TitledChart> {
    let chart_of = |(at, whole): (usize, &ReportRow)| {
        let parts = rows[at + 1..].iter().map_while(|row| {
            let part = row.name.strip_prefix(&*whole.name)?.strip_prefix(": ")?;
            Some((part, of_row(row)?))
        });
        let parts: Vec<_> = parts.collect();
        (!parts.is_empty()).then(|| TitledChart {
            title: whole.name.clone(),
            words: "shares: above of packets, below of bytes".to_owned(),
            chart: chart(&whole.name, &parts),
        })
    };
    rows.iter().enumerate().filter_map(chart_of).collect()
}

/// Of packets and of bytes.
fn of_row(row: &ReportRow) -> Option<[f64; 2]> {
    let share = |key| row.figures.iter().find(|figure| figure.key == key)?.value.as_f64();
    Some([share("packets_share")?, share("bytes_share")?])
}

fn chart(name: &str, parts: &[(&str, [f64; 2])]) -> String {
    let names = parts.iter().map(|(part, _)| width(part)).max().unwrap_or(0);
    let label = format!("{name}: shares of {} parts", parts.len());
    svg(PART * parts.len() as u32 + 34, &label, 1, |area| {
        let axes = (Axis::linear(0.0, 1.0, Unit::Share), Axis::unnamed(parts.len()));
        let plot = Plot::begin(area, axes, Named::Across, [names + 10 * FINE, 110 * FINE])?;
        let (across, _) = plot.bounds();
        for (index, (part, shares)) in parts.iter().enumerate() {
            let (left, y) = plot.at(0.0, (parts.len() - index) as f64 - 0.5);
            let tall = BAR * FINE as i32;
            for (line, (share, top)) in shares.iter().zip([y - tall, y]).enumerate() {
                let (right, bottom) = (plot.at(*share, 0.0).0, top + tall);
                let bar = [(left, top), (right, top), (right, bottom), (left, bottom)];
                plot.shape(bar, filled(Ink::Line(line as u8), 0.85))?;
            }
            let style = letters(Ink::Text, HPos::Right, VPos::Center);
            plot.words(part, &style, (across.start - 8 * FINE as i32, y))?;
            let told = shares.map(|share| format!("{:.1} %", 100.0 * share)).join(" | ");
            plot.words(&told, &style, (area.dim_in_pixel().0 as i32 - 2 * FINE as i32, y))?;
        }
        Ok(())
    })
}
