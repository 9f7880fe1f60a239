//! The command line of what disturbs, which agents start.

use std::net::{IpAddr, SocketAddr};

use clap::{Args, Subcommand};
use tautline_io::thread::Scheduler;
use tautline_lab::burden::{Burden, CHATTER_RATE, MULTICAST_RATE};
use tautline_lab::impair::BitRate;
use tautline_proto::time::Span;

use crate::flags::{parse, span};

/// `taut lab burden`
#[derive(Debug, Args)]
pub(crate) struct Burdening {
    /// Stop after this long; else at Ctrl-C
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) longest: Option<Span>,
    #[command(subcommand)]
    pub(crate) kind: BurdenKind,
}

/// `taut lab traffic`: beside a stream, or the ambient traffic if there is none.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct Watching {
    /// The stream goes to this address
    #[arg(long, value_name = "IP")]
    pub(crate) to: Option<IpAddr>,
    /// The stream comes to this address
    #[arg(long, value_name = "IP")]
    pub(crate) at: Option<IpAddr>,
}

/// What is burdened. Each prints a report as JSON when it ends.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum BurdenKind {
    /// The processor, by threads that do nothing else than turn
    Cpu {
        /// How many
        #[arg(long, value_name = "N", default_value_t = 1,
              value_parser = clap::value_parser!(u32).range(1..=1024))]
        threads: u32,
    },
    /// One processor, by a thread that is as urgent as a stream's
    Rival {
        /// Its scheduler
        #[arg(long, value_name = "CLASS", value_parser = parse::<Scheduler>)]
        scheduler: Scheduler,
        /// The processor
        #[arg(long, value_name = "CORE")]
        core: usize,
    },
    /// Whatever stress-ng burdens, if it is installed
    StressNg {
        /// Its own words
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        words: Vec<String>,
    },
    /// The memory, by writing each page again and again
    Memory {
        /// How much
        #[arg(long, value_name = "BYTES", default_value_t = 256 << 20,
              value_parser = clap::value_parser!(u64).range(4096..1 << 40))]
        bytes: u64,
    },
    /// The network, by packets to a group that nobody joined
    Multicast {
        /// An address on that network
        #[arg(long, value_name = "IP:PORT")]
        by: SocketAddr,
        /// Of the IP packets
        #[arg(long, value_name = "RATE", default_value_t = MULTICAST_RATE,
              value_parser = parse::<BitRate>)]
        rate: BitRate,
    },
    /// The network and the receiver, by small packets that a chatter-sink reads
    Chatter {
        /// Where that is
        #[arg(long, value_name = "IP:PORT")]
        to: SocketAddr,
        /// Packets per second
        #[arg(long, value_name = "N", default_value_t = CHATTER_RATE,
              value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
        rate: u32,
    },
    /// Read each packet of a chatter
    ChatterSink {
        /// Where
        #[arg(long, value_name = "IP:PORT")]
        at: SocketAddr,
    },
    /// The network, by TCP
    Tcp {
        /// Where a tcp-sink is
        #[arg(long, value_name = "IP:PORT")]
        to: SocketAddr,
        /// How much; as fast as it goes if it is not said
        #[arg(long, value_name = "RATE", value_parser = parse::<BitRate>)]
        rate: Option<BitRate>,
    },
    /// Read all that comes by TCP
    TcpSink {
        /// Where
        #[arg(long, value_name = "IP:PORT")]
        at: SocketAddr,
    },
}

impl From<BurdenKind> for Burden {
    fn from(kind: BurdenKind) -> Self {
        match kind {
            BurdenKind::Cpu { threads } => Self::Cpu(threads),
            BurdenKind::Rival { scheduler, core } => Self::Rival { scheduler, core },
            BurdenKind::StressNg { words } => Self::StressNg(words),
            BurdenKind::Memory { bytes } => Self::Memory(bytes),
            BurdenKind::Multicast { by, rate } => Self::Multicast { by, rate },
            BurdenKind::Chatter { to, rate } => Self::Chatter { to, rate },
            BurdenKind::ChatterSink { at } => Self::ChatterSink(at),
            BurdenKind::Tcp { to, rate } => Self::Tcp { to, rate },
            BurdenKind::TcpSink { at } => Self::TcpSink(at),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::flags::{Command, Lab, Taut};

    #[test]
    fn what_an_experiment_asks_an_agent_to_burden_is_understood() {
        let at: SocketAddr = ([10, 0, 0, 2], 5004).into();
        let rate = BitRate(1000);
        for burden in [
            Burden::Cpu(3),
            Burden::Rival { scheduler: Scheduler::RoundRobin(70), core: 1 },
            Burden::StressNg(vec!["--cpu".into(), "2".into()]),
            Burden::Memory(1 << 20),
            Burden::Multicast { by: at, rate },
            Burden::Chatter { to: at, rate: 9 },
            Burden::ChatterSink(at),
            Burden::Tcp { to: at, rate: Some(rate) },
            Burden::Tcp { to: at, rate: None },
            Burden::TcpSink(at),
        ] {
            let words = ["taut", "lab", "burden", "--longest", "3s"].map(str::to_owned);
            let words = words.into_iter().chain(burden.words());
            let read = Taut::try_parse_from(words).map(|taut| taut.command);
            let Ok(Command::Lab(Lab::Burden(Burdening { kind, .. }))) = read else {
                panic!("{read:?}")
            };
            assert_eq!(Burden::from(kind), burden);
        }
    }
}
