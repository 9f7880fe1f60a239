//! The building file, `building.toml`: all machines and loudspeakers of one building.
//!
//! Every node has the same bytes. `docs/reference/building.md` lists the keys.
#![deny(missing_docs, unsafe_code)]

mod card;
mod check;
mod client;
mod contact;
mod disk;
mod error;
mod files;
mod local;
mod log;
mod mistake;
mod names;
mod node;
mod place;
mod schedule;
mod section;
mod settings;
#[cfg(test)]
mod tests;
mod transmit;

use core::fmt;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;

use jiff::tz::TimeZone;
use tautline_api::v1::ZoneChange;
use tautline_audio::DeviceSpec;
use tautline_dsp::chime::Chime;
use tautline_dsp::equalizer::Band;
use tautline_dsp::gain::Gain;
use tautline_engine::plan::address::Address;
use tautline_proto::time::{Frames, Span};
use tautline_proto::units::{Channels, Rate};

pub use card::{CardNews, run_card};
pub use client::{AskFailed, Asked, NodeClient, Pushed};
pub use contact::{Contact, ContactAction};
pub use error::Error;
pub use files::FileFault;
pub use local::LocalError;
pub use log::{LOG_NAME, append_log, unix_nanos};
pub use mistake::{Mistake, MistakeKind};
pub use node::{BuildingNode, ContactWatch, NodeConfig, Role, ScheduledAnnouncement};
pub use place::{NotHere, Place};
pub use schedule::{
    Calendar, Cron, InvalidCalendar, InvalidCron, Play, RuleAction, RuleTimes, Schedule,
    ScheduleFault, ScheduleRule,
};
pub use settings::{DEFAULT_SETTING, parse_bands, parse_ceiling, parse_delay};
pub use transmit::{Announced, Capture, Transmission, capture, send_source, transmit};

/// Name of the file.
pub const FILE_NAME: &str = "building.toml";

/// Maximum size of the file. A zone needs about 200 bytes.
pub const MAX_BYTES: usize = 1 << 20;

/// Maximum number of reported mistakes.
pub const MAX_MISTAKES: usize = 1000;

/// A valid building file.
#[derive(Debug, Clone)]
pub struct Site {
    /// Version of the file. Two files with the same epoch but different hashes are a fault of the
    /// site.
    pub epoch: u64,
    /// Hash of the file's bytes.
    pub hash: SiteHash,
    /// Multicast address that all zones join for announcements.
    pub announcements: SocketAddr,
    /// Sample rate of all cards and streams.
    pub rate: Rate,
    /// Latency of all streams, from capture to each loudspeaker: the zones play in step.
    pub latency: Span,
    /// Key that encrypts announcements and the building's own sources; a path on every node.
    pub srtp_key_file: Option<PathBuf>,
    /// Folder of the building file. The path of the key is relative to it.
    pub folder: PathBuf,
    /// Priorities by name.
    pub priorities: BTreeMap<String, u8>,
    /// Machines.
    pub nodes: BTreeMap<String, Node>,
    /// Zones.
    pub zones: BTreeMap<String, Zone>,
    /// Groups.
    pub groups: BTreeMap<String, Group>,
    /// Sources.
    pub sources: BTreeMap<String, Source>,
    /// Stations.
    pub stations: BTreeMap<String, Station>,
    /// Recorded announcements.
    pub messages: BTreeMap<String, Message>,
    /// Changes of zones that apply together; at most one for each zone.
    pub presets: BTreeMap<String, Vec<ZoneChange>>,
    /// Rules of the schedule.
    pub schedule: BTreeMap<String, ScheduleRule>,
    /// Time zone of the schedule.
    pub timezone: Option<TimeZone>,
    /// Whether the schedule plays with a clock that is not synchronized.
    pub any_clock: bool,
}

/// A machine.
#[derive(Debug, Clone)]
pub struct Node {
    /// IP address or host name.
    pub host: String,
    /// Sound cards that zones use.
    pub cards: BTreeMap<String, Card>,
}

/// A sound card, played by one process.
#[derive(Debug, Clone)]
pub struct Card {
    /// Device to play to.
    pub device: DeviceSpec,
    /// Channels of the device.
    pub channels: Channels,
    /// Device period.
    pub period: Frames,
    /// Periods in the device buffer.
    pub periods: u32,
}

