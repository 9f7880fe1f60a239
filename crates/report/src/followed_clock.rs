//! Report of the clock that a receiver followed.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tautline_proto::crf_follower::{CrfCounters, CrfStanding, CrfState};
use tautline_proto::wire::avtp::crf::CrfInvalid;
use tautline_proto::wire::avtp::id_of;

use super::{InvalidCount, counts, each_by_name};

/// The clock followed via `--clock`, at the end of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FollowedClockReport {
    /// Address as given by the user.
    pub address: String,
    /// Talker's stream id; absent until the receiver has seen one.
    pub stream: Option<String>,
    /// Rate error against TAI in ppm, positive if fast; absent until known to 1 ppm.
    pub rate_ppm: Option<f64>,
    /// Uncertainty of the rate at the end of the run, ± ppm.
    pub uncertainty_ppm: Option<f64>,
    /// Start of the holdover, on this machine's monotonic clock. Absent while the clock is
    /// received, and if it never was.
    pub holdover_since_ns: Option<i64>,
    /// Counters of the clock stream.
    #[serde(flatten, serialize_with = "by_name", deserialize_with = "from_names")]
    pub counters: CrfCounters,
    /// Lost packets that this host dropped, because the receive buffer was full. A stream may share
    /// that buffer.
    pub socket_drops: u64,
    /// Datagrams without usable clock information.
    pub invalid: Vec<InvalidCount>,
}

impl FollowedClockReport {
    /// Creates the report from a clock's final state.
    pub fn of(address: &str, standing: &CrfStanding, socket_drops: u64) -> Self {
        let invalid = CrfInvalid::NAMES.into_iter().zip(standing.invalid);
        Self {
            address: address.to_owned(),
            stream: standing.stream.map(id_of),
            rate_ppm: standing.reported.map(|reported| reported.rate.as_f64()),
            uncertainty_ppm: standing.reported.map(|reported| reported.uncertainty().as_f64()),
            holdover_since_ns: match standing.state {
                CrfState::Held { since, .. } => Some(since.as_nanos()),
                CrfState::NotReceived | CrfState::Received => None,
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
    fn clock_counters_are_fields_of_the_clock_report() {
        let counters =
            CrfCounters { received: 500, media_clock_restarts: 2, ..CrfCounters::default() };
        let invalid = [3; CrfInvalid::COUNT];
        let state = CrfState::Received;
        let standing = CrfStanding { stream: None, reported: None, state, counters, invalid };
        let reported = FollowedClockReport::of("avtp://eth0", &standing, 7);
        let reported = serde_json::to_value(reported).unwrap();
        for (name, count) in counters.each().map(|counted| (counted.name, counted.count)) {
            assert_eq!(reported[name], count, "{name} in {reported}");
        }
        assert_eq!(
            (&reported["packets_received"], &reported["socket_drops"]),
            (&500.into(), &7.into())
        );
        assert_eq!(reported["invalid"].as_array().unwrap().len(), CrfInvalid::COUNT);
    }
}
