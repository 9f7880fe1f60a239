//! The page of a run.

use std::path::Path;

use tautline_engine::watching::report::Report;
use tautline_lab::page::{page, shell_line};
use tautline_lab::run_report::{self, RunPackets};

/// Of a sender or a receiver; with its ledger packet by packet.
pub(crate) fn of_run(report: &Report, ledger: Option<&Path>) -> String {
    let read = ledger.map(RunPackets::read).transpose();
    let mut lab = run_report::of_run(report, read.as_ref().ok().and_then(Option::as_ref));
    lab.command = command_line();
    if let (Err(error), Some(path)) = (read, ledger) {
        lab.notes.push(format!("the ledger {} is not shown: {error}", path.display()));
    }
    page(&lab)
}

/// How the program was called, as a shell takes it.
pub(crate) fn command_line() -> String {
    shell_line(std::env::args())
}
