use std::path::Path;

#[cfg(feature = "lab")]
use tautline_lab::command_line;
#[cfg(feature = "lab")]
use tautline_lab::page::{charts, page};
#[cfg(feature = "lab")]
use tautline_lab::run_report::{self, RunPackets};
use tautline_report::Report;

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
    if let (Err(error), Some(path)) = (read, ledger) {
        let why = on_one_line(&error.to_string());
        lab.notes.push(format!("the packet log {} is not shown: {why}", path.display()));
    }
    match drawing {
        Drawing::Page => page(&lab),
        Drawing::Charts => charts(&lab),
    }
}

#[cfg(not(feature = "lab"))]
pub(crate) fn of_run(_: &Report, _: Option<&Path>, _: Drawing) -> String {
    String::new()
}
