//! Loads that disturb a stream: each has normal priority, runs until stopped, and reports the load
//! it caused.

mod bulk;
mod busy;
mod datagrams;
mod message;
mod noise;
mod processor;
mod running;
#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;

use clap::{Args, Subcommand};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use tautline_io::clock::now;
use tautline_io::thread::Scheduler;
use tautline_proto::device::Stop;
use tautline_proto::time::{LocalTime, Span};
use tautline_ui::failure::Failure;
use tautline_ui::readers::span;
use thiserror::Error;

use crate::answer::print_json;
use crate::impair::BitRate;
use crate::signals::stop_with_agent;
pub use busy::BusyHost;
pub use noise::{Alongside, Noise, TcpRate};
pub(crate) use running::{LoadSide, RunningBurdens, among};

/// `taut lab loadgen`
#[derive(Debug, Args)]
pub struct LoadgenFlags {
    /// Time limit [default: until Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = span)]
    longest: Option<Span>,
    #[command(subcommand)]
    kind: LoadKind,
}

/// A load. Each prints a report as JSON when it ends.
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum LoadKind {
    /// Load the processor with busy threads
    Cpu {
        /// Number of threads
        #[arg(long, value_name = "N", default_value_t = 1,
              value_parser = clap::value_parser!(u32).range(1..=1024))]
        threads: u32,
    },
    // Busy 80 % of the time: the kernel throttles a thread that takes all.
    /// Load one core with a thread that has a stream's scheduler
    Rival {
        /// Scheduler
        #[arg(long, value_name = "CLASS")]
        scheduler: Scheduler,
        /// Core
        #[arg(long, value_name = "CORE")]
        core: usize,
    },
    /// Run stress-ng, if it is installed
    StressNg {
        /// Arguments of stress-ng
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        words: Vec<String>,
    },
    /// Load the memory by writing each page again and again
    Memory {
        /// Number of bytes
        #[arg(long, value_name = "BYTES", default_value_t = 256 << 20,
              value_parser = clap::value_parser!(u64).range(4096..1 << 40))]
        bytes: u64,
    },
    /// Load the network with packets to a group without members
    Multicast {
        /// Local address on that network
        #[arg(long, value_name = "IP:PORT")]
        by: SocketAddr,
        /// Rate of the IP packets
        #[arg(long, value_name = "RATE", default_value_t = MULTICAST_RATE)]
        rate: BitRate,
    },
    // Sent in bursts; the rate is an average.
    /// Load the network and the receiver with small packets that a chatter-sink reads
    Chatter {
        /// Address of the chatter-sink
        #[arg(long, value_name = "IP:PORT")]
        to: SocketAddr,
        /// Packets per second
        #[arg(long, value_name = "N", default_value_t = CHATTER_RATE,
              value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
        rate: u32,
    },
    /// Read each packet of a chatter
    ChatterSink {
        /// Address to listen at
        #[arg(long, value_name = "IP:PORT")]
        at: SocketAddr,
    },
    /// Load the network with TCP
    Tcp {
        /// Address of the tcp-sink
        #[arg(long, value_name = "IP:PORT")]
        to: SocketAddr,
        /// Rate [default: unlimited]
        #[arg(long, value_name = "RATE")]
        rate: Option<BitRate>,
    },
    /// Read TCP data
    TcpSink {
        /// Address to listen at
        #[arg(long, value_name = "IP:PORT")]
        at: SocketAddr,
    },
}

pub(crate) fn run(flags: &LoadgenFlags) -> Result<(), Failure> {
    let stop = stop_with_agent()?;
    let report = flags.kind.run(&stop, flags.longest);
    print_json(&report.map_err(|error| Failure::open(error.to_string()))?)
}

/// Default rate, mostly multicast as in the thesis's noisy network (section 3.1.1).
pub const MULTICAST_RATE: BitRate = BitRate(4_000_000);
/// Default packets per second: 2.5 times as many as a 1 ms stream.
pub const CHATTER_RATE: u32 = 2500;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadgenReport {
    pub schema: u32,
    pub kind: String,
    pub duration_ns: i64,
    pub cpu_ns: i64,
    pub packets: u64,
    /// Bytes without headers; for multicast, bytes of whole IP packets.
    pub bytes: u64,
    pub understood: u64,
    /// Packets rejected by the kernel; not in `packets`.
    pub refused: u64,
    pub rounds: u64,
    #[serde(skip)]
    since: Option<LocalTime>,
}

impl LoadgenReport {
    pub fn per_second(&self, count: u64) -> f64 {
        count as f64 * 1e9 / self.duration_ns.max(1) as f64
    }

