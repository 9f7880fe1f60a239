//! The clock that a receiver followed, as a report has it.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tautline_proto::crf_follower::{CrfCounters, CrfStanding, CrfState};
use tautline_proto::wire::avtp::crf::CrfInvalid;
use tautline_proto::wire::avtp::id_of;

use super::{InvalidCount, counts, each_by_name};

/// The clock that a receiver followed (`--clock`), at the end of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
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
    /// What was counted of it.
    #[serde(flatten, serialize_with = "by_name", deserialize_with = "from_names")]
    pub counters: CrfCounters,
    /// Packets that this host dropped since the buffer of the socket, or of the stream that it shares it with, was full; of the lost ones.
    pub socket_drops: u64,
    /// What told nothing of it, by reason.
    pub invalid: Vec<InvalidCount>,
}

impl FollowedClockReport {
    /// Of how a clock that was given so stands at the end.
    pub fn of(address: &str, standing: &CrfStanding, socket_drops: u64) -> Self {
        let invalid = CrfInvalid::NAMES.into_iter().zip(standing.invalid);
        Self {
            address: address.to_owned(),
            stream: standing.stream.map(id_of),
            rate_ppm: standing.told.map(|told| told.rate.as_f64()),
            uncertainty_ppm: standing.told.map(|told| told.uncertainty().as_f64()),
            held_since_ns: match standing.state {
                CrfState::Held { since, .. } => Some(since.as_nanos()),
                CrfState::Unheard | CrfState::Heard => None,
            },
            counters: standing.counters,
            socket_drops,
            invalid: invalid
                .filter(|(_, count)| *count > 0)
                .map(|(reason, count)| InvalidCount { reason: reason.into(), count })
                .collect(),
        }
    }
}

fn by_name<S: Serializer>(counters: &CrfCounters, serializer: S) -> Result<S::Ok, S::Error> {
    each_by_name(counters.each(), serializer)
}

fn from_names<'de, D: Deserializer<'de>>(from: D) -> Result<CrfCounters, D::Error> {
    counts(from).map(CrfCounters::of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_of_a_clock_stands_beside_what_else_is_told_of_it() {
        let counters = CrfCounters { received: 500, restarts: 2, ..CrfCounters::default() };
        let invalid = [3; CrfInvalid::COUNT];
        let state = CrfState::Heard;
        let standing = CrfStanding { stream: None, told: None, state, counters, invalid };
        let told = FollowedClockReport::of("avtp://eth0", &standing, 7);
        let told = serde_json::to_value(told).unwrap();
        for (name, count) in counters.each().map(|counted| (counted.name, counted.count)) {
            assert_eq!(told[name], count, "{name} in {told}");
        }
        assert_eq!((&told["packets_received"], &told["socket_drops"]), (&500.into(), &7.into()));
        assert_eq!(told["invalid"].as_array().unwrap().len(), CrfInvalid::COUNT);
    }
}
