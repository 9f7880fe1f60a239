//! A snapshot: what a running program tells of its streams at one moment, as one line of JSON. Names are
//! fixed as those of the [report](crate::Report) are, and mean what they mean there.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tautline_dsp::level::Level;
use tautline_proto::clock::ClockMapping;
use tautline_proto::counters::{Counted, Counters};
use tautline_proto::crf_follower::{CrfStanding, CrfState};
use tautline_proto::time::{LocalTime, Span};
use tautline_proto::units::Ppm;
use tautline_proto::wire::avtp::id_of;

use crate::WorstPacket;

/// The version of these names.
pub const SCHEMA: u32 = 1;

/// One run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    /// Version of these names.
    pub schema: u32,
    /// The process that runs it.
    pub pid: u32,
    /// `send`, `recv` or `work`.
    pub role: String,
    /// The command line of that process.
    pub command: String,
    /// Since the run began; 0 while a sender is waited for.
    pub elapsed_ns: i64,
    /// Those of a receiver; the one of a sender.
    pub streams: Vec<StreamSnapshot>,
    /// The clock that a receiver follows beside them (`--clock`); absent where none was asked for.
    pub clock: Option<FollowedClockSnapshot>,
    /// The plugins that a worker runs for other machines; absent without any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub worked: Vec<WorkedSnapshot>,
}

/// A plugin that a worker runs for another machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkedSnapshot {
    /// The number of its stream.
    pub id: u32,
    /// Its id in the worker's catalogue.
    pub plugin: String,
    /// The client: the name by which it is trusted and its address.
    pub by: String,
    /// As the control port of the worker reports it: `starting`, `idle`, `running`, `restarting` or `failed`.
    pub phase: String,
    /// The part of a core that is promised to it, 0 to 1.
    pub share: f64,
    /// Blocks that it ran.
    pub blocks: u64,
    /// Blocks that never arrived.
    pub missed: u64,
    /// Processes that were started in place of one that died or hung.
    pub restarts: u32,
}

/// A clock that is followed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FollowedClockSnapshot {
    /// As it was given.
    pub address: String,
    /// The talker's stream id; absent before one was heard, unless it was asked for.
    pub stream: Option<String>,
    /// Whether it is heard.
    pub state: FollowedClockState,
    /// How much faster than nominally it runs against TAI; absent before that was known to 1 ppm.
    pub rate_ppm: Option<f64>,
    /// How far that may be from the truth, either way.
    pub uncertainty_ppm: Option<f64>,
    /// For how long it has been held; absent in other states.
    pub held_ns: Option<i64>,
}

/// Whether a clock that is followed is heard.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FollowedClockState {
    /// Nothing has come yet that tells of it.
    Unheard,
    /// It is.
    Heard,
    /// It was, and nothing comes that tells of it: its rate is held.
    Held,
    /// A state that this taut does not know.
    #[default]
    #[serde(other)]
    Unknown,
}

/// How it stands with whoever is at the other end of a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StreamState {
    /// It is there.
    Here,
    /// A receiver: no packet has come yet.
    Awaited,
    /// A receiver: packets came, and none for a second or more.
    Silent,
    /// A receiver: none of it can be played as this end was set up.
    Refused,
    /// A sender: no receiver whose word counts answers.
    Nobody,
    /// A sender: a receiver stopped reporting without a goodbye.
    Lost,
    /// It is too early to say, or nobody can say.
    #[default]
    #[serde(other)]
    Unknown,
}

/// One stream.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StreamSnapshot {
    /// As it was given.
    pub address: String,
    /// Where its packets come from; absent at a sender and where nobody is known.
    pub sender: Option<String>,
    /// The other end.
    pub state: StreamState,
    /// Frames per second.
    pub rate: u32,
    /// Samples per frame.
    pub channels: usize,
    /// `l16`, `l24`, `opus` or the like.
    pub format: String,
    /// Bits per second of sound, where the sender chooses them; absent where they are what the sound takes.
    pub bitrate: Option<u32>,
    /// By what its packets go in a call, `udp` or `tcp`, which may change; absent elsewhere: the address says it.
    pub transport: Option<String>,
    /// Whether silence is sent in its place; of what is received nobody knows.
    pub muted: bool,
    /// Audio time in one packet.
    pub ptime_ns: i64,
    /// Capture to DAC.
    pub latency: LatencySnapshot,
    /// Medians of the last second, in the order of travel; at a receiver by the device's word.
    pub stages: Vec<StageLength>,
    /// The depth: the link offset that arrivals ask for; absent at a sender and before it is measured.
    pub depth_ns: Option<i64>,
    /// The least headroom of the last second, below zero where a packet came late; absent at a sender.
    pub headroom_ns: Option<i64>,
    /// Everything counted since the run began, by the names of the report.
    pub counters: BTreeMap<String, u64>,
    /// What was counted in the last second.
    pub second: SecondCounts,
    /// The meter of each channel: of a receiver as the stream is mixed, before the volume of all; of a
    /// sender as it is sent. Absent until something was heard.
    pub meters: Option<Vec<Meter>>,
    /// The packet of the last minute that had the least to spare.
    pub worst: Option<WorstStages>,
    /// The sender's clock against ours, at a receiver that knows it.
    pub clock: Option<ClockSnapshot>,
}

