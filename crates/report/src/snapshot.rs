//! Snapshot of a running program as one line of JSON. Names are stable, as in the
//! [report](crate::Report).

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

use crate::{GapReport, WorstPacket};

/// Version of the JSON names.
pub const SCHEMA: u32 = 2;

/// Counter of a received stream: xruns of the sender's device, if there are any.
pub const SENDER_XRUNS: &str = "sender_xruns";

/// Snapshot of one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    /// Version of the JSON names.
    pub schema: u32,
    /// Process id.
    pub pid: u32,
    /// `send`, `recv`, `work`, or `call` or `serve` for one direction of a call: a received stream
    /// has `gaps`.
    pub role: String,
    /// Command line of the process.
    pub command: String,
    /// Time since the start; 0 while the receiver waits for a sender.
    pub elapsed_ns: i64,
    /// A receiver's streams, or a sender's one stream.
    pub streams: Vec<StreamSnapshot>,
    /// Clock followed via `--clock`, if any.
    pub clock: Option<FollowedClockSnapshot>,
    /// Zone of a building, if the receiver is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<ZoneSnapshot>,
    /// Plugins run for other machines, if any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub offloads: Vec<OffloadSnapshot>,
}

/// Decision of a zone.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ZoneSnapshot {
    /// Number of the announcement that plays, if any: 16 hexadecimal digits.
    pub announcement: Option<String>,
    /// Current gain of the programs: 1 without an announcement, 0 for silence.
    pub program_gain: f64,
    /// Claims for this zone without effect: contradictory, too early, or of a wrong clock.
    pub refused_claims: u64,
}

/// A plugin that a worker runs for another machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OffloadSnapshot {
    /// Number of its stream.
    pub id: u32,
    /// Plugin id in the worker's catalogue.
    pub plugin: String,
    /// Client's trusted name and address.
    pub client: String,
    /// Phase as at the control port: `starting`, `idle`, `running`, `restarting` or `failed`.
    pub phase: String,
    /// Reserved share of a core, 0 to 1.
    pub share: f64,
    /// Processed blocks.
    pub blocks: u64,
    /// Blocks that never arrived.
    pub missed: u64,
    /// Processes that replaced a dead or hung one.
    pub restarts: u32,
}

/// A clock that a receiver follows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FollowedClockSnapshot {
    /// Address as given by the user.
    pub address: String,
    /// Talker's stream id, as requested or received; absent until known.
    pub stream: Option<String>,
    /// State of reception.
    pub state: FollowedClockState,
    /// Rate error against TAI in ppm, positive if fast; absent until known to 1 ppm.
    pub rate_ppm: Option<f64>,
    /// Uncertainty of the rate, ± ppm.
    pub uncertainty_ppm: Option<f64>,
    /// Duration of the holdover so far; absent in other states.
    pub holdover_ns: Option<i64>,
}

/// Reception of a followed clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FollowedClockState {
    /// Nothing received so far.
    Waiting,
    /// Clock packets arrive.
    Locked,
    /// Holdover: clock packets stopped.
    Holdover,
    /// State unknown to this version.
    #[default]
    #[serde(other)]
    Unknown,
}

/// State of the peer of a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamState {
    /// Connected.
    Connected,
    /// Receiver: no packet has arrived yet, or the sender said goodbye.
    Waiting,
    /// Receiver: no packets for a second or more, without a goodbye.
    Silent,
    /// Receiver: the stream does not fit this configuration.
    Refused,
    /// Sender: no trusted receiver reports.
    NoReceiver,
    /// Sender: a receiver's reports stopped without a goodbye.
    Lost,
    /// Not known so far.
    #[default]
    #[serde(other)]
    Unknown,
}

