//! The options of commands that only read or write files.

use std::path::PathBuf;

use clap::Args;

use super::PlainKind;
use crate::help;

/// `taut join`
#[derive(Debug, Args)]
#[command(after_help = help::JOIN, after_long_help = help::JOIN_LONG)]
pub(crate) struct Join {
    /// The sender's packet log
    pub(crate) sender: PathBuf,
    /// The receiver's packet log
    pub(crate) receiver: PathBuf,
}

/// `taut compare`
#[derive(Debug, Args)]
#[command(after_help = help::COMPARE, after_long_help = help::COMPARE_LONG)]
pub(crate) struct Compare {
    /// The file that was sent
    pub(crate) sent: PathBuf,
    /// The file that was recorded
    pub(crate) received: PathBuf,
    /// Output format: text, json or none
    #[arg(long, value_name = "FORMAT", default_value = "text", hide_possible_values = true)]
    pub(crate) report: PlainKind,
}

/// A folder to write into.
#[derive(Debug, Args)]
pub(crate) struct OutFolder {
    /// Output folder; created if missing
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
}