    pub fn megabits(&self) -> f64 {
        self.per_second(self.bytes) * 8.0 / 1e6
    }

    fn tried(&self) -> u64 {
        self.packets + self.refused
    }

    fn sent(&mut self, bytes: io::Result<u64>) {
        match bytes {
            Ok(bytes) => {
                self.packets += 1;
                self.bytes += bytes;
            }
            Err(_) => self.refused += 1,
        }
    }
}

#[derive(Debug, Error)]
pub enum LoadgenError {
    #[error("{what} {address}: {error}\nhint: check the address, and that the port is free")]
    Socket { what: &'static str, address: SocketAddr, error: io::Error },
    #[error("cannot send multicast via the network of {address}: {error}")]
    NoNetwork { address: SocketAddr, error: io::Error },
    #[error(
        "cannot run stress-ng: {0}\nhint: install it (apt install stress-ng), or use --load spin"
    )]
    NoStressNg(io::Error),
    #[error("stress-ng {words} ended with {status}: {said}")]
    StressNg { words: String, status: String, said: String },
    #[error("competing thread ({scheduler}, core {core}): {why}")]
    Rival { scheduler: Scheduler, core: usize, why: String },
    #[error("{what}: {error}")]
    System { what: &'static str, error: io::Error },
}

struct Until<'a> {
    stop: &'a Stop,
    ends: Option<LocalTime>,
}

const BEAT: Span = Span::from_millis(50);

impl Until<'_> {
    fn is_over(&self) -> bool {
        self.stop.is_requested() || self.ends.is_some_and(|ends| now() >= ends)
    }

    /// `false` if the load ends before `due`.
    fn sleep(&self, due: LocalTime) -> bool {
        while !self.is_over() {
            if due <= now() {
                return true;
            }
            tautline_io::clock::sleep_until(due.min(now() + BEAT));
        }
        false
    }
}

impl LoadKind {
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Cpu { .. } => "cpu",
            Self::Rival { .. } => "rival",
            Self::StressNg { .. } => "stress-ng",
            Self::Memory { .. } => "memory",
            Self::Multicast { .. } => "multicast",
            Self::Chatter { .. } => "chatter",
            Self::ChatterSink { .. } => "chatter-sink",
            Self::Tcp { .. } => "tcp",
            Self::TcpSink { .. } => "tcp-sink",
        }
    }

    pub fn words(&self) -> Vec<String> {
        let own = match self {
            Self::Cpu { threads } => format!("--threads {threads}"),
            Self::Rival { scheduler, core } => format!("--scheduler {scheduler} --core {core}"),
            Self::StressNg { words } => return [&[self.kind().to_owned()], &words[..]].concat(),
            Self::Memory { bytes } => format!("--bytes {bytes}"),
            Self::Multicast { by, rate } => format!("--by {by} --rate {rate}"),
            Self::Chatter { to, rate } => format!("--to {to} --rate {rate}"),
            Self::Tcp { to, rate: Some(rate) } => format!("--to {to} --rate {rate}"),
            Self::Tcp { to, rate: None } => format!("--to {to}"),
            Self::ChatterSink { at } | Self::TcpSink { at } => format!("--at {at}"),
        };
        [self.kind()].into_iter().chain(own.split(' ')).map(str::to_owned).collect()
    }

    pub fn run(&self, stop: &Stop, longest: Option<Span>) -> Result<LoadgenReport, LoadgenError> {
        let begun = now();
        let until = Until { stop, ends: longest.map(|longest| begun + longest) };
        let report = match self {
            Self::Cpu { threads } => processor::turn(*threads, &until),
            Self::Rival { scheduler, core } => processor::rival(*scheduler, *core, &until),
            Self::StressNg { words } => processor::stress_ng(words, &until),
            Self::Memory { bytes } => Ok(processor::touch(*bytes, &until)),
            Self::Multicast { by, rate } => datagrams::multicast(*by, *rate, &until),
            Self::Chatter { to, rate } => datagrams::chatter(*to, *rate, &until),
            Self::ChatterSink { at } => datagrams::listen(*at, &until),
            Self::Tcp { to, rate } => bulk::send(*to, *rate, &until),
            Self::TcpSink { at } => bulk::receive(*at, &until),
        }?;
        Ok(LoadgenReport {
            schema: 2,
            kind: self.kind().to_owned(),
            duration_ns: (now() - report.since.unwrap_or(begun)).as_nanos(),
            cpu_ns: own_time(),
            ..report
        })
    }
}

fn own_time() -> i64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}
