//! The options of `taut lab quality`.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Arg, Args};
use tautline_lab::burden::{Noise, TcpRate};
use tautline_lab::quality::CASES;
use tautline_proto::units::Rate;

use super::Reporting;
use super::streams::{FarEnd, Shape};
use crate::flags::{parse, rate};
use crate::help;

/// `taut lab quality`
#[derive(Debug, Args)]
#[command(after_help = help::lab::QUALITY, mut_arg("latency", unhurried))]
pub(crate) struct QualityFlags {
    /// Only this; any number of times
    #[arg(long, value_name = "CASE", value_parser = PossibleValuesParser::new(CASES),
          conflicts_with_all = ["send", "recv"], help_heading = "Run")]
    pub(crate) only: Vec<String>,
    /// Options of taut send, parted by spaces, such as "--format l16"
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true, help_heading = "Stream")]
    pub(crate) send: Option<String>,
    /// Options of taut recv, the same
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true, help_heading = "Stream")]
    pub(crate) recv: Option<String>,
    /// Repeat each row with network noise: noisy (multicast that no program reads, and small packets that one reads) or
    /// unhandled (the multicast alone); repeatable
    #[arg(long, value_name = "NOISE", value_parser = parse::<Noise>, help_heading = "Network")]
    pub(crate) noise: Vec<Noise>,
    /// Rate of TCP on top of noise, such as 100Mbit, or full [default: no TCP]
    #[arg(long, value_name = "RATE", value_parser = parse::<TcpRate>, requires = "noise",
          help_heading = "Network")]
    pub(crate) tcp_rate: Option<TcpRate>,
    #[command(flatten)]
    pub(crate) shape: Shape,
    /// Periods in each device's buffer, as long as a freeze that is to be outlasted
    #[arg(long, value_name = "N", default_value_t = 64, help_heading = "Stream",
          value_parser = clap::value_parser!(u32).range(2..=64))]
    pub(crate) periods: u32,
    /// A WAV or FLAC that is sent instead, under this path at both ends
    #[arg(long, short, value_name = "FILE", help_heading = "Sound")]
    pub(crate) input: Option<PathBuf>,
    /// Sample rate of the built-in sound
    #[arg(long, value_name = "HZ", default_value = "48000", value_parser = rate,
          conflicts_with = "input", help_heading = "Sound")]
    pub(crate) rate: Rate,
    #[command(flatten)]
    pub(crate) far: FarEnd,
    #[command(flatten)]
    pub(crate) reporting: Reporting,
}

/// Freezes of a machine are no matter of quality.
fn unhurried(latency: Arg) -> Arg {
    latency
        .default_value("200ms")
        .help("The link offset: so long that no freeze of a machine is heard, which is no matter of quality")
}

/// `taut lab sound`
#[derive(Debug, Args)]
pub(crate) struct KnownSound {
    /// Where it is written
    pub(crate) path: PathBuf,
    /// Its sample rate
    #[arg(long, value_name = "HZ", default_value = "48000", value_parser = rate)]
    pub(crate) rate: Rate,
    /// Bits of its samples
    #[arg(long, value_name = "N", default_value_t = 24,
          value_parser = clap::value_parser!(u16).range(16..=24))]
    pub(crate) bits: u16,
}
