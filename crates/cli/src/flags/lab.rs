//! The command line of `taut lab`.

mod all;
mod burdens;
mod capacity;
mod impair;
mod interval;
mod machine;
mod marks;
mod mouth;
mod quality;
mod streams;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use tautline_proto::time::Span;

use super::{ReportKind, span};
use crate::help;
use crate::report_file::{ReportPath, report_path};

pub(crate) use all::All;
pub(crate) use burdens::{Burdening, Watching};
pub(crate) use capacity::{CapacityFlags, EchoFlags};
pub(crate) use impair::{Back, Impair};
pub(crate) use interval::{IntervalFlags, LoopFlags};
pub(crate) use machine::{Handover, KernelFlags, PacketsFlags, Resources, SampleFlags, Stalls};
pub(crate) use marks::{BetweenFlags, Delay, MarkShape, MarkSide, NamedDevice};
pub(crate) use mouth::{BesideFlags, MouthToEarFlags};
pub(crate) use quality::{KnownSound, QualityFlags};
pub(crate) use streams::{
    BlockSizes, Ladder, LeastFlags, LoadFlags, Network, Overhead, Schedulers, Shape, StagesFlags,
    Starved, Streams,
};

/// `taut lab`
#[derive(Debug, Subcommand)]
pub(crate) enum Lab {
    /// List the experiments
    List,
    /// Measure how long sound takes from one device to another, by time marks in the sound
    Delay(Box<Delay>),
    /// Measure how far apart two taps of one sound are: two channels of a recording or a card
    Between(Box<BetweenFlags>),
    /// Measure how long sound takes from the mouth at one end of a call to the ear at the other
    MouthToEar(Box<MouthToEarFlags>),
    /// Measure where the time of every packet goes, stage by stage, between two hosts
    Stages(Box<StagesFlags>),
    /// Measure how long packets take from the kernel's arrival to the program that reads them
    Kernel(Box<KernelFlags>),
    /// Measure whether latencies are kept, from 100 ms down to 3 ms
    Ladder(Box<Ladder>),
    /// Measure what the least latency is that loses nothing
    Least(Box<LeastFlags>),
    /// Measure which scheduler serves sound, quiet and loaded, apart and on one core
    Schedulers(Box<Schedulers>),
    /// Measure what else the network carries, and what that does to a stream
    Network(Box<Network>),
    /// Measure how regular blocks are on both sides of a sound device
    Handover(Box<Handover>),
    /// Measure a stream whose receiver has little processor or memory
    Starved(Box<Starved>),
    /// Measure how late this machine wakes a thread, and how long every core freezes
    Stalls(Stalls),
    /// Measure how busy this machine and its programs are, interval by interval
    Resources(Resources),
    /// Measure whether what is heard is the sound that was sent: bit for bit, or how else
    Quality(Box<QualityFlags>),
    /// Measure how many streams are carried without a miss
    Load(Box<LoadFlags>),
    /// Measure what measuring costs
    Overhead(Box<Overhead>),
    /// Measure at which intervals packets go or come: by a ledger, at a socket, from a capture
    Interval(Box<IntervalFlags>),
    /// Measure how much of a period plugins on other machines can use
    Capacity(Box<CapacityFlags>),
    /// Relay a stream as a bad network would: late, lost, reordered, twice
    Impair(Box<Impair>),
    /// Run every experiment once, shortly, and write a page that leads to their reports
    All(All),
    /// Report how two reports differ, stage by stage, and whether the second is worse by more than noise
    Compare(LabCompare),
    /// Do what an experiment on another host asks for, over standard input and output
    #[command(hide = true)]
    Agent,
    /// Burden this machine or the network until Ctrl-C, for an experiment
    #[command(hide = true)]
    Burden(Burdening),
    /// Play time marks until Ctrl-C, and then say when each met the DAC, for an experiment
    #[command(hide = true)]
    Play(Box<MarkSide>),
    /// Hear time marks until Ctrl-C, and then say when each met the ADC, for an experiment
    #[command(hide = true)]
    Hear(Box<MarkSide>),
    /// Play noise until Ctrl-C, for an experiment
    #[command(hide = true)]
    Mouth(BesideFlags),
    /// Keep what a device hears until Ctrl-C, and then print it, for an experiment
    #[command(hide = true)]
    Tap(BesideFlags),
    /// Write the sound whose quality is measured, for an experiment
    #[command(hide = true)]
    Sound(KnownSound),
    /// Read what the interfaces of this machine carry until Ctrl-C, for an experiment
    #[command(hide = true)]
    Traffic(Watching),
    /// Send numbered packets at a pace, for an experiment
    #[command(hide = true)]
    Packets(PacketsFlags),
    /// Send a stream as barely as can be by a rung of the pacing ladder, for an experiment
    #[command(hide = true)]
    Loop(LoopFlags),
    /// Read what this machine does until Ctrl-C, for an experiment
    #[command(hide = true)]
    Sample(SampleFlags),
    /// Send datagrams back until Ctrl-C, for an experiment
    #[command(hide = true)]
    Echo(EchoFlags),
}

/// `taut lab compare`
#[derive(Debug, Args)]
#[command(after_help = help::lab::LAB_COMPARE)]
pub(crate) struct LabCompare {
    /// The report to compare with, as JSON
    #[arg(value_name = "A.json")]
    pub(crate) first: PathBuf,
    /// The report that is to be no worse, as JSON
    #[arg(value_name = "B.json")]
    pub(crate) second: PathBuf,
    /// Differences of times up to this are none; if nothing is said, of streams a frame
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) threshold: Option<Span>,
    #[command(flatten)]
    pub(crate) reporting: Reporting,
}

/// What every experiment answers with.
#[derive(Debug, Args)]
pub(crate) struct Reporting {
    /// What to print at the end
    #[arg(long, value_name = "KIND", default_value = "text", help_heading = "Report")]
    pub(crate) report: ReportKind,
    /// Write the report here too, in the format of the name's suffix: .json, .csv, .html, .txt or .svg; any number
    /// of times
    #[arg(long, value_name = "PATH", value_parser = report_path(), help_heading = "Report")]
    pub(crate) report_file: Vec<ReportPath>,
}
