//! MAAP messages (IEEE 1722-2016 annex B), which allocate multicast addresses.
//!
//! | byte | field | meaning |
//! |---|---|---|
//! | 0 | `subtype` | 0xFE, MAAP |
//! | 1 | `sv`, `version`, `message_type` | 1 bit (0), 3 (0), 4: 1 probe, 2 defend, 3 announce |
//! | 2 | `maap_version`, `maap_data_length` | 5 bits (1), 11: bytes after `stream_id`, 16 |
//! | 4 | `stream_id` | 0 |
//! | 12 | `requested_start_address` | 48 bits |
//! | 18 | `requested_count` | number of addresses |
//! | 20 | `conflict_start_address` | in a defend message: first address of the conflict |
//! | 26 | `conflict_count` | number of addresses in conflict |

use super::VERSION;

/// Multicast group, except for defend messages (table B.9).
pub const GROUP: [u8; 6] = [0x91, 0xE0, 0xF0, 0x00, 0xFF, 0x00];
/// Dynamic pool (table B.9).
pub const POOL: GroupRange =
    GroupRange { first: [0x91, 0xE0, 0xF0, 0x00, 0x00, 0x00], count: 0xFE00 };
/// `subtype` (table 6).
pub const SUBTYPE: u8 = 0xFE;
/// Message length.
pub const MESSAGE_BYTES: usize = 28;

/// Version of IEEE 1722-2016.
const MAAP_VERSION: u16 = 1;
const DATA_BYTES: u16 = 16;

/// Consecutive addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupRange {
    /// First address.
    pub first: [u8; 6],
    /// Number of addresses.
    pub count: u16,
}

impl GroupRange {
    /// Empty range.
    pub const NONE: Self = Self { first: [0; 6], count: 0 };

    /// Range of one address.
    pub const fn only(address: [u8; 6]) -> Self {
        Self { first: address, count: 1 }
    }

    /// The end is exclusive.
    const fn bounds(&self) -> (u64, u64) {
        let [a, b, c, d, e, f] = self.first;
        let first = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
        (first, first + self.count as u64)
    }

    /// Address at `index`.
    pub const fn at(&self, index: u16) -> [u8; 6] {
        let [_, _, a, b, c, d, e, f] = (self.bounds().0 + index as u64).to_be_bytes();
        [a, b, c, d, e, f]
    }

    /// Intersection, if not empty.
    pub fn shared_with(&self, other: &Self) -> Option<Self> {
        let ((first, end), (others, others_end)) = (self.bounds(), other.bounds());
        let (from, to) = (first.max(others), end.min(others_end));
        // Fits: at most the shorter count.
        let count = to.checked_sub(from).filter(|count| *count > 0)? as u16;
        Some(Self { first: self.at((from - first) as u16), count })
    }
}

/// `message_type` (table B.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaapKind {
    /// Queries whether addresses are free.
    Probe,
    /// Reports that addresses are in use.
    Defend,
    /// Announces addresses in use.
    Announce,
}

/// MAAP message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaapMessage {
    /// Type.
    pub kind: MaapKind,
    /// Addresses; in a defend message, the requested addresses.
    pub requested: GroupRange,
    /// In a defend message, the addresses in use.
    pub conflict: GroupRange,
}

impl MaapMessage {
    /// Creates a probe or announcement.
    pub const fn about(kind: MaapKind, requested: GroupRange) -> Self {
        Self { kind, requested, conflict: GroupRange::NONE }
    }

    /// Reads a message after the frame header, if supported.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.first_chunk::<MESSAGE_BYTES>()?;
        let half = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        // Later versions append fields (§B.2.3).
        let understood =
            bytes[0] == SUBTYPE && bytes[1] & VERSION == 0 && half(2) & 0x7FF >= DATA_BYTES;
        let kind = match bytes[1] & 0xF {
            1 => MaapKind::Probe,
            2 => MaapKind::Defend,
            3 => MaapKind::Announce,
            _ => return None,
        };
        let range = |at: usize| GroupRange {
            first: core::array::from_fn(|byte| bytes[at + byte]),
            count: half(at + 6),
        };
        understood.then_some(Self { kind, requested: range(12), conflict: range(20) })
    }

    /// Writes the message without frame header.
    pub fn write(&self) -> [u8; MESSAGE_BYTES] {
        let mut bytes = [0; MESSAGE_BYTES];
        bytes[0] = SUBTYPE;
        bytes[1] = match self.kind {
            MaapKind::Probe => 1,
            MaapKind::Defend => 2,
            MaapKind::Announce => 3,
        };
        bytes[2..4].copy_from_slice(&(MAAP_VERSION << 11 | DATA_BYTES).to_be_bytes());
        for (at, range) in [(12, self.requested), (20, self.conflict)] {
            bytes[at..at + 6].copy_from_slice(&range.first);
            bytes[at + 6..at + 8].copy_from_slice(&range.count.to_be_bytes());
        }
        bytes
    }
}
