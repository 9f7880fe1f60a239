//! The page of a run.

use std::path::Path;

use tautline_engine::watching::report::Report;
#[cfg(feature = "lab")]
use tautline_engine::watching::shell::shell_line;
#[cfg(feature = "lab")]
use tautline_lab::page::page;
#[cfg(feature = "lab")]
use tautline_lab::run_report::{self, RunPackets};

/// Whether this build can draw pages: the lab does that.
pub(crate) const AVAILABLE: bool = cfg!(feature = "lab");

/// Of a sender or a receiver; with its ledger packet by packet. `None` in a build without the lab.
#[cfg(feature = "lab")]
pub(crate) fn of_run(report: &Report, ledger: Option<&Path>) -> Option<String> {
    let read = ledger.map(RunPackets::read).transpose();
    let mut lab = run_report::of_run(report, read.as_ref().ok().and_then(Option::as_ref));
    lab.command = command_line();
    if let (Err(error), Some(path)) = (read, ledger) {
        lab.notes.push(format!("the ledger {} is not shown: {error}", path.display()));
    }
    Some(page(&lab))
}

#[cfg(not(feature = "lab"))]
pub(crate) fn of_run(_: &Report, _: Option<&Path>) -> Option<String> {
    None
}

/// How the program was called, as a shell takes it.
#[cfg(feature = "lab")]
pub(crate) fn command_line() -> String {
    shell_line(std::env::args_os().map(|word| word.to_string_lossy().into_owned()))
}
