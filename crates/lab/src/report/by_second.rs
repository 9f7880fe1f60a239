//! A stream per second and part, for comparing reports.
//!
//! Playout keeps the latency constant, so only parts show slowing. Columns: a minute of eight
//! stages is 1500 numbers.

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
    /// Received in time, but not played.
    pub underrun_discarded: Vec<SecondCount>,
    /// Between sent packets, by capture second; absent in older reports.
    #[serde(default)]
    pub never_sent: Option<Vec<SecondCount>>,
    pub parts: Vec<PartBySecond>,
}

/// Second since the first packet, and count; without zeros.
pub type SecondCount = (u32, u32);

/// Lateness after the block was ready, relative to the second's best.
pub const SENDER_LATE: &str = "sender_late";
/// Time lost until the DAC, relative to the second's best.
pub const RECEIVER_LATE: &str = "receiver_late";

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartBySecond {
    /// A stage (`docs/reference/stages.md`), [`SENDER_LATE`] or [`RECEIVER_LATE`].
    pub name: String,
    pub p50_ns: Vec<i64>,
    /// Absent below 1000 values.
    pub p99_ns: Vec<Option<i64>>,
    pub max_ns: Vec<i64>,
}
