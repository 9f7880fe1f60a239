//! A report as one page that stands by itself: no script, no other file, charts as SVG.
//!
//! It is read on a telephone and on a desk, by day and by night: charts are narrow and stand side by side
//! where there is room, and their colours are the page's. What is a figure in the text is the same figure
//! here.

mod axis;
mod compared;
mod course;
mod index;
mod ladder;
mod parts;
mod periods;
mod scatter;
mod shares;
mod spread;
mod standalone;
mod svg;
mod usage;
mod waterfall;
mod words;

use crate::report::LabReport;

pub use compared::{compared, compared_charts};
pub use index::index;

/// The page of a report.
pub fn page(report: &LabReport) -> String {
    document(&format!("{}: {}", report.experiment, report.question), |out| {
        parts::head(out, report);
        parts::figures(out, report);
        parts::together(out, &report.rows);
        parts::rows(out, &report.rows);
        parts::notes(out, report);
    })
}

/// The charts of a report alone, as one SVG with its own colours.
pub fn charts(report: &LabReport) -> String {
    let title = format!("{}: {}", report.experiment, report.question);
    standalone::standalone(&title, &parts::charts_alone(&report.rows))
}

/// What stands around every page.
fn document(title: &str, body: impl FnOnce(&mut String)) -> String {
    let mut out = String::from(concat!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>",
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>",
        "<meta name=\"color-scheme\" content=\"light dark\"/><title>"
    ));
    out += &words::escaped(title);
    out += "</title><style>";
    out += include_str!("page/page.css");
    out += "</style></head><body><main>";
    body(&mut out);
    out += "</main></body></html>\n";
    out
}
