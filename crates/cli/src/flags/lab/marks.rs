//! The options of experiments that measure delays from the sound.

use core::str::FromStr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use tautline_audio::DeviceSpec;
use tautline_io::thread::Scheduler;
use tautline_lab::delay::MarkKind;
use tautline_lab::hosts::HostPlace;
use tautline_proto::device::DeviceError;
use tautline_proto::time::Span;
use tautline_proto::units::{Channels, Rate};

use super::Reporting;
use super::machine::DevicePace;
use super::streams::ClockFlags;
use crate::flags::{channels, device, parse, rate, span};
use crate::help;

/// `taut lab between`
#[derive(Debug, Args)]
#[command(after_help = help::BETWEEN)]
pub(crate) struct BetweenFlags {
    /// A WAV or FLAC with both taps, or with the first
    #[arg(required_unless_present = "device")]
    pub(crate) recording: Option<PathBuf>,
    /// Another with the second tap, begun at the same instant
    #[arg(long, value_name = "FILE")]
    pub(crate) second: Option<PathBuf>,
    /// A device that is recorded instead, with both taps
    #[arg(long, value_name = "DEVICE", value_parser = device(),
          conflicts_with_all = ["recording", "second"], help_heading = "Devices")]
    pub(crate) device: Option<DeviceSpec>,
    /// How much of it; Ctrl-C ends it sooner
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = span,
          help_heading = "Devices")]
    pub(crate) duration: Span,
    /// Channels of the first and the second tap, counted from 1 [default: 1,2; of two files 1,1]
    #[arg(long, value_name = "N,N", value_parser = two_channels)]
    pub(crate) channels: Option<[usize; 2]>,
    /// The longest delay that is looked for, either way [default: 100ms, or the recording]
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) most: Option<Span>,
    /// Sound for one delay; more of it makes each more certain
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = span)]
    pub(crate) window: Span,
    #[command(flatten)]
    pub(crate) pace: DevicePace,
    #[command(flatten)]
    pub(crate) reporting: Reporting,
}

fn two_channels(text: &str) -> Result<[usize; 2], String> {
    let channel =
        |text: &str| text.trim().parse().ok().filter(|channel| (1..=64).contains(channel));
    let two =
        text.split_once(',').and_then(|(first, second)| Some([channel(first)?, channel(second)?]));
    two.ok_or_else(|| format!("`{text}` are no two channels; write 1,2, counted from 1"))
}

/// `taut lab delay`
#[derive(Debug, Args)]
#[command(after_help = help::DELAY)]
pub(crate) struct Delay {
    /// Where the marks are played
    #[arg(long, short, value_name = "DEVICE", value_parser = parse::<NamedDevice>)]
    pub(crate) output: NamedDevice,
    /// Where they are heard
    #[arg(long, short, value_name = "DEVICE", value_parser = parse::<NamedDevice>)]
    pub(crate) input: NamedDevice,
    /// What the latency between was set to, to be shown beside what was measured
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) configured: Option<Span>,
    /// Where they are heard, if not by this program: local, netns:NAME or ssh:HOST, where `taut`
    /// of this version must be
    #[arg(long, value_name = "PLACE", value_parser = parse::<HostPlace>, help_heading = "Hosts")]
    pub(crate) with: Option<HostPlace>,
    /// Where they are played, if not by this program: the same
    #[arg(long, value_name = "PLACE", value_parser = parse::<HostPlace>, help_heading = "Hosts")]
    pub(crate) played_at: Option<HostPlace>,
    #[command(flatten)]
    pub(crate) clocks: ClockFlags,
    #[command(flatten)]
    pub(crate) shape: MarkShape,
    /// How long to wait before marks count: streams begin, servos find their rate
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = span,
          help_heading = "Run")]
    pub(crate) settle: Span,
    /// How long they count; Ctrl-C ends it sooner
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = span,
          help_heading = "Run")]
    pub(crate) duration: Span,
    #[command(flatten)]
    pub(crate) reporting: Reporting,
}

/// Marks, and how the devices run that play and hear them.
#[derive(Debug, Args)]
pub(crate) struct MarkShape {
    /// Sample rate
    #[arg(long, value_name = "HZ", default_value = "48000", value_parser = rate,
          help_heading = "Devices")]
    pub(crate) rate: Rate,
    /// Channels of each device; all play the same
    #[arg(long, value_name = "N", default_value = "2", value_parser = channels,
          help_heading = "Devices")]
    pub(crate) channels: Channels,
    /// The channel that is listened to, counted from 1
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Devices",
          value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) channel: u32,
    /// Frames that each device takes at a time: 48 are 1ms at 48000 Hz
    #[arg(long, value_name = "FRAMES", default_value_t = 48, help_heading = "Devices",
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) period: u32,
    /// Periods in each device's buffer
    #[arg(long, value_name = "N", default_value_t = 2, help_heading = "Devices",
          value_parser = clap::value_parser!(u32).range(2..=64))]
    pub(crate) periods: u32,
    /// Priority of the devices' threads
    #[arg(long, value_name = "CLASS", default_value = "fifo:70", value_parser = parse::<Scheduler>,
          help_heading = "Devices")]
    pub(crate) scheduler: Scheduler,
    /// What is played: marks for whatever carries music, longer ones for voice codecs, or
    /// sweeps
    #[arg(long, value_name = "KIND", default_value = "wide", help_heading = "Run")]
    pub(crate) mark: MarkFlag,
    /// Their peak in dB of full scale, from -60 to -1: softer beside sound that people hear
    #[arg(long, value_name = "DB", default_value_t = -18, help_heading = "Run",
          allow_hyphen_values = true, value_parser = clap::value_parser!(i8).range(-60..=-1))]
    pub(crate) level: i8,
}

/// One side of a delay between two hosts.
#[derive(Debug, Args)]
pub(crate) struct MarkSide {
    /// Where marks are played or heard
    #[arg(value_name = "DEVICE", value_parser = parse::<NamedDevice>)]
    pub(crate) device: NamedDevice,
    /// What tells this run's marks from another's, as both sides have it
    #[arg(long, value_name = "N")]
    pub(crate) run: u32,
    /// So many marks are kept
    #[arg(long, value_name = "N", default_value_t = 360_000,
          value_parser = clap::value_parser!(u32).range(1..=1 << 22))]
    pub(crate) most: u32,
    /// It ends by itself after this time, should nobody end it
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) longest: Option<Span>,
    #[command(flatten)]
    pub(crate) shape: MarkShape,
}

/// A device, and how it was named: another host is to be told the same.
#[derive(Debug, Clone)]
pub(crate) struct NamedDevice {
    pub(crate) spec: DeviceSpec,
    pub(crate) given: String,
}

impl FromStr for NamedDevice {
    type Err = DeviceError;

    fn from_str(given: &str) -> Result<Self, DeviceError> {
        Ok(Self { spec: given.parse()?, given: given.to_owned() })
    }
}

/// Which time marks are played.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum MarkFlag {
    /// 480 frames each, with sound up to a quarter of the rate
    Wide,
    /// 60 ms each, with sound below 3 kHz
    Voice,
    /// Sweeps, for a speaker and a microphone, below 0.6 s of delay
    Sweep,
}

impl MarkFlag {
    pub(crate) const fn kind(self) -> MarkKind {
        match self {
            Self::Wide => MarkKind::Wide,
            Self::Voice => MarkKind::Voice,
            Self::Sweep => MarkKind::Sweep,
        }
    }
}
