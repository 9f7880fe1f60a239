//! `taut lab all`

use std::path::PathBuf;

use clap::Args;
use tautline_lab::all::AllStep;
use tautline_lab::hosts::HostPlace;

use crate::flags::{PlainKind, parse};
use crate::help;

/// `taut lab all`
#[derive(Debug, Args)]
#[command(after_help = help::lab::ALL)]
pub(crate) struct All {
    /// Folder for all reports and for index.html, which leads to them
    #[arg(long, value_name = "DIR", default_value = "taut-lab")]
    pub(crate) out: PathBuf,
    /// Where the receiver is of those that send: local, netns:NAME or ssh:HOST
    #[arg(long, value_name = "PLACE", default_value = "local", value_parser = parse::<HostPlace>)]
    pub(crate) with: HostPlace,
    /// Only this experiment; any number of times
    #[arg(long, value_name = "NAME", value_parser = step)]
    pub(crate) only: Vec<&'static AllStep>,
    /// What to print at the end
    #[arg(long, value_name = "KIND", default_value = "text")]
    pub(crate) report: PlainKind,
}

fn step(name: &str) -> Result<&'static AllStep, String> {
    AllStep::named(name).ok_or_else(|| {
        format!("no experiment called `{name}` is among them; `taut lab list` names them")
    })
}
