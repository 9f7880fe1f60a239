//! The command lines of what reads or writes files alone.

use std::path::PathBuf;

use clap::Args;

use super::PlainKind;
use crate::help;

/// `taut join`
#[derive(Debug, Args)]
#[command(after_help = help::JOIN)]
pub(crate) struct Join {
    /// The sender's ledger
    pub(crate) sender: PathBuf,
    /// The receiver's ledger
    pub(crate) receiver: PathBuf,
}

/// `taut compare`
#[derive(Debug, Args)]
#[command(after_help = help::COMPARE)]
pub(crate) struct Compare {
    /// The file that was sent
    pub(crate) sent: PathBuf,
    /// The file that was recorded
    pub(crate) heard: PathBuf,
    /// What to print
    #[arg(long, value_name = "KIND", default_value = "text")]
    pub(crate) report: PlainKind,
}

/// A folder to write into.
#[derive(Debug, Args)]
pub(crate) struct OutFolder {
    /// The folder, made if need be
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
}
