//! The experiments that measure the machine itself.

use std::net::{IpAddr, SocketAddr};

use clap::{ArgGroup, Args};
use tautline_audio::DeviceSpec;
use tautline_io::thread::Scheduler;
use tautline_lab::hosts::HostPlace;
use tautline_proto::device::Settings;
use tautline_proto::time::{Frames, Span};
use tautline_proto::units::{Channels, Rate};

use super::Reporting;
use crate::flags::{SampleName, channels, device, parse, rate, span};
use crate::help;

/// `taut lab stalls`
#[derive(Debug, Args)]
#[command(after_help = help::lab::STALLS)]
pub(crate) struct Stalls {
    /// How often each core is looked at
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = span)]
    pub(crate) period: Span,
    /// For how long
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = span)]
    pub(crate) duration: Span,
    /// The cores, counted from 0, such as 0,2 [default: all that this program may use]
    #[arg(long, value_name = "CORES", value_delimiter = ',')]
    pub(crate) cpus: Vec<usize>,
    /// Priority of the thread that looks, on each
    #[arg(long, value_name = "CLASS", default_value = "fifo:99", value_parser = parse::<Scheduler>)]
    pub(crate) scheduler: Scheduler,
    #[command(flatten)]
    pub(crate) reporting: Reporting,
}

/// `taut lab kernel`
#[derive(Debug, Args)]
#[command(after_help = help::lab::KERNEL)]
pub(crate) struct KernelFlags {
    /// Sound in one packet; each is measured in turn [default: 1ms, 5ms and 20ms]
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) ptime: Vec<Span>,
    /// Packets of each row [default: as many as go within --duration, and 50000 at most]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(crate) packets: Option<u32>,
    /// How long each row takes at most: there are four for each --ptime, or two with --with
    /// [default: 10s, and as long as it takes with --packets]
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) duration: Option<Span>,
    /// Coding of samples
    #[arg(long, value_name = "CODING", default_value = "l16", help_heading = "Packets")]
    pub(crate) format: SampleName,
    /// Sample rate
    #[arg(long, value_name = "HZ", default_value = "48000", value_parser = rate,
          help_heading = "Packets")]
    pub(crate) rate: Rate,
    /// Channels
    #[arg(long, value_name = "N", default_value = "2", value_parser = channels,
          help_heading = "Packets")]
    pub(crate) channels: Channels,
    /// From one reading of the direct link to the next, as a device would
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = span,
          help_heading = "Threads")]
    pub(crate) period: Span,
    /// The core of the receiver, and the sender's where it is another of this machine, such as 0,1
    /// [default: the first two that this program may use]
    #[arg(long, value_name = "CORES", value_delimiter = ',', help_heading = "Threads")]
    pub(crate) cpus: Vec<usize>,
    /// Priority of the receiver; the sender runs one below
    #[arg(long, value_name = "CLASS", default_value = "fifo:70", value_parser = parse::<Scheduler>,
          help_heading = "Threads")]
    pub(crate) scheduler: Scheduler,
    /// Where packets come from: local, netns:NAME or ssh:HOST, where `taut` of this version must be
    /// [default: a thread of this program, over loopback]
    #[arg(long, value_name = "PLACE", value_parser = parse::<HostPlace>, help_heading = "Hosts")]
    pub(crate) with: Option<HostPlace>,
    /// The address of this machine that they go to [default: the first that a datagram arrives at]
    #[arg(long, value_name = "IP", requires = "with", help_heading = "Hosts")]
    pub(crate) at: Option<IpAddr>,
    #[command(flatten)]
    pub(crate) reporting: Reporting,
}

/// `taut lab packets`
#[derive(Debug, Args)]
pub(crate) struct PacketsFlags {
    /// Where they go
    #[arg(long, value_name = "IP:PORT")]
    pub(crate) to: SocketAddr,
    /// From one to the next
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) ptime: Span,
    /// Bytes of sound in each
    #[arg(long, value_name = "BYTES")]
    pub(crate) payload: usize,
    /// How many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(crate) count: u32,
    /// By which number they are known
    #[arg(long, value_name = "N")]
    pub(crate) run: u32,
    /// Priority of the thread that sends
    #[arg(long, value_name = "CLASS", value_parser = parse::<Scheduler>)]
    pub(crate) scheduler: Scheduler,
}

/// When devices are asked to do their work.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "Devices")]
pub(crate) struct DevicePace {
    /// Sample rate
    #[arg(long, value_name = "HZ", default_value = "48000", value_parser = rate)]
    pub(crate) rate: Rate,
    /// Frames that a device takes at a time: 48 are 1ms at 48000 Hz
    #[arg(long, value_name = "FRAMES", default_value_t = 48,
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) period: u32,
    /// Periods in a device's buffer
    #[arg(long, value_name = "N", default_value_t = 2,
          value_parser = clap::value_parser!(u32).range(2..=64))]
    pub(crate) periods: u32,
    /// Priority of the devices' threads
    #[arg(long, value_name = "CLASS", default_value = "fifo:70", value_parser = parse::<Scheduler>)]
    pub(crate) scheduler: Scheduler,
}

impl DevicePace {
    /// As a device of so many channels takes it.
    pub(crate) fn settings(&self, channels: Channels) -> Settings {
        Settings {
            rate: self.rate,
            channels,
            period: Frames::new(i64::from(self.period)),
            periods: self.periods,
        }
    }
}

/// How devices are asked to run.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "Devices")]
pub(crate) struct DeviceShape {
    /// Channels
    #[arg(long, value_name = "N", default_value = "2", value_parser = channels)]
    pub(crate) channels: Channels,
    #[command(flatten)]
    pub(crate) pace: DevicePace,
}

impl DeviceShape {
    /// As a device takes it.
    pub(crate) fn settings(&self) -> Settings {
        self.pace.settings(self.channels)
    }
}

/// `taut lab handover`
#[derive(Debug, Args)]
#[command(after_help = help::lab::HANDOVER,
          group = ArgGroup::new("devices").required(true).multiple(true)
              .args(["device", "output", "input"]))]
pub(crate) struct Handover {
    /// A device, both ways at once
    #[arg(long, value_name = "DEVICE", value_parser = device())]
    pub(crate) device: Vec<DeviceSpec>,
    /// A device to play to; what is played is silence
    #[arg(long, short, value_name = "DEVICE", value_parser = device())]
    pub(crate) output: Vec<DeviceSpec>,
    /// A device to capture from
    #[arg(long, short, value_name = "DEVICE", value_parser = device())]
    pub(crate) input: Vec<DeviceSpec>,
    /// How long to wait before calls count: streams begin, servos find their rate
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = span)]
    pub(crate) settle: Span,
    /// How long they count
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = span)]
    pub(crate) duration: Span,
    #[command(flatten)]
    pub(crate) shape: DeviceShape,
    #[command(flatten)]
    pub(crate) reporting: Reporting,
}

/// `taut lab resources`
#[derive(Debug, Args)]
#[command(after_help = help::lab::RESOURCES)]
pub(crate) struct Resources {
    /// A process to be watched too, by its number; any of them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) pid: Vec<u32>,
    /// From one reading to the next
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = span)]
    pub(crate) interval: Span,
    /// For how long
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = span)]
    pub(crate) duration: Span,
    #[command(flatten)]
    pub(crate) reporting: Reporting,
}

/// `taut lab sample`
#[derive(Debug, Args)]
pub(crate) struct SampleFlags {
    /// For how long, at most
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) duration: Span,
}
