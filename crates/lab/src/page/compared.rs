//! Two reports against each other: the verdict, what is judged, and how much each stage differs.

use plotters::style::text_anchor::{HPos, VPos};

use super::axis::{Axis, Named, Plot};
use super::document;
use super::standalone::{TitledChart, standalone};
use super::svg::{FINE, Ink, filled, letters, line, svg, width};
use super::words::{Unit, escaped};
use crate::compare::{Compared, ComparedRow, ComparedStage, signed_ms};

/// How tall a stage is, in pixels.
const STAGE: u32 = 26;
const WORDS: &str = "medians, the second report less the first";

/// The page of a comparison.
pub fn compared(compared: &Compared) -> String {
    document(&title(compared), |out| {
        *out += &format!("<header><h1>{}</h1>", escaped(&title(compared)));
        *out += &format!("<p class=\"question\">{}</p></header>", escaped(&compared.verdict()));
        for row in &compared.rows {
            *out += &format!("<section><h2>{}</h2>", escaped(&row.title()));
            for sentence in row.sentences() {
                *out += &format!("<p class=\"aside\">{}</p>", escaped(&sentence));
            }
            figures(out, row);
            if let Some(chart) = stages(row) {
                *out += &format!(
                    "<div class=\"charts\"><figure><figcaption>Stage by stage<small>{WORDS}</small></figcaption>\
                     {chart}</figure></div>"
                );
            }
            *out += "</section>";
        }
        *out += "<section>";
        compared.notes.iter().for_each(|note| {
            *out += &format!("<p class=\"aside\">{}</p>", escaped(note));
        });
        *out += "</section>";
    })
}

/// The charts of a comparison alone.
pub fn compared_charts(compared: &Compared) -> String {
    let chart = |row: &ComparedRow| {
        Some(TitledChart { title: row.title(), words: WORDS.to_owned(), chart: stages(row)? })
    };
    let charts: Vec<_> = compared.rows.iter().filter_map(chart).collect();
    standalone(&title(compared), &charts)
}

fn title(compared: &Compared) -> String {
    format!("{}: the second report against the first", compared.experiment)
}

fn figures(out: &mut String, row: &ComparedRow) {
    let lines = row.table(|_| true);
    if lines.len() < 2 {
        return;
    }
    *out += "<div class=\"scroll\"><table>";
    for (number, line) in lines.iter().enumerate() {
        let cell = if number == 0 { "th" } else { "td" };
        *out += "<tr>";
        line.iter().for_each(|text| *out += &format!("<{cell}>{}</{cell}>", escaped(text)));
        *out += "</tr>";
    }
    *out += "</table></div>";
}

/// A bar for each stage, to the left where the second report has less.
fn stages(row: &ComparedRow) -> Option<String> {
    let known = |stage: &ComparedStage| Some((stage.name.clone(), stage.difference_ns?));
    let stages: Vec<(String, i64)> = row.stages.iter().filter_map(known).collect();
    let greatest = stages.iter().map(|(_, difference)| difference.unsigned_abs()).max()? as f64;
    let names = stages.iter().map(|(name, _)| width(name)).max().unwrap_or(0);
    let label = format!("{}: {} stages, {WORDS}", row.title(), stages.len());
    let count = stages.len() as f64;
    Some(svg(STAGE * stages.len() as u32 + 34, &label, 1, |area| {
        let around = greatest.max(1.0);
        let axes = (Axis::linear(-around, around, Unit::Time), Axis::unnamed(stages.len()));
        let plot = Plot::begin(area, axes, Named::Across, [names + 10 * FINE, 92 * FINE])?;
        let (across, upwards) = plot.bounds();
        for (index, (name, difference)) in stages.iter().enumerate() {
            let height = count - index as f64 - 0.5;
            let ((zero, y), (end, _)) = (plot.at(0.0, height), plot.at(*difference as f64, height));
            let tall = 8 * FINE as i32;
            let ink = if *difference > 0 { Ink::Bad } else { Ink::Measured };
            let bar = [(zero, y - tall), (end, y - tall), (end, y + tall), (zero, y + tall)];
            plot.shape(bar, filled(ink, 0.85))?;
            let right = (area.dim_in_pixel().0 as i32 - 2 * FINE as i32, y);
            let style = letters(Ink::Text, HPos::Right, VPos::Center);
            plot.words(name, &style, (across.start - 8 * FINE as i32, y))?;
            plot.words(&signed_ms(*difference), &style, right)?;
        }
        let (zero, _) = plot.at(0.0, 0.0);
        plot.path([(zero, upwards.start), (zero, upwards.end)], line(Ink::Text, FINE))
    }))
}