/// Capture to DAC.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LatencySnapshot {
    /// The link offset that is promised or kept, if anybody says what it is.
    pub configured_ns: Option<i64>,
    /// The median of the newest packets; of a sender, what the receiver says that hears it last.
    pub measured_ns: Option<i64>,
    /// How far that may be from the truth, either way.
    pub uncertainty_ns: Option<i64>,
    /// Of the whole run.
    pub p99_ns: Option<i64>,
    /// Whose word it is, as in the report: `sound`, `device`, `due`, or `receivers` at a sender.
    pub by: String,
}

/// How long one stage took.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StageLength {
    /// See the glossary.
    pub name: Cow<'static, str>,
    /// Its length.
    pub ns: i64,
}

/// What was counted in the last second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SecondCounts {
    /// Of which so much is known: less than a second after somebody began to look.
    pub over_ns: i64,
    /// Packets sent, or received.
    pub packets: u64,
    /// Packets that had not come at their turn.
    pub lost: u64,
    /// Packets that came after it.
    pub late: u64,
    /// Xruns of the device.
    pub xruns: u64,
    /// Lost ones as a share of those that were due; absent where none were, and at a sender.
    pub loss_share: Option<f64>,
}

/// How loud a channel was since the snapshot before, in dBFS: a sample of 1 is 0 dB, so that a sine of
/// full scale has an RMS of −3.01 dB. Absent of digital silence.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Meter {
    /// The largest sample.
    pub peak_db: Option<f64>,
    /// The root of the mean square.
    pub rms_db: Option<f64>,
}

/// A packet with the length of each known stage.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorstStages {
    /// Its first frame as an RTP timestamp.
    pub rtp_timestamp: u32,
    /// Capture to DAC, if known.
    pub total_ns: Option<i64>,
    /// In the order of travel.
    pub stages: Vec<StageLength>,
}

/// The sender's clock against ours.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClockSnapshot {
    /// What it rests on: `rtcp`, `system`, `ptp` or `host`.
    pub source: String,
    /// How far it may be from the truth, either way, if that is known.
    pub uncertainty_ns: Option<i64>,
    /// The round trip of the exchange it rests on, if it rests on one.
    pub round_trip_ns: Option<i64>,
    /// By how much it runs faster than ours, in ppm.
    pub rate_ppm: Option<f64>,
}

impl Meter {
    /// Of a level, to a tenth of a decibel.
    pub fn of(level: &Level) -> Self {
        let db = |factor: f32| (factor > 0.0).then(|| 20.0 * f64::from(factor).log10());
        let tenths = |db: f64| (db * 10.0).round() / 10.0;
        Self { peak_db: db(level.peak).map(tenths), rms_db: db(level.rms()).map(tenths) }
    }
}

impl FollowedClockSnapshot {
    /// Of how a clock that was given so stands.
    pub fn of(address: &str, standing: &CrfStanding, now: LocalTime) -> Self {
        let (state, held_ns) = match standing.state {
            CrfState::Unheard => (FollowedClockState::Unheard, None),
            CrfState::Heard => (FollowedClockState::Heard, None),
            CrfState::Held { since, .. } => {
                (FollowedClockState::Held, Some((now - since).as_nanos()))
            }
        };
        Self {
            address: address.to_owned(),
            stream: standing.stream.map(id_of),
            state,
            rate_ppm: standing.told.map(|told| told.rate.as_f64()),
            uncertainty_ppm: standing.told.map(|told| told.uncertainty().as_f64()),
            held_ns,
        }
    }
}

