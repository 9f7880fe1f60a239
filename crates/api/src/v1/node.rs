//! Nodes of a building: state and changes of their zones.

use serde::{Deserialize, Serialize};
use tautline_dsp::gain::Gain;
use thiserror::Error;

use super::push::{PushRefused, SitePush, SitePushed};

/// Default TCP port of a node.
pub const NODE_PORT: u16 = 17250;

/// The server side of a node. Calls may block, and arrive on several threads.
pub trait NodeService: Send + Sync {
    /// State of the node.
    fn state(&self) -> NodeState;

    /// Changes a zone; returns its state.
    fn change(&self, change: ZoneChange) -> Result<ZoneState, ZoneRefused>;

    /// Clears faults that ended.
    fn acknowledge(&self, request: FaultsAck) -> Acknowledged;

    /// Takes a newer building file, once the node has all files of the push.
    fn push(&self, push: SitePush) -> Result<SitePushed, PushRefused>;

    /// Stores a file that a push lacked, by its SHA-256 in hexadecimal.
    fn stage(&self, sha256: &str, bytes: &[u8]) -> Result<(), PushRefused>;
}

/// State of a node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeState {
    /// Name in the building file.
    pub node: String,
    /// Version of its building file.
    pub epoch: u64,
    /// SHA-256 of its building file, in hexadecimal.
    pub hash: String,
    /// Zones, in the order of their names.
    pub zones: Vec<ZoneState>,
    /// The node's clock when it answered, in Unix nanoseconds.
    pub now_ns: i64,
    /// Sources that the node sends, in the order of their names.
    pub sources: Vec<SourceState>,
    /// Faults that are not acknowledged, oldest first.
    pub faults: Vec<FaultState>,
}

/// A fault of a node. It stays until a user acknowledges it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FaultState {
    /// Kind; there is one fault per kind and name.
    pub kind: FaultKind,
    /// Name of the zone or source, or path of the file; empty for the whole node.
    pub name: String,
    /// Newest reason.
    pub reason: String,
    /// Last begin of the fault, in Unix seconds of the node's clock.
    pub first_s: i64,
    /// Newest time; the end, if it ended.
    pub last_s: i64,
    /// Whether the fault lasts.
    pub lasts: bool,
    /// Number of begins since a user acknowledged the fault.
    pub times: u32,
}

/// Kind of a fault.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// The card of a zone failed, or its process.
    Card,
    /// A zone receives no packets from its source.
    Silent,
    /// The node does not send a source, or a file of it is missing or damaged.
    Source,
    /// A file cannot be written, such as on a full disk.
    Disk,
    /// The system clock is not synchronized, but a schedule needs it.
    Clock,
    /// The node was offered another building file with the same epoch.
    Epoch,
    /// A rule of the schedule cannot play, or did not.
    Schedule,
    /// A contact of the node is not watched.
    Contact,
    /// The node did not run.
    Outage,
    /// A kind of a later version.
    #[default]
    #[serde(other)]
    Unknown,
}

impl FaultState {
    /// Zone that fails, if any.
    pub fn zone(&self) -> Option<&str> {
        matches!(self.kind, FaultKind::Card | FaultKind::Silent).then_some(self.name.as_str())
    }
}

/// The part that fails, such as `zone hall`.
impl core::fmt::Display for FaultState {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let name = &self.name;
        match self.kind {
            FaultKind::Card | FaultKind::Silent => write!(f, "zone {name}"),
            FaultKind::Source => write!(f, "source {name}"),
            FaultKind::Disk => write!(f, "file {name}"),
            FaultKind::Clock => f.write_str("system clock"),
            FaultKind::Epoch => f.write_str("building file"),
            FaultKind::Schedule => write!(f, "schedule {name}"),
            FaultKind::Contact if name.is_empty() => f.write_str("contacts"),
            FaultKind::Contact => write!(f, "contact {name}"),
            FaultKind::Outage => f.write_str("outage"),
            FaultKind::Unknown => f.write_str(name),
        }
    }
}

/// Request to clear faults that ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FaultsAck {
    /// Zones; absent for all faults of the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zones: Option<Vec<String>>,
}

/// Result of [`FaultsAck`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Acknowledged {
    /// Cleared faults.
    pub cleared: Vec<FaultState>,
    /// Requested faults that last, and stay.
    pub lasting: Vec<FaultState>,
}

/// State of a zone.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ZoneState {
    /// Name.
    pub zone: String,
    /// Whether the card and the program play.
    pub state: ZonePlayback,
    /// Reason for [`ZonePlayback::Failed`].
    pub fault: Option<String>,
    /// Seconds in this state.
    pub seconds: u64,
    /// Source of its program, if it has one.
    pub source: Option<String>,
    /// Volume, such as `-6dB`.
    pub volume: String,
    /// Volume of announcements, such as `0dB`.
    pub page_volume: String,
    /// Whether the zone is muted.
    pub muted: bool,
    /// Delay after the presentation time, such as `12ms`.
    pub delay: String,
    /// Bands of the equalizer, such as `peaking 120 -4dB 1.4; high-pass 80 0.71`, or `flat`.
    pub equalizer: String,
    /// Ceiling of the limiter, such as `-3dB`, or `off`.
    pub limiter: String,
    /// Latency of the program in nanoseconds, if it plays.
    pub latency_ns: Option<i64>,
    /// Lost and late packets of the program.
    pub lost: u64,
    /// Claims for the zone without effect: contradictory, too early, or of a wrong clock.
    pub refused_claims: u64,
    /// Announcement that plays, as 16 hexadecimal digits.
    pub announcement: Option<String>,
    /// The last announcements that addressed the zone, newest last.
    pub announcements: Vec<AnnouncementState>,
}

