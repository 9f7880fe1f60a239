//! `taut lab capacity`

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use tautline_io::thread::Scheduler;
use tautline_lab::capacity::{CapacityGrid, CapacityWork};
use tautline_lab::impair::{BitRate, Share};
use tautline_proto::time::Span;
use tautline_proto::units::Rate;

use super::Reporting;
use crate::flags::{parse, rate, span};
use crate::help;

/// `taut lab capacity`
#[derive(Debug, Args)]
#[command(after_help = help::lab::CAPACITY)]
pub(crate) struct CapacityFlags {
    /// Many points at once, instead of the one that the options below say
    #[arg(long, value_name = "GRID", conflicts_with_all = ["rate", "period", "window", "workers"])]
    pub(crate) grid: Option<GridName>,
    /// Sample rate
    #[arg(long, value_name = "HZ", default_value = "96000", value_parser = rate,
          help_heading = "Point")]
    pub(crate) rate: Rate,
    /// Frames that the host hands out at a time: 210 are 2.19ms at 96000 Hz
    #[arg(long, value_name = "FRAMES", default_value_t = 210, help_heading = "Point",
          value_parser = clap::value_parser!(u32).range(16..=4096))]
    pub(crate) period: u32,
    /// Blocks under way: 0 is back within its own period
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Point",
          value_parser = clap::value_parser!(u32).range(0..=16))]
    pub(crate) window: u32,
    /// Workers, each a machine with one plugin; 0 is the plugin on this machine alone
    #[arg(long, value_name = "N", default_value_t = 7, help_heading = "Point",
          value_parser = clap::value_parser!(u8).range(0..=32))]
    pub(crate) workers: u8,
    /// How long the host's call waits for an answer at most, where there is a window
    /// [default: 0, or as the grid has it]
    #[arg(long, value_name = "TIME", value_parser = span, help_heading = "Point")]
    pub(crate) wait: Option<Span>,
    /// Let the plugins' time pass by a timer, so that a few cores stand for many machines
    #[arg(long, help_heading = "Plugin")]
    pub(crate) virtual_work: bool,
    /// What takes the time
    #[arg(long, value_name = "KIND", default_value = "fixed", help_heading = "Plugin")]
    pub(crate) work: WorkName,
    /// Where libtautline_ladspa_cost.so is, which `make plugins` builds [default: in LADSPA_PATH, beside
    /// `taut`, or installed with it]
    #[arg(long, value_name = "FOLDER", help_heading = "Plugin")]
    pub(crate) plugins: Option<PathBuf>,
    /// From one cost to the next
    #[arg(long, value_name = "TIME", default_value = "100us", value_parser = span,
          help_heading = "Search")]
    pub(crate) step: Span,
    /// What is found is known to within this
    #[arg(long, value_name = "TIME", default_value = "10us", value_parser = span,
          help_heading = "Search")]
    pub(crate) fine: Span,
    /// How long each cost is tried
    #[arg(long, value_name = "TIME", default_value = "300ms", value_parser = span,
          help_heading = "Search")]
    pub(crate) attempt: Span,
    /// How often a cost that misses 2 % is tried before it counts as too much
    #[arg(long, value_name = "N", default_value_t = 3, help_heading = "Search",
          value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) tries: u32,
    /// How long the workers are idle first, and a bare exchange goes on last
    #[arg(long, value_name = "TIME", default_value = "4s", value_parser = span,
          help_heading = "Search")]
    pub(crate) idle: Span,
    /// How long the greatest cost that went is held
    #[arg(long, value_name = "TIME", default_value = "8s", value_parser = span,
          help_heading = "Search")]
    pub(crate) hold: Span,
    /// So many blocks of all may be missed while it is held: sporadic ones of a machine that others use too
    #[arg(long, value_name = "SHARE", default_value = "0%", value_parser = parse::<Share>,
          help_heading = "Search")]
    pub(crate) allow: Share,
    /// Join master and workers by a switch with links of so many bits per second, such as 100Mbit
    #[arg(long, value_name = "RATE", value_parser = parse::<BitRate>,
          conflicts_with_all = ["local", "workers_here"], help_heading = "Machines")]
    pub(crate) link_rate: Option<BitRate>,
    /// Run the workers on this machine's loopback: no root, no network namespaces
    #[arg(long, help_heading = "Machines")]
    pub(crate) local: bool,
    /// Run the workers as threads of this program: no program is started
    #[arg(long, conflicts_with = "local", help_heading = "Machines")]
    pub(crate) workers_here: bool,
    /// Neither encrypt nor authenticate blocks, to see what that costs
    #[arg(long, requires = "local", help_heading = "Machines")]
    pub(crate) cleartext: bool,
    /// Let a JACK server without a card (`jackd -d dummy`, started for it) call the master instead of a timer, and tell
    /// the xruns that it counts
    #[arg(long, help_heading = "Machines")]
    pub(crate) jack: bool,
    /// Priority of the master's thread
    #[arg(long, value_name = "CLASS", default_value = "fifo:80", value_parser = parse::<Scheduler>,
          help_heading = "Machines")]
    pub(crate) scheduler: Scheduler,
    #[command(flatten)]
    pub(crate) reporting: Reporting,
}

/// Grids, by their names on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum GridName {
    /// Figures 5 to 8 of Lago and Kon 2003
    Paper,
    /// What tautline holds itself to
    Goals,
}

impl From<GridName> for CapacityGrid {
    fn from(grid: GridName) -> Self {
        match grid {
            GridName::Paper => Self::Paper,
            GridName::Goals => Self::Goals,
        }
    }
}

/// What takes the time, by its name on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum WorkName {
    /// Every block takes as long
    Fixed,
    /// A block takes up to twice as long as another
    Random,
    /// Once in a while a block takes twice as long
    Burst,
    /// Every block takes as long, on memory that no cache holds
    Cache,
}

impl From<WorkName> for CapacityWork {
    fn from(work: WorkName) -> Self {
        match work {
            WorkName::Fixed => Self::Fixed,
            WorkName::Random => Self::Random,
            WorkName::Burst => Self::Burst,
            WorkName::Cache => Self::Cache,
        }
    }
}

/// `taut lab echo`
#[derive(Debug, Args)]
pub(crate) struct EchoFlags {
    /// Where datagrams arrive; UDP port 0 is one that is free
    #[arg(long, value_name = "IP:PORT")]
    pub(crate) listen: SocketAddr,
    /// Priority of the thread that sends them back
    #[arg(long, value_name = "CLASS", value_parser = parse::<Scheduler>)]
    pub(crate) scheduler: Scheduler,
}