impl ClockSnapshot {
    /// Of how the sender's clock is mapped to ours.
    pub fn of(mapping: &ClockMapping) -> Self {
        Self {
            source: mapping.source.name().to_owned(),
            uncertainty_ns: Some(mapping.uncertainty.as_nanos()),
            round_trip_ns: mapping.known_round_trip().map(Span::as_nanos),
            rate_ppm: mapping.rate().map(Ppm::as_f64),
        }
    }
}

impl From<WorstPacket> for WorstStages {
    fn from(packet: WorstPacket) -> Self {
        let WorstPacket { rtp_timestamp, total_ns, stages } = packet;
        let stages = stages.into_iter().map(|(name, ns)| StageLength { name, ns });
        Self { rtp_timestamp, total_ns, stages: stages.collect() }
    }
}

/// Every counter by its name.
pub fn counters(counted: impl Iterator<Item = Counted>) -> BTreeMap<String, u64> {
    counted.map(|counted| (counted.name.to_owned(), counted.count)).collect()
}

impl StreamSnapshot {
    /// What was counted here, if all of it is known.
    pub fn counted(&self) -> Option<Counters> {
        Counters::known(|name| self.counters.get(name).copied())
    }
}

/// The median of each stage of these packets, in the order of travel.
pub fn medians(packets: impl Iterator<Item = WorstPacket>) -> Vec<StageLength> {
    let mut lengths: Vec<(Cow<'static, str>, Vec<i64>)> = Vec::new();
    for (name, ns) in packets.flat_map(|packet| packet.stages) {
        match lengths.iter_mut().find(|(known, _)| *known == name) {
            Some((_, lengths)) => lengths.push(ns),
            None => lengths.push((name, vec![ns])),
        }
    }
    let median = |(name, mut lengths): (Cow<'static, str>, Vec<i64>)| {
        let middle = (lengths.len() - 1) / 2;
        let (_, median, _) = lengths.select_nth_unstable(middle);
        StageLength { name, ns: *median }
    };
    lengths.into_iter().map(median).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_is_read_as_it_was_written_and_without_what_it_does_not_say() {
        let stage = StageLength { name: "wire".into(), ns: 12 };
        let stream = StreamSnapshot {
            address: "rtp://0.0.0.0:5004".into(),
            state: StreamState::Silent,
            stages: vec![stage.clone()],
            meters: Some(vec![Meter { peak_db: Some(-18.0), rms_db: None }]),
            worst: Some(WorstStages { stages: vec![stage], ..WorstStages::default() }),
            ..StreamSnapshot::default()
        };
        let clock = FollowedClockSnapshot {
            state: FollowedClockState::Held,
            held_ns: Some(7),
            ..FollowedClockSnapshot::default()
        };
        let (streams, clock) = (vec![stream], Some(clock));
        let snapshot = Snapshot { schema: SCHEMA, streams, clock, ..Snapshot::default() };
        let line = serde_json::to_string(&snapshot).unwrap();
        assert!(!line.contains('\n'), "{line}");
        assert_eq!(serde_json::from_str::<Snapshot>(&line).unwrap(), snapshot);
        let other = r#"{"schema": 7, "more": [1], "streams": [{"state": "asleep"}], "clock": {"state": "odd"}}"#;
        let other: Snapshot = serde_json::from_str(other).unwrap();
        assert_eq!((other.schema, other.streams[0].state), (7, StreamState::Unknown));
        assert_eq!(other.clock, Some(FollowedClockSnapshot::default()));
    }

    #[test]
    fn medians_are_those_of_the_packets_that_have_the_stage() {
        let packet = |stages: &[(&'static str, i64)]| WorstPacket {
            stages: stages.iter().map(|(name, ns)| ((*name).into(), *ns)).collect(),
            ..WorstPacket::default()
        };
        let packets =
            [packet(&[("wire", 5), ("device", 1)]), packet(&[("wire", 9)]), packet(&[("wire", 6)])];
        let told = medians(packets.into_iter());
        let told: Vec<_> = told.iter().map(|stage| (&*stage.name, stage.ns)).collect();
        assert_eq!(told, [("wire", 6), ("device", 1)]);
        assert_eq!(medians(std::iter::empty()), []);
    }

    #[test]
    fn a_meter_says_decibels_below_full_scale_and_nothing_of_silence() {
        let level = Level { peak: 0.5, squares: 0.0, frames: 10 };
        assert_eq!(Meter::of(&level), Meter { peak_db: Some(-6.0), rms_db: None });
    }
}
