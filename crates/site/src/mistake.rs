//! Mistakes in a building file, with their places and fixes.

use tautline_dsp::equalizer::EqualizerError;
use tautline_proto::text::printable;
use tautline_proto::units::Channels;

/// Maximum characters of the file's text in a message.
const MAX_SHOWN: usize = 60;

/// A mistake. Its text is a message and, on a second line, `hint: ` and the fix.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{kind}")]
pub struct Mistake {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Kind.
    pub kind: MistakeKind,
}

/// Kinds of mistakes, with the invalid values.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum MistakeKind {
    /// More than [`crate::MAX_BYTES`].
    #[error("the file is larger than 1 MiB\nhint: remove what does not describe the building")]
    TooLarge,
    /// Not UTF-8.
    #[error("byte {0:#04x} is not UTF-8\nhint: save the file as UTF-8")]
    NotUtf8(u8),
    /// Not TOML, as reported by the parser.
    #[error("not valid TOML: {0}\nhint: write KEY = VALUE, with text in quotes")]
    Syntax(String),
    /// A key or table whose name exists already.
    #[error("{name} is already defined\nhint: rename or delete one of them", name = shown(.0))]
    Duplicate(String),
    /// A key that the table cannot have.
    #[error("unknown key {key} in {table}\nhint: {fix}", key = shown(.key), fix = instead(near, known))]
    UnknownKey {
        /// Key.
        key: String,
        /// Table.
        table: String,
        /// Known key with a similar name.
        near: Option<String>,
        /// All keys of the table.
        known: String,
    },
    /// A required key is absent.
    #[error("{table} has no `{key}`\nhint: write {key} = {example}")]
    Missing {
        /// Table.
        table: String,
        /// Key.
        key: &'static str,
        /// A valid value.
        example: String,
    },
    /// A table that needs exactly one of several keys, but has none or more.
    #[error("{table} needs exactly one of {keys}, and has {found}\nhint: {fix}", fix = if *found == 0 { "add one of them" } else { "keep one of them" })]
    ExactlyOne {
        /// Table.
        table: String,
        /// Keys.
        keys: &'static str,
        /// Number found.
        found: usize,
    },
    /// A value of the wrong type or out of range.
    #[error("invalid `{key}` {value}\nhint: write {write}")]
    Value {
        /// Key.
        key: String,
        /// Value.
        value: String,
        /// Valid values.
        write: &'static str,
    },
    /// An invalid device or stream, with the message of its parser.
    #[error("invalid `{key}`: {why}")]
    Rejected {
        /// Key.
        key: &'static str,
        /// Message and hint.
        why: String,
    },
    /// An invalid name of a table.
    #[error(
        "invalid name {name}\nhint: use 1 to 64 printable characters without commas, the first and last no spaces",
        name = shown(.0)
    )]
    Name(String),
    /// A name that no table has.
    #[error("unknown {kind} {name}\nhint: {fix}", name = shown(.name), fix = instead_of_name(kind, near))]
    Unknown {
        /// Kind of table.
        kind: String,
        /// Name.
        name: String,
        /// Similar name.
        near: Option<String>,
    },
    /// A group with the name of a zone.
    #[error("{name} is a zone and a group\nhint: rename the group", name = shown(.0))]
    ZoneAndGroup(String),
    /// A number of another zone or group.
    #[error("number {number} belongs to {other}\nhint: write number = {free}, which is free")]
    NumberTaken {
        /// Number.
        number: u16,
        /// Table with the number.
        other: String,
        /// A free number.
        free: u16,
    },
    /// A value that another table has, such as a host.
    #[error("{key} {value} belongs to {other}\nhint: {fix}", value = shown(.value))]
    Taken {
        /// Key.
        key: &'static str,
        /// Value.
        value: String,
        /// Table with the value.
        other: String,
        /// Fix.
        fix: &'static str,
    },
    /// A group that contains itself.
    #[error("group {path} contains itself\nhint: remove {member} from the members of {group}", member = shown(.member), group = shown(.group))]
    GroupCycle {
        /// Groups from `member` to `group` and back.
        path: String,
        /// Last group.
        group: String,
        /// Its member, the first group.
        member: String,
    },
    /// A channel that the card lacks.
    #[error("channel {channel} is beyond the {channels} channels of card {card}\nhint: write 1 to {channels}", card = shown(.card))]
    ChannelBeyondCard {
        /// Channel.
        channel: u16,
        /// Channels of the card.
        channels: Channels,
        /// Card.
        card: String,
    },
    /// A channel of another zone, or twice in one zone.
    #[error("channel {channel} of card {card} belongs to {other}\nhint: choose another channel", card = shown(.card))]
    ChannelTaken {
        /// Channel.
        channel: u16,
        /// Card.
        card: String,
        /// Zone with the channel.
        other: String,
    },
    /// Minimum above maximum.
    #[error(
        "min-volume {min} is above max-volume {max}\nhint: lower min-volume or raise max-volume"
    )]
    LimitsReversed {
        /// Minimum.
        min: String,
        /// Maximum.
        max: String,
    },
    /// Volume outside the zone's limits.
    #[error(
        "volume {volume} is outside {min} to {max}, the limits of {zone}\nhint: write a volume between them, or change min-volume or max-volume"
    )]
    VolumeOutsideLimits {
        /// Zone, such as `zone 'gym'`.
        zone: String,
        /// Volume.
        volume: String,
        /// Minimum.
        min: String,
        /// Maximum.
        max: String,
    },
    /// Too many bands of an equalizer, or a band out of range.
    #[error("{0}\nhint: {fix}", fix = fix_of_band(.0))]
    Equalizer(EqualizerError),
    /// An address that is not a multicast group.
    #[error(
        "{0} is not a multicast address\nhint: write a group for local use, such as 239.255.77.1:5004"
    )]
    NotMulticast(String),
    /// A multicast group that routers and hosts need (RFC 5771 §4, RFC 4291 §2.7.1).
    #[error(
        "{0} is reserved for network protocols\nhint: write a group for local use, such as 239.255.77.1:5004"
    )]
    ReservedMulticast(String),
    /// A key that does not apply to this kind of source or band.
    #[error("`{key}` does not apply to {what}\nhint: delete {key}")]
    NotApplicable {
        /// Key.
        key: &'static str,
        /// Kind of source or band.
        what: &'static str,
    },
    /// A station with a background priority.
    #[error("priority {name} is {value}, which is background\nhint: use a priority from 32 to 255", name = shown(.name))]
    BackgroundPriority {
        /// Priority.
        name: String,
        /// Value.
        value: u8,
    },
    /// A rule of the schedule with a zone that its station may not announce to.
    #[error("station {station} may not announce in zone {zone}\nhint: add the zone to the `to` of the station, or delete it here", station = shown(.station), zone = shown(.zone))]
    StationNotAllowed {
        /// Station.
        station: String,
        /// Zone.
        zone: String,
    },
    /// A command in a file that other machines distribute.
    #[error(
        "`exec` is not allowed here: anyone who edits this file could run commands on every node\nhint: write local = \"NAME\" here, and exec in the node's local.toml"
    )]
    Exec,
    /// More than [`crate::MAX_MISTAKES`].
    #[error("more than {max} mistakes\nhint: fix those above first", max = crate::MAX_MISTAKES)]
    TooMany,
}

/// The file's text in a message.
pub(crate) fn shown(text: &str) -> String {
    format!("'{}'", printable(text, MAX_SHOWN))
}

const fn fix_of_band(error: &EqualizerError) -> &'static str {
    match error {
        EqualizerError::Bands(_) => "delete bands",
        EqualizerError::Frequency(..) => "write a frequency in this range, or delete the band",
        EqualizerError::Gain(_) => "write a gain in this range",
        EqualizerError::Q(_) => "write a q in this range",
    }
}

fn instead(near: &Option<String>, known: &str) -> String {
    match near {
        Some(near) => format!("write {near}"),
        None => format!("delete it, or use {known}"),
    }
}

fn instead_of_name(kind: &str, near: &Option<String>) -> String {
    match near {
        Some(near) => format!("write {}", shown(near)),
        None => format!("define the {kind}, or use another name"),
    }
}
