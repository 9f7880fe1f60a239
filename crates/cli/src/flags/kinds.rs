//! In which forms a report is printed.

use clap::ValueEnum;

/// What to print at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportKind {
    /// A page for people
    Text,
    /// The whole report for programs
    Json,
    /// A page for a browser, with charts
    Html,
    /// Nothing
    None,
}

/// What to print at the end, where there is nothing to draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlainKind {
    /// A page for people
    Text,
    /// The whole report for programs
    Json,
    /// Nothing
    None,
}
