//! Claims: all facts about an announcement that zones decide from.

use core::cmp::Ordering;
use core::fmt;

use tautline_dsp::gain::Gain;

use crate::time::{Span, WallTime};

/// Number of an announcement, unique among all stations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AnnouncementId(pub u64);

impl core::str::FromStr for AnnouncementId {
    type Err = core::num::ParseIntError;

    /// Hexadecimal digits.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        u64::from_str_radix(text, 16).map(Self)
    }
}

impl fmt::Display for AnnouncementId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

tautline_dsp::named_enum! {
    /// Class of a priority (ranges as in Bosch PRAESENSA).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Class {
        /// 0 to 31: programs.
        Background = "background",
        /// Priorities 32 to 223: pages and messages.
        Announcement = "announcement",
        /// 224 to 255.
        Emergency = "emergency",
    }
}

/// Priority of a source or announcement; a higher number wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(pub u8);

impl Priority {
    /// The latest announcement wins at this priority, so that a forgotten microphone never blocks.
    pub const LATEST_WINS: Self = Self(255);

    /// Class of this priority.
    pub const fn class(self) -> Class {
        match self.0 {
            ..32 => Class::Background,
            32..224 => Class::Announcement,
            224.. => Class::Emergency,
        }
    }
}

/// How an announcement lowers the program.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Duck {
    /// Gain of the program under the announcement.
    pub depth: Gain,
    /// Length of the ramp down, from the first frame on.
    pub down: Span,
    /// Time from the end of the announcement to the ramp up.
    pub hold: Span,
    /// Length of the ramp up.
    pub up: Span,
}

impl Duck {
    /// Default of a class: down to −20 dB within 20 ms; emergencies mute within 10 ms. Up again in
    /// 1 s, after 300 ms.
    pub fn of(class: Class) -> Self {
        let (depth, down) = match class {
            Class::Emergency => (Gain::SILENCE, 10),
            _ => (Gain::from_db(-20.0).unwrap_or(Gain::SILENCE), 20),
        };
        let [down, hold, up] = [down, 300, 1000].map(Span::from_millis);
        Self { depth, down, hold, up }
    }
}

/// An announcement as claimed by its station. Times are on the station's wall clock, the clock of
/// its RTCP reports.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Claim {
    /// Announcement.
    pub id: AnnouncementId,
    /// Priority; at least 32.
    pub priority: Priority,
    /// The station's rank; of equal claims, the claim with the lower rank wins.
    pub rank: u16,
    /// Presentation time of the first frame.
    pub starts: WallTime,
    /// Presentation time of the end of the last frame, once known. Equal to `starts` if withdrawn.
    pub ends: Option<WallTime>,
    /// Departure of this claim.
    pub sent: WallTime,
    /// Maximum duration.
    pub longest: Span,
    /// How the announcement lowers the program.
    pub duck: Duck,
}

impl Claim {
    /// Order of precedence: greater wins. Compares only claimed numbers, so zones with different
    /// clocks agree: priority, start (earlier wins; at [`Priority::LATEST_WINS`] later), rank, id.
    pub fn precedence(&self, other: &Self) -> Ordering {
        let by_start = match self.priority {
            Priority::LATEST_WINS => self.starts.cmp(&other.starts),
            _ => other.starts.cmp(&self.starts),
        };
        self.priority
            .cmp(&other.priority)
            .then(by_start)
            .then(other.rank.cmp(&self.rank))
            .then(other.id.cmp(&self.id))
    }

    /// Whether a repetition describes the same announcement.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        (self.id, self.priority, self.rank, self.starts)
            == (other.id, other.priority, other.rank, other.starts)
    }
}

/// Numbers of the zones and groups that a claim addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Targets<'a>(&'a [[u8; 2]]);

impl<'a> Targets<'a> {
    /// Maximum numbers per claim: with all other fields, the claim fits any MTU from 576 bytes on.
    /// Groups serve larger sets.
    pub const MAX: usize = 200;

    /// Reads big-endian numbers; `None` without a number, or with more than [`Targets::MAX`].
    pub const fn new(numbers: &'a [[u8; 2]]) -> Option<Self> {
        if numbers.is_empty() || numbers.len() > Self::MAX { None } else { Some(Self(numbers)) }
    }

    /// The numbers, as on the wire.
    pub const fn as_bytes(self) -> &'a [[u8; 2]] {
        self.0
    }

    /// Whether one of `numbers` is addressed.
    pub fn address(self, numbers: &[u16]) -> bool {
        self.0.iter().any(|number| numbers.contains(&u16::from_be_bytes(*number)))
    }
}
