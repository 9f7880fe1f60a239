//! The options of experiments that send streams between two hosts.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;
use tautline_audio::DeviceSpec;
use tautline_io::thread::Scheduler;
use tautline_lab::burden::{BusyHost, Noise, TcpRate};
use tautline_lab::hosts::HostPlace;
use tautline_lab::impair::Share;
use tautline_lab::ladder::{RUNGS, Rung};
use tautline_lab::network::NetworkPart;
use tautline_lab::starved::Hunger;
use tautline_proto::stream::LONGEST_LINK_OFFSET;
use tautline_proto::time::Span;
use tautline_proto::units::Rate;

use super::Reporting;
use crate::flags::{parse, rate, span};
use crate::help;

/// Where a stream goes that is sent from here.
#[derive(Debug, Args)]
pub(crate) struct FarEnd {
    /// Where the receiver is: local, netns:NAME or ssh:HOST, where `taut` of this version must be
    #[arg(long, value_name = "PLACE", default_value = "local", value_parser = parse::<HostPlace>,
          help_heading = "Hosts")]
    pub(crate) with: HostPlace,
    /// By which address it is reached [default: the first that a datagram arrives at]
    #[arg(long, value_name = "IP", help_heading = "Hosts")]
    pub(crate) at: Option<IpAddr>,
}

/// What every experiment that sends a stream has.
#[derive(Debug, Args)]
pub(crate) struct Streams {
    #[command(flatten)]
    pub(crate) far: FarEnd,
    #[command(flatten)]
    pub(crate) clocks: ClockFlags,
    /// What is sent: a device there is [default: noise on a virtual card]
    #[arg(long, short, value_name = "DEVICE", value_parser = device, help_heading = "Devices")]
    pub(crate) input: Option<String>,
    /// Where it is played [default: a virtual card]
    #[arg(long, short, value_name = "DEVICE", value_parser = device, help_heading = "Devices")]
    pub(crate) output: Option<String>,
    /// Sample rate
    #[arg(long, value_name = "HZ", default_value = "48000", value_parser = rate,
          help_heading = "Devices")]
    pub(crate) rate: Rate,
    /// Priority of the devices' threads
    #[arg(long, value_name = "CLASS", value_parser = parse::<Scheduler>, help_heading = "Devices")]
    pub(crate) scheduler: Option<Scheduler>,
    /// How long the stream settles before packets count, from 1s on
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = settle,
          help_heading = "Run")]
    pub(crate) settle: Span,
    /// How long packets count in each row
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = span,
          help_heading = "Run")]
    pub(crate) duration: Span,
    #[command(flatten)]
    pub(crate) reporting: Reporting,
}

/// How well two hosts must know each other's clocks.
#[derive(Debug, Args)]
pub(crate) struct ClockFlags {
    /// Between hosts of two clocks, a row is void whose median may be off by more, either way; of one
    /// clock none is [default: 250us]
    #[arg(long, value_name = "TIME", value_parser = span, help_heading = "Hosts")]
    max_uncertainty: Option<Span>,
}

impl ClockFlags {
    /// Of a figure that says how long something took.
    pub(crate) fn most(&self) -> Span {
        self.max_uncertainty.unwrap_or(Span::from_micros(250))
    }

    /// Of what is judged by packets that are missed, which is as sure by whatever clocks.
    pub(crate) const fn asked(&self) -> Option<Span> {
        self.max_uncertainty
    }
}

/// The same of what judges by packets that are missed.
const ANY_UNCERTAINTY: &str = "Between hosts of two clocks, a row is void whose median may be off by more, either way \
                               [default: any, as it is judged by what is missed]";
/// The same of what tells processor time.
const LATENCIES_UNCERTAINTY: &str = "Between hosts of two clocks, latencies are left out whose median may be off by more, \
                                     either way [default: 250us]";

/// The words of a device, which is opened by another program: what is none is known before that begins.
fn device(text: &str) -> Result<String, String> {
    parse::<DeviceSpec>(text).map(|_| text.to_owned())
}

fn settle(text: &str) -> Result<Span, String> {
    match span(text)? {
        settle if settle >= Span::from_secs(1) => Ok(settle),
        _ => Err(format!("{text} is too short for a stream to begin; write 1s or more")),
    }
}