/// Loudspeakers that play the same sound.
#[derive(Debug, Clone, PartialEq)]
pub struct Zone {
    /// Number in claims, 1 to 65535, distinct from those of all zones and groups.
    pub number: u16,
    /// Node with the card.
    pub node: String,
    /// Card of the node.
    pub card: String,
    /// Channels of the card, counted from 1.
    pub channels: Vec<u16>,
    /// Whether each channel plays (left + right) ÷ 2.
    pub mono: bool,
    /// Volume of the program at the start.
    pub volume: Gain,
    /// Minimum volume.
    pub min_volume: Gain,
    /// Maximum volume.
    pub max_volume: Gain,
    /// Volume of announcements, independent of [`Zone::volume`].
    pub page_volume: Gain,
    /// Minimum volume of emergencies, also in a muted zone.
    pub emergency_volume: Gain,
    /// Whether `max-volume` is the minimum volume of emergencies, because the file has no
    /// `emergency-volume`.
    pub limits_emergencies: bool,
    /// Whether the zone is muted at the start.
    pub mute: bool,
    /// Delay after the presentation time.
    pub delay: Span,
    /// Bands of the equalizer, valid at [`Site::rate`].
    pub equalizer: Vec<Band>,
    /// Ceiling of the limiter, relative to full scale.
    pub limiter: Option<Gain>,
    /// Source at the start.
    pub source: Option<String>,
}

/// A set of zones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Number in claims, 1 to 65535, distinct from those of all zones and groups.
    pub number: u16,
    /// Zones and groups; never itself.
    pub members: Vec<String>,
}

/// Sound that zones can play as background.
#[derive(Debug, Clone)]
pub enum Source {
    /// A stream that another program sends.
    Stream(Box<Address>),
    /// Sound that a node sends.
    Own {
        /// Its input.
        input: SourceInput,
        /// Node that plays the input.
        node: String,
        /// Multicast address to which the node sends it.
        address: SocketAddr,
    },
}

/// Input of a source.
#[derive(Debug, Clone)]
pub enum SourceInput {
    /// Files, played one after the other without a gap, and again.
    Files(Vec<PathBuf>),
    /// A device of the node.
    Device(DeviceSpec),
    /// A source of the node's `local.toml`.
    Local(String),
}

/// A sender of announcements.
#[derive(Debug, Clone)]
pub struct Station {
    /// Machine of the station.
    pub host: StationHost,
    /// Microphone; `None` for stations that send recordings.
    pub input: Option<DeviceSpec>,
    /// Priority of its announcements.
    pub priority: u8,
    /// Order among equal claims, lowest first; distinct.
    pub rank: u16,
    /// Permitted zones and groups.
    pub to: Vec<String>,
    /// Chime before its announcements.
    pub chime: Option<Chime>,
    /// Zone that is mute while the station speaks.
    pub mutes: Option<String>,
}

/// Machine of a station.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StationHost {
    /// A node of the file.
    Node(String),
    /// Name of a trusted key.
    Key(String),
}

/// A recorded announcement; each node has the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Path of the recording.
    pub file: PathBuf,
    /// SHA-256 of the recording.
    pub sha256: Option<[u8; 32]>,
}

/// SHA-256 of a building file. `{:.8}` shows its first eight digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SiteHash(pub [u8; 32]);

impl fmt::Display for SiteHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        f.pad(&digits)
    }
}

impl Site {
    /// Default [`Site::latency`]: a page sounds well within 50 ms of the button.
    pub const LATENCY: Span = Span::from_millis(20);

    /// Ranks of the stations that mute `zone` while they speak.
    pub fn muted_by(&self, zone: &str) -> Vec<u16> {
        let stations = self.stations.values();
        stations.filter(|it| it.mutes.as_deref() == Some(zone)).map(|it| it.rank).collect()
    }

    /// Numbers in claims that address `zone`: its own number, and the numbers of its groups, also
    /// through other groups. Empty for an unknown zone.
    pub fn numbers_of(&self, zone: &str) -> BTreeSet<u16> {
        let Some(own) = self.zones.get(zone) else { return BTreeSet::new() };
        let mut numbers = BTreeSet::from([own.number]);
        let mut names = vec![zone];
        while let Some(name) = names.pop() {
            for (group, Group { number, members }) in &self.groups {
                if members.iter().any(|member| member == name) && numbers.insert(*number) {
                    names.push(group);
                }
            }
        }
        numbers
    }
}

/// Paths at which commands look for the file, in order.
pub fn usual_paths() -> impl Iterator<Item = PathBuf> {
    let own = tautline_api::trust::usual_folder().ok();
    let folders = [Some(PathBuf::new()), own, Some("/etc/tautline".into())];
    folders.into_iter().flatten().map(|folder| folder.join(FILE_NAME))
}
