//! A stream per second and part, for comparing two reports.
//!
//! Playout keeps the latency of every packet constant, so only the parts show that something became
//! slower. Each second has a median, a 99th percentile and a maximum, stored as columns: a minute
//! of eight stages is 1500 numbers.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamBySecond {
    pub rate: u32,
    pub period: u32,
    pub periods: u32,
    pub ptime_ns: i64,
    pub seconds: u32,
    pub due: u64,
    pub late: Vec<SecondCount>,
    pub lost: Vec<SecondCount>,
    /// Packets in time that were not played.
    pub underrun_discarded: Vec<SecondCount>,
    /// Packets missing between those that left, by capture second; absent in older reports.
    #[serde(default)]
    pub never_sent: Option<Vec<SecondCount>>,
    /// Each stage, in the order of travel, then the wake-up lateness of both device threads.
    pub parts: Vec<PartBySecond>,
}

/// A second since the first packet, and its count; zeros are left out.
pub type SecondCount = (u32, u32);

/// Wake-up lateness of the sender's device thread after its block was ready, relative to the best
/// of its second.
pub const SENDER_LATE: &str = "sender_late";
/// Wake-up lateness of the receiver's device thread: time lost until the DAC, relative to the best
/// of its second.
pub const RECEIVER_LATE: &str = "receiver_late";

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartBySecond {
    /// A stage, `docs/reference/stages.md`, [`SENDER_LATE`] or [`RECEIVER_LATE`].
    pub name: String,
    pub p50_ns: Vec<i64>,
    /// Absent in a second of fewer than 1000 values.
    pub p99_ns: Vec<Option<i64>>,
    pub max_ns: Vec<i64>,
}
