//! The options of what is measured from the mouth at one end of a call to the ear at the other.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;
use tautline_audio::DeviceSpec;
use tautline_io::thread::Scheduler;
use tautline_lab::hosts::HostPlace;
use tautline_proto::time::Span;
use tautline_proto::units::{Channels, Rate};

use super::Reporting;
use super::streams::ClockFlags;
use crate::flags::{channels, device, parse, rate, span};
use crate::help;

/// `taut lab mouth-to-ear`
#[derive(Debug, Args)]
#[command(after_help = help::lab::MOUTH_TO_EAR)]
pub(crate) struct MouthToEarFlags {
    /// Where the ear is, by taut serve there: local, netns:NAME or ssh:HOST, where taut of this version
    /// must be
    #[arg(value_name = "HOST", default_value = "local", value_parser = parse::<HostPlace>)]
    pub(crate) host: HostPlace,
    /// By which address it is called [default: the first that a datagram arrives at]
    #[arg(long, value_name = "IP", help_heading = "Hosts")]
    pub(crate) at: Option<IpAddr>,
    #[command(flatten)]
    pub(crate) clocks: ClockFlags,
    /// All 672 of the paper's buffers instead of one change after the other
    #[arg(long, help_heading = "Run")]
    pub(crate) full: bool,
    /// Only rows whose name has this in it, such as TCP or "playback 64, recording 16"; with several,
    /// any of them
    #[arg(long, value_name = "WORDS", help_heading = "Run")]
    pub(crate) only: Vec<String>,
    /// Of one processor the near end in the paper's rows has so much, as its device had; 100% is no
    /// cap
    #[arg(long, value_name = "SHARE", default_value = "10%", value_parser = percent,
          help_heading = "Run")]
    pub(crate) cpu: u32,
    /// Priority of the devices' threads of the call where it is not capped
    #[arg(long, value_name = "CLASS", value_parser = parse::<Scheduler>, help_heading = "Run")]
    pub(crate) scheduler: Option<Scheduler>,
    /// How long a call sounds before it is recorded, beyond its latency
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = span,
          help_heading = "Run")]
    pub(crate) settle: Span,
    /// How much of each call is recorded, beyond its latency
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = span,
          help_heading = "Run")]
    pub(crate) duration: Span,
    /// Beside each call a bulk TCP flow from the mouth's host to the ear's, and once alone: what it
    /// carries
    #[arg(long, help_heading = "Run")]
    pub(crate) bulk: bool,
    /// Hear the ear so much later, up to 500ms: a delay that is known, to try the measurement itself
    #[arg(long, value_name = "TIME", value_parser = ear_delay, help_heading = "Run")]
    pub(crate) ear_delay: Option<Span>,
    /// Keep both branches of each call as the channels of a WAV in this folder, for taut lab between
    #[arg(long, value_name = "DIR", help_heading = "Report")]
    pub(crate) keep: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) reporting: Reporting,
}

/// What stands beside a call.
#[derive(Debug, Args)]
pub(crate) struct BesideFlags {
    /// Where it is played, or heard
    #[arg(value_name = "DEVICE", value_parser = device())]
    pub(crate) device: DeviceSpec,
    /// Sample rate
    #[arg(long, value_name = "HZ", default_value = "48000", value_parser = rate)]
    pub(crate) rate: Rate,
    /// Channels
    #[arg(long, value_name = "N", default_value = "2", value_parser = channels)]
    pub(crate) channels: Channels,
    /// What is kept at most
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = span)]
    pub(crate) longest: Span,
}

fn percent(text: &str) -> Result<u32, String> {
    let percent = text.strip_suffix('%').and_then(|figure| figure.parse().ok());
    percent
        .filter(|percent| (1..=100).contains(percent))
        .ok_or_else(|| format!("`{text}` is no share of a processor; write 1% to 100%"))
}

fn ear_delay(text: &str) -> Result<Span, String> {
    let most = Span::from_millis(500);
    match span(text)? {
        delay if delay <= most => Ok(delay),
        _ => Err(format!("a cable delays sound by {most} at most; write that or less")),
    }
}
