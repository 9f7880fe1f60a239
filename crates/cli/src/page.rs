//! Pages and charts of runs.

use std::path::Path;

#[cfg(feature = "lab")]
use tautline_lab::command_line;
#[cfg(feature = "lab")]
use tautline_lab::page::{charts, page};
#[cfg(feature = "lab")]
use tautline_lab::run_report::{self, RunPackets};
use tautline_report::Report;
#[cfg(feature = "lab")]
use tautline_report::text::{Detail, render};

#[cfg(feature = "lab")]
use crate::failure::on_one_line;

pub(crate) const AVAILABLE: bool = cfg!(feature = "lab");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Drawing {
    Page,
    Charts,
}

/// Includes each packet if there is a ledger. Empty in a build without the lab.
#[cfg(feature = "lab")]
pub(crate) fn of_run(report: &Report, ledger: Option<&Path>, drawing: Drawing) -> String {
    let read = ledger.map(RunPackets::read).transpose();
    let mut lab = run_report::of_run(report, read.as_ref().ok().and_then(Option::as_ref));
    lab.command = command_line();
    lab.answer = Some(summary(report));
    if let (Err(error), Some(path)) = (read, ledger) {
        let why = on_one_line(&error.to_string());
        lab.notes.push(format!("the packet log {} is not shown: {why}", path.display()));
    }
    match drawing {
        Drawing::Page => page(&lab),
        Drawing::Charts => charts(&lab),
    }
}

/// What the terminal shows: causes of missed packets, and their fix.
#[cfg(feature = "lab")]
fn summary(report: &Report) -> String {
    let text = render(report, Detail::Summary);
    let told = text.lines().filter(|line| !line.starts_with("details: "));
    told.collect::<Vec<_>>().join("\n")
}

#[cfg(not(feature = "lab"))]
pub(crate) fn of_run(_: &Report, _: Option<&Path>, _: Drawing) -> String {
    String::new()
}

#[cfg(all(test, feature = "lab"))]
mod tests {
    use super::*;

    #[test]
    fn page_has_the_causes_and_the_fix_of_the_text() {
        let sample = include_str!("../../report/samples/run.json");
        let report: Report = serde_json::from_str(sample).unwrap();
        let text = render(&report, Detail::Summary);
        let page = of_run(&report, None, Drawing::Page);
        let fix = text.lines().find(|line| line.starts_with("fix: ")).expect("a fix");
        assert!(page.contains(&format!("<p>{fix}</p>")), "{text}");
        assert!(!page.contains("<p>details: "));
    }
}
