//! The options of `taut lab impair`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use tautline_engine::plan::address::Address;
use tautline_io::thread::Scheduler;
use tautline_lab::impair::{BitRate, Outage, Reordering, Share};
use tautline_proto::time::Span;
use tautline_sim::preset::Preset;

use crate::flags::{PlainKind, parse, span};
use crate::help;

/// `taut lab impair`
#[derive(Debug, Args)]
#[command(after_help = help::impair())]
pub(crate) struct Impair {
    /// Where a sender sends to instead of to the receiver: HOST:PORT of this machine, or a group
    #[arg(long, value_name = "ADDRESS", value_parser = Address::to_listen_at)]
    pub(crate) listen: Address,
    /// Where the receiver is: HOST:PORT, or a group
    #[arg(long, value_name = "ADDRESS", value_parser = Address::to_relay_to)]
    pub(crate) to: Address,
    /// The network to be like: wired, switch-under-load, wifi-5ghz, wifi-bad, wan or satellite;
    /// what else is said here stands before it [default: one that does nothing]
    #[arg(long, value_name = "NAME", value_parser = parse::<Preset>, help_heading = "Network")]
    pub(crate) preset: Option<Preset>,
    /// How long every packet takes at least
    #[arg(long, value_name = "TIME", value_parser = span, help_heading = "Network")]
    pub(crate) delay: Option<Span>,
    /// How much longer each may take, evenly between nothing and this, in order
    #[arg(long, value_name = "TIME", value_parser = span, help_heading = "Network")]
    pub(crate) jitter: Option<Span>,
    /// How many are lost, such as 5%
    #[arg(long, value_name = "SHARE", value_parser = parse::<Share>, help_heading = "Network")]
    pub(crate) loss: Option<Share>,
    /// In bursts of this many on average
    #[arg(long, value_name = "PACKETS", value_parser = burst, help_heading = "Network")]
    pub(crate) burst: Option<f64>,
    /// How many are held back so that others overtake them, such as 1%; 1%+5ms says for how long
    /// [default: for 2ms]
    #[arg(long, value_name = "SHARE", value_parser = parse::<Reordering>, help_heading = "Network")]
    pub(crate) reorder: Option<Reordering>,
    /// How many come twice, such as 1%
    #[arg(long, value_name = "SHARE", value_parser = parse::<Share>, help_heading = "Network")]
    pub(crate) duplicate: Option<Share>,
    /// What the narrowest wire carries, such as 10Mbit; an eighth of a second may wait before it
    #[arg(long, value_name = "RATE", value_parser = parse::<BitRate>, help_heading = "Network")]
    pub(crate) rate: Option<BitRate>,
    /// Largest IP packet that is carried whole; longer ones go in parts, each with its own luck
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(68..),
          help_heading = "Network")]
    pub(crate) mtu: Option<u16>,
    /// Nothing comes through, such as 10s+2s: after ten seconds, for two; any number of times
    #[arg(long, value_name = "TIME+TIME", value_parser = parse::<Outage>,
          help_heading = "Network")]
    pub(crate) outage: Vec<Outage>,
    /// Delays and losses as they were recorded on another network: see Records
    #[arg(long, value_name = "FILE.csv", help_heading = "Network")]
    pub(crate) trace: Option<PathBuf>,
    /// Play the record once, not again and again
    #[arg(long, requires = "trace", help_heading = "Network")]
    pub(crate) once: bool,
    /// What happens to what comes back, which is RTCP: the same, or nothing but the delay
    #[arg(long, value_name = "HOW", default_value = "same", help_heading = "Network")]
    pub(crate) back: Back,
    /// The same number makes the same luck
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Run")]
    pub(crate) seed: u64,
    /// Stop after this long, such as 10s; else at Ctrl-C
    #[arg(long, value_name = "TIME", value_parser = span, help_heading = "Run")]
    pub(crate) duration: Option<Span>,
    /// Priority of the relay's thread: above those of sender and receiver on the same machine
    #[arg(long, value_name = "CLASS", default_value = "fifo:75", value_parser = parse::<Scheduler>,
          help_heading = "Run")]
    pub(crate) scheduler: Scheduler,
    /// What to print at the end
    #[arg(long, value_name = "KIND", default_value = "text", help_heading = "Run")]
    pub(crate) report: PlainKind,
}

/// What happens to what comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Back {
    /// The same as there
    Same,
    /// Nothing but the delay
    Ideal,
}

fn burst(text: &str) -> Result<f64, String> {
    let length = text.parse::<f64>().ok().filter(|length| (1.0..=1e6).contains(length));
    length.ok_or_else(|| format!("`{text}` is no length of a burst; write 3"))
}