/// Playback of a zone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ZonePlayback {
    /// The program plays.
    Playing,
    /// The source sends no packets.
    Silent,
    /// The new source sends no packets, so the earlier one plays on.
    Waiting,
    /// The zone has no source.
    Idle,
    /// The sound process does not run.
    Failed,
    /// Not known yet, or a state of a later version.
    #[default]
    #[serde(other)]
    Unknown,
}

/// An announcement in a zone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AnnouncementState {
    /// Number of the announcement, as 16 hexadecimal digits.
    pub id: String,
    /// Result of the announcement in the zone.
    pub result: AnnouncementResult,
    /// Announcement that plays instead of this one. For a silenced zone, the announcement whose
    /// station is in that room, possibly this one.
    pub by: Option<String>,
    /// Name of the reason of [`AnnouncementResult::Rejected`], such as `clock`.
    pub reason: Option<String>,
    /// Station that has this `rank`.
    pub station: Option<String>,
    /// Rank of the station; of two announcements with the same priority and start, the lower plays.
    pub rank: Option<u16>,
    /// Priority.
    pub priority: Option<u8>,
    /// Zones and groups that the station announced to.
    pub targets: Vec<String>,
    /// Start as claimed, in Unix nanoseconds of the station's clock.
    pub planned_ns: Option<i64>,
    /// Start in the zone, in Unix nanoseconds of the node's clock, if it played.
    pub started_ns: Option<i64>,
}

/// Result of an announcement in a zone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AnnouncementResult {
    /// The announcement plays.
    Playing,
    /// The announcement played until its end.
    Played,
    /// The zone was muted when it began, so nothing sounded.
    Muted,
    /// Another announcement took precedence: this one never played.
    Refused,
    /// The claim has no effect in the zone, for example because the station's clock is wrong.
    Rejected,
    /// Another announcement ended this one.
    Preempted,
    /// A user ended it in this zone.
    Stopped,
    /// Packets stopped, or the announcement reached its maximum duration.
    Cut,
    /// A result of a later version.
    #[default]
    #[serde(other)]
    Unknown,
}

/// A source that a node sends.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SourceState {
    /// Name.
    pub source: String,
    /// Reason why the source is not sent, or faults of its files.
    pub fault: Option<String>,
}

/// Change of a zone; absent values stay.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ZoneChange {
    /// Name of the zone.
    pub zone: String,
    /// Volume, such as `-6dB`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
    /// Volume of announcements, such as `0dB`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_volume: Option<String>,
    /// Whether the zone is muted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub muted: Option<bool>,
    /// Delay: a time or a distance, such as `12ms` or `4.1m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<String>,
    /// Bands of the equalizer, `SHAPE HERTZ [GAIN] [Q]`, separated by `;`, or `flat`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub equalizer: Option<String>,
    /// Ceiling of the limiter, such as `-3dB`, or `off`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limiter: Option<String>,
    /// Name of a source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Presentation time at which the source changes, in Unix nanoseconds of the node's clock.
    /// Absent: as soon as possible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_ns: Option<i64>,
    /// Number of an announcement that ends, as in [`AnnouncementState::id`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<String>,
}

impl ZoneChange {
    /// Adds a later change of the same zone, without its time and what it stops.
    pub fn merge(&mut self, later: &Self) {
        let Self {
            zone,
            volume,
            page_volume,
            muted,
            delay,
            equalizer,
            limiter,
            source,
            at_ns: _,
            stop: _,
        } = later.clone();
        self.zone = zone;
        self.volume = volume.or(self.volume.take());
        self.page_volume = page_volume.or(self.page_volume.take());
        self.muted = muted.or(self.muted);
        self.delay = delay.or(self.delay.take());
        self.equalizer = equalizer.or(self.equalizer.take());
        self.limiter = limiter.or(self.limiter.take());
        self.source = source.or(self.source.take());
    }
}

/// Why a node refuses a change, each with its fix.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ZoneRefused {
    /// 404: the zone is not on this node.
    #[error("node {node} has no zone {zone:?}; taut zones lists all zones")]
    NoZone {
        /// The node.
        node: String,
        /// The zone.
        zone: String,
    },
    /// 422: an invalid value.
    #[error("{0}")]
    Value(String),
    /// 422: a volume outside the zone's limits.
    #[error(
        "{setting} {volume} is outside {min} to {max}, the limits of zone {zone}\nhint: min-volume and max-volume of the building file set them{}",
        if *setting == "page-volume" { ", and a page-volume there extends them" } else { "" }
    )]
    Limits {
        /// `volume` or `page-volume`.
        setting: &'static str,
        /// The zone.
        zone: String,
        /// Requested volume.
        volume: Gain,
        /// Minimum.
        min: Gain,
        /// Maximum.
        max: Gain,
    },
    /// 422: an unknown source.
    #[error("the building file has no source {name:?}\nhint: it has {}", known.join(", "))]
    NoSource {
        /// Unknown name.
        name: String,
        /// Sources of the file.
        known: Vec<String>,
    },
}

impl ZoneRefused {
    /// HTTP status of the error.
    pub const fn status(&self) -> u16 {
        match self {
            Self::NoZone { .. } => 404,
            Self::Value(_) | Self::Limits { .. } | Self::NoSource { .. } => 422,
        }
    }
}