/// Snapshot of one stream.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StreamSnapshot {
    /// Address as given by the user.
    pub address: String,
    /// Source address of its packets; absent if unknown, and at a sender.
    pub sender: Option<String>,
    /// State of the peer.
    pub state: StreamState,
    /// Sample rate in Hz.
    pub rate: u32,
    /// Channels.
    pub channels: usize,
    /// Audio format, such as `l16`, `l24` or `opus`.
    pub format: String,
    /// Bit rate in bit/s, if the sender chooses it; absent if it depends on the sound.
    pub bitrate: Option<u32>,
    /// Current transport of a call, `udp` or `tcp`.
    pub transport: Option<String>,
    /// Whether silence replaces the sound; unknown for received streams.
    pub muted: bool,
    /// Audio time per packet.
    pub ptime_ns: i64,
    /// Capture-to-DAC latency.
    pub latency: LatencySnapshot,
    /// Median stage lengths of the last second.
    pub stages: Vec<StageLength>,
    /// Target delay: link offset that arrivals need. Absent at a sender and until measured.
    pub target_delay_ns: Option<i64>,
    /// Whether the target delay includes repair time: redundancy is in use, and losses exceed the
    /// target.
    pub target_delay_has_repair: bool,
    /// Minimum headroom of the last second, negative if late; absent at a sender. Rebuilt packets
    /// do not count.
    pub headroom_ns: Option<i64>,
    /// Counts since the start, under the report's names.
    pub counters: BTreeMap<String, u64>,
    /// Causes of missing packets since the start; absent at a sender.
    pub gaps: Option<GapReport>,
    /// Counts of the last second.
    pub second: SecondCounts,
    /// Meter per channel: at a receiver before the master volume, at a sender as sent. Absent
    /// before any sound.
    pub meters: Option<Vec<Meter>>,
    /// The last minute's packet with the least headroom.
    pub worst: Option<WorstStages>,
    /// Sender's clock against ours, if a receiver knows it.
    pub clock: Option<ClockSnapshot>,
}

/// Capture-to-DAC latency.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LatencySnapshot {
    /// Link offset, announced or kept, if known.
    pub configured_ns: Option<i64>,
    /// Median of the newest packets; at a sender as last reported by a receiver.
    pub measured_ns: Option<i64>,
    /// Uncertainty of the measured latency, ± ns.
    pub uncertainty_ns: Option<i64>,
    /// 99th percentile of the whole run.
    pub p99_ns: Option<i64>,
    /// `sound`, `device` or `due` as in the report, or `receivers` at a sender.
    pub method: String,
}

/// Length of one stage.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StageLength {
    /// Name of the stage (`docs/reference/stages.md`).
    pub name: Cow<'static, str>,
    /// Length of the stage.
    pub ns: i64,
}

/// Counts of the last second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SecondCounts {
    /// Covered time, less than a second at first.
    pub interval_ns: i64,
    /// Packets sent or received.
    pub packets: u64,
    /// Packets missing at playout.
    pub lost: u64,
    /// Late packets.
    pub late: u64,
    /// Xruns of the device.
    pub xruns: u64,
    /// Lost share of due packets; at a sender, between the last two reports of its receiver. Absent
    /// if none were due.
    pub loss_share: Option<f64>,
}

/// Channel level since the previous snapshot, in dBFS: a full-scale sine has an RMS of −3.01 dB.
/// Absent below −144 dBFS, the least step of 24 bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Meter {
    /// Peak level.
    pub peak_db: Option<f64>,
    /// RMS level.
    pub rms_db: Option<f64>,
}

/// A packet with the lengths of its known stages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorstStages {
    /// RTP timestamp of its first frame.
    pub rtp_timestamp: u32,
    /// Capture-to-DAC latency, if known.
    pub total_ns: Option<i64>,
    /// Stages in the order of travel.
    pub stages: Vec<StageLength>,
}

/// Sender's clock against ours.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClockSnapshot {
    /// Basis of the mapping: `rtcp`, `system`, `ptp`, `host` or `tai`.
    pub source: String,
    /// Uncertainty, ± ns, if known.
    pub uncertainty_ns: Option<i64>,
    /// Round trip of the underlying exchange, if any.
    pub round_trip_ns: Option<i64>,
    /// Rate against ours, in ppm, positive if fast.
    pub rate_ppm: Option<f64>,
    /// Uncertainty of that rate, ± ppm.
    pub rate_uncertainty_ppm: Option<f64>,
}

