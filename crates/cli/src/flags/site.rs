//! The options of `taut site`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::PlainKind;
use crate::help;

/// `taut site`
#[derive(Debug, Subcommand)]
pub(crate) enum Site {
    /// List every mistake in a building file, with line and fix
    Check(SiteCheck),
}

/// `taut site check`
#[derive(Debug, Args)]
#[command(after_help = help::SITE_CHECK)]
pub(crate) struct SiteCheck {
    /// Building file [default: building.toml]
    ///
    /// Without FILE, the first of building.toml, $TAUT_HOME/building.toml and /etc/tautline/building.toml.
    pub(crate) file: Option<PathBuf>,
    /// Output format: text, json or none
    #[arg(long, value_name = "FORMAT", default_value = "text", hide_possible_values = true)]
    pub(crate) report: PlainKind,
}
