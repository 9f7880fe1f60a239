//! `taut lab interval`

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use tautline_engine::plan::address::Address;
use tautline_proto::time::Span;
use tautline_proto::units::Rate;

use super::Reporting;
use crate::flags::{rate, span};
use crate::help;

/// `taut lab interval`
#[derive(Debug, Args)]
#[command(after_help = help::lab::INTERVAL,
          group = ArgGroup::new("source").required(true).args(["ledger", "listen", "pcap"]))]
pub(crate) struct IntervalFlags {
    /// What `taut send --ledger` wrote: when packets were handed to the kernel
    #[arg(long, value_name = "FILE.csv")]
    pub(crate) ledger: Option<PathBuf>,
    /// Where packets arrive now: HOST:PORT of this machine, or a group
    #[arg(long, value_name = "ADDRESS", value_parser = Address::to_listen_at)]
    pub(crate) listen: Option<Address>,
    /// A capture, pcap or pcapng, as tcpdump and Wireshark write them
    #[arg(long, value_name = "FILE")]
    pub(crate) pcap: Option<PathBuf>,
    /// Sample rate of the streams, by which their media clocks are read
    #[arg(long, value_name = "HZ", default_value = "48000", value_parser = rate)]
    pub(crate) rate: Rate,
    /// How long is listened, from the first packet on
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = span)]
    pub(crate) duration: Span,
    /// The most packets that are listened to
    #[arg(long, value_name = "N", default_value_t = 1_000_000,
          value_parser = clap::value_parser!(u32).range(10..=10_000_000))]
    pub(crate) packets: u32,
    #[command(flatten)]
    pub(crate) reporting: Reporting,
}