/// What keeps the receiver's host busy, where anything does.
#[derive(Debug, Args)]
pub(crate) struct BusyFlags {
    /// What loads the receiver's host meanwhile: spin (a thread for each processor), spin:N, or
    /// stress-ng with its options and their values, such as stress-ng:cpu,4 [default: nothing]
    #[arg(long, value_name = "LOAD", value_parser = parse::<BusyHost>, help_heading = "Run")]
    pub(crate) load: Option<BusyHost>,
}

/// `taut lab ladder`
#[derive(Debug, Args)]
#[command(after_help = help::lab::LADDER)]
pub(crate) struct Ladder {
    /// Only this one, such as `test 10`; any number of times
    #[arg(long, value_name = "NAME", value_parser = rung, help_heading = "Run")]
    pub(crate) rung: Vec<Rung>,
    /// What else the network carries: silent, noisy (multicast that nobody handles, and small packets that
    /// a program reads) or unhandled (the multicast alone); once for each
    #[arg(long, value_name = "NOISE", default_value = "silent", value_parser = parse::<Noise>,
          help_heading = "Network")]
    pub(crate) noise: Vec<Noise>,
    /// What TCP carries on top of noise: a rate such as 100Mbit, or full [default: nothing]
    #[arg(long, value_name = "RATE", value_parser = parse::<TcpRate>, help_heading = "Network")]
    pub(crate) tcp_rate: Option<TcpRate>,
    #[command(flatten)]
    pub(crate) busy: BusyFlags,
    #[command(flatten)]
    pub(crate) streams: Streams,
}

/// How much of a stream is taken at once.
#[derive(Debug, Args)]
pub(crate) struct BlockSizes {
    /// Audio time in one packet
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = span,
          help_heading = "Stream")]
    pub(crate) ptime: Span,
    /// Frames that each device takes at a time
    #[arg(long, value_name = "FRAMES", default_value_t = 48, help_heading = "Stream",
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) period: u32,
}

/// Of the one stream that an experiment sends.
#[derive(Debug, Args)]
pub(crate) struct Shape {
    #[command(flatten)]
    pub(crate) blocks: BlockSizes,
    /// The link offset
    #[arg(long, value_name = "TIME", default_value = "5ms", value_parser = span,
          help_heading = "Stream")]
    pub(crate) latency: Span,
}

/// `taut lab least`
#[derive(Debug, Args)]
#[command(after_help = help::lab::LEAST, mut_arg("max_uncertainty", |arg| arg.help(ANY_UNCERTAINTY)))]
pub(crate) struct LeastFlags {
    /// Latencies are whole steps of this
    #[arg(long, value_name = "TIME", default_value = "100us", value_parser = step,
          help_heading = "Run")]
    pub(crate) step: Span,
    /// Begin at this latency [default: what packets and the receiver's buffer take]
    #[arg(long, value_name = "TIME", value_parser = span, help_heading = "Run")]
    pub(crate) first: Option<Span>,
    /// No greater latency than this
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = most,
          help_heading = "Run")]
    pub(crate) most: Span,
    /// The least that goes is held for so long
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = span,
          help_heading = "Run")]
    pub(crate) hold: Span,
    #[command(flatten)]
    pub(crate) busy: BusyFlags,
    #[command(flatten)]
    pub(crate) blocks: BlockSizes,
    /// Periods that each device's buffer holds
    #[arg(long, value_name = "N", default_value_t = 2, help_heading = "Stream",
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) periods: u32,
    #[command(flatten)]
    pub(crate) streams: Streams,
}

fn step(text: &str) -> Result<Span, String> {
    match span(text)? {
        step if step >= Span::from_micros(1) => Ok(step),
        _ => Err(format!("{text} is no step; write 1us or more")),
    }
}

fn most(text: &str) -> Result<Span, String> {
    match span(text)? {
        most if most <= LONGEST_LINK_OFFSET => Ok(most),
        _ => Err(format!("no latency is longer than {LONGEST_LINK_OFFSET}; write that or less")),
    }
}

/// `taut lab stages`
#[derive(Debug, Args)]
#[command(after_help = help::lab::STAGES)]
pub(crate) struct StagesFlags {
    #[command(flatten)]
    pub(crate) busy: BusyFlags,
    #[command(flatten)]
    pub(crate) shape: Shape,
    #[command(flatten)]
    pub(crate) streams: Streams,
}

