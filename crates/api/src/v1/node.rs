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
    /// Sources that the node sends, in the order of their names.
    pub sources: Vec<SourceState>,
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
    /// Whether it is muted.
    pub muted: bool,
    /// Latency of the program in nanoseconds, if it plays.
    pub latency_ns: Option<i64>,
    /// Lost and late packets of the program.
    pub lost: u64,
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
    /// Its number, as 16 hexadecimal digits.
    pub id: String,
    /// What happened to it.
    pub result: AnnouncementResult,
    /// Announcement that plays instead, if this one was refused or pre-empted.
    pub by: Option<String>,
    /// Start in the zone, in Unix nanoseconds of the node's clock, if it played.
    pub started_ns: Option<i64>,
}

/// Result of an announcement in a zone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AnnouncementResult {
    /// It plays.
    Playing,
    /// It played until its end.
    Played,
    /// Another one took precedence: it never played.
    Refused,
    /// Another one ended it.
    Preempted,
    /// A user ended it in this zone.
    Stopped,
    /// Its packets stopped, or it reached its maximum duration.
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
    /// Why it is not sent, if so.
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
    /// Whether the zone is muted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub muted: Option<bool>,
    /// Name of a source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Number of an announcement that ends, as in [`AnnouncementState::id`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<String>,
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
    /// 422: an invalid volume.
    #[error("{0}")]
    Volume(String),
    /// 422: a volume outside the zone's limits.
    #[error("volume {volume} is outside {min} to {max}, the limits of zone {zone}")]
    Limits {
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
    #[error("the building file has no source {0:?}; add [source.NAME] to it")]
    NoSource(String),
}

impl ZoneRefused {
    /// HTTP status of the error.
    pub const fn status(&self) -> u16 {
        match self {
            Self::NoZone { .. } => 404,
            Self::Volume(_) | Self::Limits { .. } | Self::NoSource(_) => 422,
        }
    }
}
