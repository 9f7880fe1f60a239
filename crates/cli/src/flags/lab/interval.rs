//! `taut lab interval`

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use tautline_engine::plan::address::Address;
use tautline_engine::plan::pacing::PacingRung;
use tautline_io::thread::Scheduler;
use tautline_proto::time::Span;
use tautline_proto::units::{Channels, Rate};

use super::Reporting;
use super::streams::FarEnd;
use crate::flags::{SampleName, channels, parse, rate, span};
use crate::help;

/// `taut lab interval`
#[derive(Debug, Args)]
#[command(after_help = help::lab::INTERVAL,
          group = ArgGroup::new("source").required(true).args(["ledger", "listen", "pcap", "rungs"]))]
pub(crate) struct IntervalFlags {
    /// What `taut send --ledger` wrote: when packets were handed to the kernel
    #[arg(long, value_name = "FILE.csv")]
    pub(crate) ledger: Option<PathBuf>,
    /// Where packets arrive now: HOST:PORT of this machine or a group, avtp+udp://… or avtp://IF/ADDRESS
    #[arg(long, value_name = "ADDRESS", value_parser = Address::to_listen_at)]
    pub(crate) listen: Option<Address>,
    /// A capture of RTP or AVTP, pcap or pcapng, as tcpdump and Wireshark write them
    #[arg(long, value_name = "FILE")]
    pub(crate) pcap: Option<PathBuf>,
    /// A stream that is sent from here by each rung of the pacing ladder in turn, and beside each that spaces packets
    /// by a bare loop
    #[arg(long)]
    pub(crate) rungs: bool,
    /// Only by this one; any number of times
    #[arg(long, value_name = "HOW", requires = "rungs", value_parser = parse::<PacingRung>,
          help_heading = "Rungs")]
    pub(crate) pacing: Vec<PacingRung>,
    /// Audio time in one packet
    #[arg(long, value_name = "TIME", default_value = "125us", value_parser = span,
          help_heading = "Rungs")]
    pub(crate) ptime: Span,
    /// Frames that each device takes at a time
    #[arg(long, value_name = "FRAMES", default_value_t = 48, help_heading = "Rungs",
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) period: u32,
    /// The latency of the stream
    #[arg(long, value_name = "TIME", default_value = "20ms", value_parser = span,
          help_heading = "Rungs")]
    pub(crate) latency: Span,
    /// Send it by AVTP, from this interface to that of the receiver [default of the second: of the same name]
    #[arg(long, value_name = "IF[,IF]", requires = "rungs", value_parser = interfaces,
          conflicts_with = "at", help_heading = "Rungs")]
    pub(crate) avtp: Option<[String; 2]>,
    #[command(flatten)]
    pub(crate) far: FarEnd,
    /// Sample rate of RTP streams, by which their media clocks are read
    #[arg(long, value_name = "HZ", default_value = "48000", value_parser = rate)]
    pub(crate) rate: Rate,
    /// How long is listened, from the first packet on, and how long a stream counts by each rung
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = span)]
    pub(crate) duration: Span,
    /// The most packets that are listened to
    #[arg(long, value_name = "N", default_value_t = 1_000_000,
          value_parser = clap::value_parser!(u32).range(10..=10_000_000))]
    pub(crate) packets: u32,
    #[command(flatten)]
    pub(crate) reporting: Reporting,
}

/// `taut lab loop`
#[derive(Debug, Args)]
pub(crate) struct LoopFlags {
    /// Where packets go: rtp://HOST:PORT, or avtp://IF/ADDRESS
    #[arg(long, value_name = "ADDRESS", value_parser = Address::to_relay_to)]
    pub(crate) to: Address,
    /// What spaces them
    #[arg(long, value_name = "HOW", value_parser = parse::<PacingRung>)]
    pub(crate) pacing: PacingRung,
    /// Coding of samples
    #[arg(long, value_name = "CODING")]
    pub(crate) format: SampleName,
    /// Channels
    #[arg(long, value_name = "N", value_parser = channels)]
    pub(crate) channels: Channels,
    /// Sample rate
    #[arg(long, value_name = "HZ", value_parser = rate)]
    pub(crate) rate: Rate,
    /// Audio time in one packet
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) ptime: Span,
    /// Frames whose packets may be handed over at once
    #[arg(long, value_name = "FRAMES", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) period: u32,
    /// How long after its packets are due their sound is presented, of AVTP
    #[arg(long, value_name = "TIME", default_value = "20ms", value_parser = span)]
    pub(crate) latency: Span,
    /// Priority of the thread that sends
    #[arg(long, value_name = "CLASS", value_parser = parse::<Scheduler>)]
    pub(crate) scheduler: Scheduler,
    /// For how long
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) duration: Span,
    /// Where it is written when each packet was due, and when it was handed over
    #[arg(long, value_name = "FILE.csv")]
    pub(crate) ledger: PathBuf,
}

/// That of the sender and that of the receiver.
fn interfaces(text: &str) -> Result<[String; 2], String> {
    let mut names = text.split(',').map(str::to_owned);
    let first = names.next().filter(|name| !name.is_empty());
    let second = names.next().or(first.clone()).filter(|name| !name.is_empty());
    match (first, second, names.next()) {
        (Some(first), Some(second), None) => Ok([first, second]),
        _ => Err(format!("`{text}` is neither an interface nor two, as in veth0,veth1")),
    }
}
