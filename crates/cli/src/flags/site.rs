//! The options of the commands for a building.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use tautline_audio::DeviceSpec;
use tautline_dsp::chime::Chime;
use tautline_dsp::gain::Gain;
use tautline_io::thread::Scheduler;
use tautline_proto::time::Span;
use tautline_site::DEFAULT_SETTING;

use super::{PlainKind, device, parse, span};
use crate::help;
use crate::voice::VoiceFlags;

/// `taut site`
#[derive(Debug, Subcommand)]
pub(crate) enum Site {
    /// List every mistake in a building file, with line and fix
    Check(SiteCheck),
    /// Copy a building file and its recordings to all nodes
    Push(SitePush),
}

/// `taut site check`
#[derive(Debug, Args)]
#[command(after_help = help::SITE_CHECK)]
pub(crate) struct SiteCheck {
    /// Building file [default: building.toml]
    ///
    /// Without FILE, the first of building.toml, $TAUT_HOME/building.toml and /etc/tautline/building.toml.
    pub(crate) file: Option<PathBuf>,
    /// Output format: text, json or none
    #[arg(long, value_name = "FORMAT", default_value = "text", hide_possible_values = true)]
    pub(crate) report: PlainKind,
}

/// `taut site push`
#[derive(Debug, Args)]
#[command(after_help = help::SITE_PUSH)]
pub(crate) struct SitePush {
    /// Building file [default: building.toml]
    ///
    /// Without FILE, the first of building.toml, $TAUT_HOME/building.toml and /etc/tautline/building.toml.
    pub(crate) file: Option<PathBuf>,
}

/// The building file of a command.
#[derive(Debug, Clone, Args)]
pub(crate) struct BuildingFile {
    /// Building file [default: building.toml]
    ///
    /// Without FILE, the first of building.toml, $TAUT_HOME/building.toml and /etc/tautline/building.toml.
    #[arg(long = "site", value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

/// `taut node`
#[derive(Debug, Args)]
#[command(after_help = help::NODE)]
pub(crate) struct NodeFlags {
    #[command(flatten)]
    pub(crate) site: BuildingFile,
    /// Node of this machine [default: the one with its address]
    #[arg(long, value_name = "NAME")]
    pub(crate) node: Option<String>,
    /// Scheduler of the device threads
    ///
    /// fifo:70, rr:70, deadline:RUNTIME/DEADLINE/PERIOD, or other for none.
    #[arg(long, value_name = "CLASS", default_value = "fifo:70", value_parser = parse::<Scheduler>,
          hide_short_help = true)]
    pub(crate) scheduler: Scheduler,
    /// The process of one card; the node starts it.
    #[arg(long, hide = true)]
    pub(crate) card: Option<String>,
    /// The process of one source; the node starts it.
    #[arg(long, hide = true)]
    pub(crate) source: Option<String>,
    /// The process of one announcement of the schedule; the node starts it.
    #[arg(long, hide = true)]
    pub(crate) announce: Option<String>,
    #[command(flatten)]
    pub(crate) voice: VoiceFlags,
}

/// `taut zones`
#[derive(Debug, Args)]
#[command(after_help = help::ZONES)]
pub(crate) struct ZonesFlags {
    #[command(flatten)]
    pub(crate) site: BuildingFile,
    /// Output format: text, json or none
    #[arg(long, value_name = "FORMAT", default_value = "text", hide_possible_values = true)]
    pub(crate) report: PlainKind,
    /// Also list the settings of each zone
    #[arg(long, short)]
    pub(crate) verbose: bool,
}

/// `taut zone`
#[derive(Debug, Args)]
#[command(after_help = help::ZONE)]
pub(crate) struct ZoneFlags {
    /// Zones and groups, separated by commas
    pub(crate) zones: String,
    #[command(subcommand)]
    pub(crate) change: Option<ZoneVerb>,
    #[command(flatten)]
    pub(crate) site: BuildingFile,
}

/// `taut ack`
#[derive(Debug, Args)]
#[command(after_help = help::ACK)]
pub(crate) struct AckFlags {
    /// Zones, groups and nodes, separated by commas [default: all]
    pub(crate) names: Option<String>,
    #[command(flatten)]
    pub(crate) site: BuildingFile,
}

/// `taut preset`
#[derive(Debug, Args)]
#[command(after_help = help::PRESET)]
pub(crate) struct PresetFlags {
    /// Preset of the building file
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) site: BuildingFile,
}

/// `taut schedule`
#[derive(Debug, Subcommand)]
pub(crate) enum ScheduleCommand {
    /// List the next announcements and presets
    Next(NextFlags),
}

/// `taut schedule next`
#[derive(Debug, Args)]
#[command(after_help = help::SCHEDULE_NEXT)]
pub(crate) struct NextFlags {
    /// Maximum number of entries
    #[arg(default_value = "10", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1000))]
    pub(crate) count: usize,
    #[command(flatten)]
    pub(crate) site: BuildingFile,
    /// Output format: text, json or none
    #[arg(long, value_name = "FORMAT", default_value = "text", hide_possible_values = true)]
    pub(crate) report: PlainKind,
}