impl Meter {
    /// 2⁻²⁴: a decaying float signal falls far below it.
    const MIN_PEAK: f32 = 1.0 / (1 << 24) as f32;

    /// Rounds to 0.1 dB.
    pub fn of(level: &Level) -> Self {
        if level.peak < Self::MIN_PEAK {
            return Self::default();
        }
        let db = |factor: f32| (factor > 0.0).then(|| 20.0 * f64::from(factor).log10());
        let tenths = |db: f64| (db * 10.0).round() / 10.0;
        Self { peak_db: db(level.peak).map(tenths), rms_db: db(level.rms()).map(tenths) }
    }
}

impl FollowedClockSnapshot {
    /// From a clock's state.
    pub fn of(address: &str, standing: &CrfStanding, now: LocalTime) -> Self {
        let (state, holdover_ns) = match standing.state {
            CrfState::NotReceived => (FollowedClockState::Waiting, None),
            CrfState::Received => (FollowedClockState::Locked, None),
            CrfState::Held { since, .. } => {
                (FollowedClockState::Holdover, Some((now - since).as_nanos()))
            }
        };
        Self {
            address: address.to_owned(),
            stream: standing.stream.map(id_of),
            state,
            rate_ppm: standing.reported.map(|reported| reported.rate.as_f64()),
            uncertainty_ppm: standing.reported.map(|reported| reported.uncertainty().as_f64()),
            holdover_ns,
        }
    }
}

impl ClockSnapshot {
    /// From a clock mapping.
    pub fn of(mapping: &ClockMapping) -> Self {
        Self {
            source: mapping.source.name().to_owned(),
            uncertainty_ns: Some(mapping.uncertainty.as_nanos()),
            round_trip_ns: mapping.known_round_trip().map(Span::as_nanos),
            rate_ppm: mapping.rate().map(Ppm::as_f64),
            rate_uncertainty_ppm: mapping.rate().map(|_| mapping.rate_uncertainty().as_f64()),
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

/// Collects counters by name.
pub fn counters(counted: impl Iterator<Item = Counted>) -> BTreeMap<String, u64> {
    counted.map(|counted| (counted.name.to_owned(), counted.count)).collect()
}

impl StreamSnapshot {
    /// `None` if a counter is missing.
    pub fn counted(&self) -> Option<Counters> {
        Counters::known(|name| self.counters.get(name).copied())
    }

    /// A count since the start, 0 if it is missing.
    pub fn count(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or(0)
    }
}

/// Stage medians over these packets, in the order of travel.
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
    fn snapshot_survives_json_and_defaults_missing_fields() {
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
            state: FollowedClockState::Holdover,
            holdover_ns: Some(7),
            ..FollowedClockSnapshot::default()
        };
        let (streams, clock) = (vec![stream], Some(clock));
        let zone =
            ZoneSnapshot { announcement: Some("07".into()), program_gain: 0.1, refused_claims: 3 };
        let zone = Some(zone);
        let snapshot = Snapshot { schema: SCHEMA, streams, clock, zone, ..Snapshot::default() };
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
        let reported = medians(packets.into_iter());
        let reported: Vec<_> = reported.iter().map(|stage| (&*stage.name, stage.ns)).collect();
        assert_eq!(reported, [("wire", 6), ("device", 1)]);
        assert_eq!(medians(std::iter::empty()), []);
    }

    #[test]
    fn meter_is_in_dbfs_and_absent_for_silence() {
        let level = Level { peak: 0.5, squares: 0.0, frames: 10 };
        assert_eq!(Meter::of(&level), Meter { peak_db: Some(-6.0), rms_db: None });
        let decayed = Level { peak: f32::from_bits(1), ..level };
        assert_eq!(Meter::of(&decayed), Meter::default(), "not -897 dBFS");
    }
}