/// `taut lab schedulers`
#[derive(Debug, Args)]
#[command(after_help = help::lab::SCHEDULERS)]
pub(crate) struct Schedulers {
    /// Only cases whose name begins so, such as `fifo`; any number of times
    #[arg(long, value_name = "NAME", help_heading = "Run")]
    pub(crate) case: Vec<String>,
    /// What loads the receiver's host: spin (a thread for each processor), spin:N, or stress-ng
    /// with its options and their values, such as stress-ng:cpu,4
    #[arg(long, value_name = "LOAD", default_value = "spin", value_parser = parse::<BusyHost>,
          help_heading = "Run")]
    pub(crate) load: BusyHost,
    /// The sender's processor and the receiver's, such as 2,3; of cases on one core, the first for
    /// both [default: any, and 0 for both]
    #[arg(long, value_name = "CORES", value_delimiter = ',', num_args = 1..=2,
          help_heading = "Run")]
    pub(crate) cpus: Vec<usize>,
    #[command(flatten)]
    pub(crate) shape: Shape,
    #[command(flatten)]
    pub(crate) streams: Streams,
}

/// `taut lab load`
#[derive(Debug, Args)]
#[command(after_help = help::lab::LOAD, mut_arg("max_uncertainty", |arg| arg.help(ANY_UNCERTAINTY)))]
pub(crate) struct LoadFlags {
    /// No more streams than this
    #[arg(long, value_name = "N", default_value_t = 256, help_heading = "Run",
          value_parser = clap::value_parser!(u16).range(1..=2048))]
    pub(crate) most: u16,
    /// The most that went is held for so many times the duration
    #[arg(long, value_name = "N", default_value_t = 3, help_heading = "Run",
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) hold: u16,
    /// How many packets may be missed, such as 0.1%, beside those that a freeze of the host cost
    #[arg(long, value_name = "SHARE", default_value = "0%", value_parser = parse::<Share>,
          help_heading = "Run")]
    pub(crate) allow: Share,
    #[command(flatten)]
    pub(crate) busy: BusyFlags,
    #[command(flatten)]
    pub(crate) shape: Shape,
    #[command(flatten)]
    pub(crate) streams: Streams,
}

/// `taut lab overhead`
#[derive(Debug, Args)]
#[command(after_help = help::lab::OVERHEAD, mut_arg("max_uncertainty", |arg| arg.help(LATENCIES_UNCERTAINTY)))]
pub(crate) struct Overhead {
    /// How often each kind is run
    #[arg(long, value_name = "N", default_value_t = 8, help_heading = "Run",
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: u32,
    #[command(flatten)]
    pub(crate) shape: Shape,
    #[command(flatten)]
    pub(crate) streams: Streams,
}

/// `taut lab network`
#[derive(Debug, Args)]
#[command(after_help = help::lab::NETWORK)]
pub(crate) struct Network {
    /// Only this: ambient (what the network carries without a stream), silent, multicast, chatter, tcp, all or overhead;
    /// any number of times
    #[arg(long, value_name = "PART", value_parser = parse::<NetworkPart>, help_heading = "Run")]
    pub(crate) only: Vec<NetworkPart>,
    /// Report the ambient traffic of a capture, pcap or pcapng, and send nothing
    #[arg(long, value_name = "FILE", conflicts_with_all = ["only", "with", "load", "duration"],
          help_heading = "Run")]
    pub(crate) pcap: Option<PathBuf>,
    /// What TCP carries where there is any: a rate such as 100Mbit, or full
    #[arg(long, value_name = "RATE", default_value = "full", value_parser = parse::<TcpRate>,
          help_heading = "Network")]
    pub(crate) tcp_rate: TcpRate,
    #[command(flatten)]
    pub(crate) busy: BusyFlags,
    #[command(flatten)]
    pub(crate) streams: Streams,
}

/// `taut lab starved`
#[derive(Debug, Args)]
#[command(after_help = help::lab::STARVED)]
pub(crate) struct Starved {
    /// Only this: 100%, 50%, 20%, 10%, shared or memory; any number of times
    #[arg(long, value_name = "SHARE", value_parser = parse::<Hunger>, help_heading = "Run")]
    pub(crate) only: Vec<Hunger>,
    #[command(flatten)]
    pub(crate) streams: Streams,
}

fn rung(text: &str) -> Result<Rung, String> {
    let found = RUNGS.into_iter().find(|rung| rung.name == text);
    found.ok_or_else(|| {
        let names = RUNGS.map(|rung| format!("`{}` ({})", rung.name, rung.latency)).join(", ");
        format!("`{text}` is no rung; there are {names}")
    })
}
