//! How the clock stood that was followed beside the streams.

use serde::Serialize;
use tautline_proto::clock::CrfStanding;
use tautline_proto::wire::avtp::crf::CrfInvalid;
use tautline_proto::wire::avtp::id_of;

use super::InvalidCount;

/// The clock that a receiver followed (`--clock`), at the end of a run.
#[derive(Debug, Clone, Serialize)]
pub struct FollowedClockReport {
    /// As it was given.
    pub address: String,
    /// The talker's stream id; absent before one was heard.
    pub stream: Option<String>,
    /// How much faster than nominally it runs against TAI; absent before that was known to 1 ppm.
    pub rate_ppm: Option<f64>,
    /// How far that may be from the truth by now, either way.
    pub uncertainty_ppm: Option<f64>,
    /// Since when nothing told of it, by this machine's monotonic clock: the rate was held. Absent while it is heard, and
    /// where it never was.
    pub held_since_ns: Option<i64>,
    /// Packets of its talker.
    pub packets_received: u64,
    /// Those that never came.
    pub lost: u64,
    /// Those that came after later ones.
    pub reordered: u64,
    /// Those that came again.
    pub duplicates: u64,
    /// Those that said that their times are not to be relied upon (`tu`).
    pub uncertain: u64,
    /// Those that did not fit what was told before.
    pub doubted: u64,
    /// How often the times jumped.
    pub jumps: u64,
    /// How often the media clock began anew (`mr`).
    pub restarts: u64,
    /// Packets that this host dropped since the socket's buffer was full; of the lost ones.
    pub socket_drops: u64,
    /// What told nothing of it, by reason.
    pub invalid: Vec<InvalidCount>,
}

impl FollowedClockReport {
    pub(crate) fn of(address: &str, standing: &CrfStanding, socket_drops: u64) -> Self {
        let counted = &standing.counters;
        let invalid = CrfInvalid::NAMES.into_iter().zip(counted.invalid);
        Self {
            address: address.to_owned(),
            stream: standing.stream.map(id_of),
            rate_ppm: standing.told.map(|told| told.rate.as_f64()),
            uncertainty_ppm: standing.told.map(|told| told.uncertainty().as_f64()),
            held_since_ns: standing.held_since.map(|since| since.as_nanos()),
            packets_received: counted.received,
            lost: counted.lost,
            reordered: counted.reordered,
            duplicates: counted.duplicates,
            uncertain: counted.uncertain,
            doubted: counted.doubted,
            jumps: counted.jumps,
            restarts: counted.restarts,
            socket_drops,
            invalid: invalid
                .filter(|(_, count)| *count > 0)
                .map(|(reason, count)| InvalidCount { reason, count })
                .collect(),
        }
    }
}