/// A change of zones.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum ZoneVerb {
    /// Set the volume of the source, within the limits of the zone
    Volume {
        /// Such as -6dB or 50%, or default
        #[arg(allow_hyphen_values = true, value_parser = valid(parse::<Gain>))]
        gain: String,
    },
    /// Set the volume of announcements
    PageVolume {
        /// Such as -6dB or 50%, or default
        #[arg(allow_hyphen_values = true, value_parser = valid(parse::<Gain>))]
        gain: String,
    },
    /// Mute the zone: all but emergencies
    Mute,
    /// End the mute
    Unmute,
    /// Set the delay after the presentation time
    Delay {
        /// Time or distance up to 1 s, such as 12ms or 4.1m, or default
        #[arg(value_parser = valid(tautline_site::parse_delay))]
        delay: String,
    },
    /// Set the bands of the equalizer
    Equalizer {
        /// Such as "peaking 120 -4dB 1.4; high-pass 80" (SHAPE HERTZ [GAIN] [Q]), flat, or default
        bands: String,
    },
    /// Set the ceiling of the limiter
    Limiter {
        /// Such as -3dB, off, or default
        #[arg(allow_hyphen_values = true, value_parser = valid(tautline_site::parse_ceiling))]
        ceiling: String,
    },
    /// Play another source
    Source {
        /// Name of a source in the building file, or default
        source: String,
    },
}

/// `taut stop`
#[derive(Debug, Args)]
#[command(after_help = help::STOP)]
pub(crate) struct StopFlags {
    /// Zones and groups, separated by commas, or a number
    #[arg(value_name = "ID|ZONES")]
    pub(crate) what: String,
    #[command(flatten)]
    pub(crate) site: BuildingFile,
}

/// Checks a text, which stays a text. `default` is valid: the value of the building file.
fn valid<T>(
    check: fn(&str) -> Result<T, String>,
) -> impl Fn(&str) -> Result<String, String> + Clone {
    move |text| {
        let is_default = text == DEFAULT_SETTING;
        if is_default { Ok(text.to_owned()) } else { check(text).map(|_| text.to_owned()) }
    }
}

/// Options of announcements.
#[derive(Debug, Clone, Args)]
pub(crate) struct AnnounceFlags {
    #[command(flatten)]
    pub(crate) site: BuildingFile,
    /// Station of this machine [default: the only one]
    #[arg(long, value_name = "NAME")]
    pub(crate) station: Option<String>,
    /// one-tone, two-tone, three-tone [default: station's]
    #[arg(long, value_name = "CHIME", value_parser = parse::<Chime>)]
    pub(crate) chime: Option<Chime>,
    /// Begin without a chime
    #[arg(long, conflicts_with = "chime")]
    pub(crate) no_chime: bool,
    /// Wait this long at most until all zones are free
    ///
    /// Such as 5min. A page is recorded first. A zone in which another announcement takes precedence gets it later.
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) queue: Option<Span>,
    /// Write the sent audio to this WAV file
    ///
    /// The file must not exist. With --queue, it has the first attempt.
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// Output format: text, json or none
    #[arg(long, value_name = "FORMAT", default_value = "text", hide_possible_values = true)]
    pub(crate) report: PlainKind,
    #[command(flatten)]
    pub(crate) voice: VoiceFlags,
}

/// `taut page`
#[derive(Debug, Args)]
#[command(after_help = help::PAGE)]
pub(crate) struct PageFlags {
    /// Zones and groups, separated by commas
    pub(crate) zones: String,
    /// Microphone [default: the station's input]
    #[arg(long, short, value_name = "DEVICE", value_parser = device())]
    pub(crate) input: Option<DeviceSpec>,
    /// End after this time, such as 30s
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) duration: Option<Span>,
    /// End after this time below -50 dBFS, such as 5s
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) end_after: Option<Span>,
    /// Speak while the space bar is held
    ///
    /// Or from one press to the next. Each time is a separate page. Needs a terminal.
    #[arg(long, conflicts_with_all = ["queue", "record", "duration"])]
    pub(crate) talk: bool,
    /// End when standard input ends; the node starts the pages of its contacts so.
    #[arg(long, hide = true, conflicts_with = "talk")]
    pub(crate) until_eof: bool,
    #[command(flatten)]
    pub(crate) announce: AnnounceFlags,
}

/// `taut say`
#[derive(Debug, Args)]
#[command(after_help = help::SAY)]
pub(crate) struct SayFlags {
    /// Zones and groups, separated by commas
    pub(crate) zones: String,
    /// Text to speak
    pub(crate) text: String,
    /// Speech program [default: espeak-ng --stdin --stdout]
    ///
    /// A shell command. It reads the text from standard input and writes the WAV file to standard output.
    #[arg(
        long,
        value_name = "COMMAND",
        default_value = "espeak-ng --stdin --stdout",
        hide_default_value = true
    )]
    pub(crate) command: String,
    #[command(flatten)]
    pub(crate) announce: AnnounceFlags,
}

/// `taut play`
#[derive(Debug, Args)]
#[command(after_help = help::PLAY)]
pub(crate) struct PlayFlags {
    /// Zones and groups, separated by commas
    pub(crate) zones: String,
    /// Recording: a file, or a message of the building file
    pub(crate) recording: PathBuf,
    /// Repeat until Ctrl-C or taut stop; a day at most
    #[arg(long, conflicts_with = "queue")]
    pub(crate) repeat: bool,
    /// With --repeat: end after this time, such as 10min
    #[arg(long, value_name = "TIME", value_parser = span, requires = "repeat")]
    pub(crate) duration: Option<Span>,
    /// End when standard input ends; the node starts repeated messages of its contacts so.
    #[arg(long, hide = true, requires = "repeat")]
    pub(crate) until_eof: bool,
    #[command(flatten)]
    pub(crate) announce: AnnounceFlags,
}
