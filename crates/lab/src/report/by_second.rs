//! A stream second by second, part by part: what two reports are compared by.
//!
//! A playout holds the latency of every packet constant, so what became slower on the way is in the parts
//! alone. Of each second its median, its 99th percentile and its greatest value are kept, as columns: a
//! minute of eight stages is 1500 numbers.

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
    /// Packets that were there in time and were not played.
    pub unheard: Vec<SecondCount>,
    /// Packets missing among those that left, by the second of their capture; absent in older reports.
    #[serde(default)]
    pub never_sent: Option<Vec<SecondCount>>,
    /// Each stage, in the order of travel; then how late the threads of both devices woke.
    pub parts: Vec<PartBySecond>,
}

/// A second since the first packet, and how many there were in it; without seconds that had none.
pub type SecondCount = (u32, u32);

/// How late the sender's device thread woke after its block was there, against the best of its second.
pub const SENDER_LATE: &str = "sender_late";
/// How much less the receiver's had until the DAC, against the best of its second.
pub const RECEIVER_LATE: &str = "receiver_late";

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartBySecond {
    /// A stage, as in the glossary, [`SENDER_LATE`] or [`RECEIVER_LATE`].
    pub name: String,
    pub p50_ns: Vec<i64>,
    /// 99th percentiles; absent in a second of fewer than 1000 values.
    pub p99_ns: Vec<Option<i64>>,
    pub max_ns: Vec<i64>,
}
