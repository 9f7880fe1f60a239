//! Of the commands that run other people's plugins and list them.

use std::path::PathBuf;

use clap::Args;
use tautline_api::client::WorkerAddress;
use tautline_io::thread::Scheduler;

use super::kinds::PlainKind;
use super::readers::parse;
use crate::help;
use crate::voice::VoiceFlags;

/// `taut work`
#[derive(Debug, Args)]
#[command(after_help = help::WORK)]
pub(crate) struct Work {
    /// Where to listen: an address of this machine, such as 0.0.0.0 for all. Beyond 127.0.0.1, the
    /// default, only machines that are trusted here are answered (taut trust)
    #[arg(long, value_name = "HOST[:PORT]", default_value = "127.0.0.1",
          value_parser = parse::<WorkerAddress>)]
    pub(crate) listen: WorkerAddress,
    /// What is to be offered beside single plugins: a file of chains, see below
    #[arg(long, value_name = "FILE")]
    pub(crate) chains: Option<PathBuf>,
    /// Of the threads that run plugins: fifo:70, rr:70, deadline:RUNTIME/DEADLINE/PERIOD or other
    #[arg(long, value_name = "CLASS", default_value = "fifo:70", value_parser = parse::<Scheduler>)]
    pub(crate) scheduler: Scheduler,
    /// Plugins, or chains, that are run at once at most
    #[arg(long, value_name = "N", default_value_t = 64,
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) most_streams: u32,
    /// Let programs of this machine have datagrams that anybody could read: for measuring what the
    /// seal costs, at 127.0.0.1 alone
    #[arg(long)]
    pub(crate) cleartext: bool,
    #[command(flatten)]
    pub(crate) voice: VoiceFlags,
}

/// `taut plugins`
#[derive(Debug, Args)]
#[command(after_help = help::PLUGINS)]
pub(crate) struct Plugins {
    /// The plugins of another machine, where `taut work` runs, and not of this one; once for each
    #[arg(long, value_name = "[NAME=]HOST[:PORT]", value_parser = parse::<WorkerAddress>)]
    pub(crate) worker: Vec<WorkerAddress>,
    /// Keep what they have where tautline.so looks, so that hosts show it: what was kept of others stays
    #[arg(long, requires = "worker")]
    pub(crate) save: bool,
    /// What is offered beside single plugins of this machine: see taut work
    #[arg(long, value_name = "FILE", conflicts_with = "worker")]
    pub(crate) chains: Option<PathBuf>,
    /// What to print
    #[arg(long, value_name = "KIND", default_value = "text")]
    pub(crate) report: PlainKind,
}
