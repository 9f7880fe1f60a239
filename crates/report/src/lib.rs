//! Final reports and live snapshots of a run: types, JSON, and text for people. JSON names are
//! stable, since scripts rely on them.
#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod csv;
pub mod distribution;
mod followed_clock;
mod host;
mod json;
pub mod ledger;
pub mod snapshot;
pub mod text;

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use tautline_proto::counters::Counted;
pub use tautline_proto::counters::Counters;

use crate::distribution::Summary;
pub use crate::followed_clock::FollowedClockReport;
pub use crate::host::{HostReport, PtpReport, Refused, TaiReport};
use crate::json::json;

/// Report of one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// Version of the JSON names.
    pub schema: u32,
    /// `send` or `recv`.
    pub role: Cow<'static, str>,
    /// Start of the run, on this machine's monotonic clock, as in ledgers.
    pub began_ns: i64,
    /// Time from the first period to the last.
    pub duration_ns: i64,
    /// Streams: one per `--from`, or one for all `--to`.
    pub streams: Vec<StreamReport>,
    /// Clock that was followed in addition to the streams (`--clock`); absent if none was
    /// requested.
    pub clock: Option<FollowedClockReport>,
    /// The machine.
    pub host: HostReport,
    /// Incomplete output files, such as a ledger or a recording on a full disk: one sentence each,
    /// also among the notes.
    pub unwritten: Vec<String>,
    /// Caveats for readers of the figures, one sentence each.
    pub notes: Vec<String>,
}

/// How a stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StreamEnd {
    /// The sender sent a goodbye.
    Goodbye,
    /// The sender stopped without a goodbye.
    Silence,
}

/// Sender of a received stream.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HeardSender {
    /// Source address of its packets.
    pub from: String,
    /// Its synchronization source (SSRC).
    pub ssrc: u32,
}

/// Report of one stream.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StreamReport {
    /// Address as given by the user.
    pub address: String,
    /// Current or last sender; absent if none is known, and in a sender's report.
    pub sender: Option<HeardSender>,
    /// AVTP sender only: stream id in its packets, `AA:BB:CC:DD:EE:FF:0001`, as `?streamid=`
    /// accepts it.
    pub stream_id: Option<String>,
    /// SRTP profile of the packets, such as `AEAD_AES_256_GCM`; absent if they are not encrypted.
    pub sealed: Option<Cow<'static, str>>,
    /// Sample rate in Hz.
    pub rate: u32,
    /// Number of channels.
    pub channels: usize,
    /// `l16`, `l24` or `f32`.
    pub format: Cow<'static, str>,
    /// Why the stream was not played, or no longer, with the fix: its rate, channels or
    /// payload type differ from this end's configuration. Absent in a sender's report.
    pub refused: Option<String>,
    /// Whether any part was played.
    #[serde(skip)]
    pub played: bool,
    /// How the stream ended, if that ended the run (`--until-bye`).
    pub ended: Option<StreamEnd>,
    /// Audio time per packet.
    pub ptime_ns: i64,
    /// Capture-to-DAC latency.
    pub latency: LatencyReport,
    /// Share of measured packets: `all`, `64` for one in 64, or `off`. Figures that were not
    /// measured are absent or have a count of 0.
    pub probes: Cow<'static, str>,
    /// Stages in the order of travel.
    pub stages: Vec<StageSummary>,
    /// Counters of the stream.
    #[serde(serialize_with = "by_name", deserialize_with = "from_names")]
    pub counters: Counters,
    /// First thousand xruns of the device. The counter `xruns` includes all.
    pub xruns: Vec<Xrun>,
    /// Causes of the packets that were missing at their playout time; absent in a sender's report.
    pub gaps: Option<GapReport>,
    /// Redundancy that the sender's packets carry at the end; absent in a receiver's report, and if
    /// none is requested.
    pub redundancy: Option<RedundancyReport>,
    /// Redundancy that received packets carry at the end; absent in a sender's report, and if they
    /// carry none.
    pub repair: Option<RepairReport>,
    /// Packets per network, for a stream received via several.
    pub paths: Vec<PathReport>,
    /// Invalid datagrams by reason; reasons with a count of 0 are omitted.
    pub invalid: Vec<InvalidCount>,
    /// Rate error of the card against the sender's, in ppm, positive if the card is fast, as last
    /// corrected by the resampler. Absent without resampling.
    pub drift_ppm: Option<f64>,
    /// Peer's clock against ours.
    pub clock: Option<Clock>,
    /// Packets that came closest to being late, with their stages in nanoseconds.
    pub worst: Vec<WorstPacket>,
    /// Sender only: state of each receiver, from its reports.
    pub receivers: Vec<RemoteReceiver>,
    /// Time from the hand-over to the kernel to the network driver, for sampled packets.
    pub transmit: Option<Summary>,
    /// Sender only: departures against their schedule.
    pub lateness: Option<Summary>,
    /// Sender only: pacing of the packets.
    pub pacing: Option<PacingReport>,
}

/// Capture-to-DAC latency.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LatencyReport {
    /// Link offset. Absent in a sender's report if its packets carry only a presentation time,
    /// which does not reveal their capture time.
    pub configured_ns: Option<i64>,
    /// Packets against the presentation times that they carry; absent if they carry none.
    pub presented: Option<PresentedReport>,
    /// Measured latency.
    pub measured: Summary,
    /// How the end of the latency is known: `sound` (found in the sound that the device played),
    /// `device` (reported by the device) or `due` (scheduled time, without a converter). The start
    /// is always the sender's timestamp. Absent if no packet has one, or none is measured.
    pub by: Option<Cow<'static, str>>,
    /// Packets that could not be measured.
    pub not_found: NotFound,
    /// Earlier name of `by`; `receivers` in a sender's report, `none` if nothing is measured.
    pub measured_from: Cow<'static, str>,
    /// Uncertainty of the measured median, ± ns; absent if clocks are not mapped.
    pub uncertainty_ns: Option<i64>,
    /// Maximum uncertainty, for the measured minimum and maximum.
    pub uncertainty_max_ns: Option<i64>,
    /// Latency from the sound minus latency from the ledger.
    pub books_error: Summary,
    /// Basis of the presentation times: `clock` or `arrival`.
    pub basis: Cow<'static, str>,
    /// Accepted share of late packets at the advised latency.
    pub loss_target: Option<f64>,
    /// Smallest latency, in steps of 0.1 ms, with at most that share of late packets.
    pub advised_ns: Option<i64>,
    /// Share of late packets at other latencies, in rising order, at the worst phase between
    /// packets and periods.
    pub curve: Vec<LatenessPoint>,
    /// Changes of an adaptive latency.
    pub auto: Option<Auto>,
}

impl LatencyReport {
    /// Creates the report of a stream that is not measured here.
    pub fn unmeasured(measured_from: &'static str) -> Self {
        let (measured_from, basis) = (measured_from.into(), "none".into());
        Self { measured_from, basis, ..Self::default() }
    }
}

/// Packets against the presentation times that they carry.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PresentedReport {
    /// Time from arrival to presentation.
    pub lead: Summary,
    /// Time by which packets met the DAC after their presentation time, as reported by the device.
    pub off: Summary,
}

/// Packets without a measured latency, by reason. If latency is measured from the sound, these and
/// the measured packets are all received and lost packets except duplicates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NotFound {
    /// Packets that never arrived.
    pub lost: u64,
    /// Packets that arrived after their playout time.
    pub late: u64,
    /// Packets replaced by the device's own silence (underrun).
    pub unheard: u64,
    /// Packets due before the device requested the first block.
    pub unasked: u64,
    /// Packets that were rebuilt and played on time.
    pub repaired: u64,
    /// Packets that arrived but were not played: too far ahead, discarded at a resync, already
    /// rebuilt, or waiting at the end.
    pub unplayed: u64,
    /// Packets with unknown capture time on our clock.
    pub no_clock: u64,
    /// Packets without a ledger line because the ring to the ledger was full.
    pub unbooked: u64,
    /// Packets not selected for measurement (`probes`).
    pub unprobed: u64,
    /// Packets of silence, which matches any position.
    pub silent: u64,
    /// Packets that match several positions, as those of a tone do.
    pub repeats: u64,
    /// Packets that the played sound does not match: a glitch, or several streams at once.
    pub unlike: u64,
    /// Packets for whose playout time the device reported no sound.
    pub untold: u64,
}

impl NotFound {
    /// All reasons with their descriptions, in the order of travel.
    pub const fn each(&self) -> [(&'static str, u64); 13] {
        [
            ("lost", self.lost),
            ("late", self.late),
            ("repaired", self.repaired),
            ("not played", self.unplayed),
            ("of no known capture", self.no_clock),
            ("not booked", self.unbooked),
            ("not to be measured", self.unprobed),
            ("unheard", self.unheard),
            ("before the device asked for any", self.unasked),
            ("in silence", self.silent),
            ("of sound that repeats itself", self.repeats),
            ("in other sound", self.unlike),
            ("of which the device told no sound", self.untold),
        ]
    }
}

/// Share of late packets at one latency.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LatenessPoint {
    /// Link offset.
    pub latency_ns: i64,
    /// Late packets as a share of received packets.
    pub late_share: f64,
}

/// Changes of an adaptive latency.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Auto {
    /// Latency before the first measurement; absent without measurements.
    pub before_ns: Option<i64>,
    /// Latency at the first measurement; absent without measurements.
    pub first_ns: Option<i64>,
    /// Latency at the end.
    pub last_ns: i64,
    /// Minimum since the first measurement.
    pub least_ns: i64,
    /// Maximum since the first measurement.
    pub greatest_ns: i64,
    /// Number of changes.
    pub changes: u64,
    /// Number of increases.
    pub rises: u64,
    /// Number of decreases.
    pub falls: u64,
    /// Largest step made at once; all other changes were resampled.
    pub largest_step_ns: i64,
}

/// One or several simultaneous xruns of a device. Times are on this machine's monotonic clock, as
/// in ledgers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Xrun {
    /// Last wake-up of the device before the xrun.
    pub since_ns: i64,
    /// Time of detection.
    pub at_ns: i64,
    /// Count.
    pub count: u32,
}

/// Causes of all packets that were not played on time. The first six add up to the counters `late`,
/// `lost` and `unheard`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the glossary has a line for each")]
pub struct GapReport {
    pub late_sender: u64,
    pub late_network: u64,
    pub late_receiver: u64,
    pub host_stalled: u64,
    pub lost: u64,
    pub discarded: u64,
    /// Latency to catch 99 % of the packets sent late.
    pub sender_needs_ns: Option<i64>,
    /// Latency to catch 99 % of the packets delayed by the network.
    pub network_needs_ns: Option<i64>,
    /// Latency to catch 99 % of the packets late at the receiver, if the device uses
    /// so much of the latency that none is left for the network.
    pub receiver_needs_ns: Option<i64>,
}

/// One stage.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StageSummary {
    /// Name of the stage (see the glossary).
    pub name: Cow<'static, str>,
    /// Length of the stage.
    pub summary: Summary,
    /// Uncertainty of the median, ± ns, if the stage starts and ends on different clocks.
    pub uncertainty_ns: Option<i64>,
}

/// Packets of a stream received via one network.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PathReport {
    /// Local network interface.
    pub interface: String,
    /// Packets received via it.
    pub received: u64,
    /// Packets that arrived first via it.
    pub first: u64,
    /// Packets lost on it.
    pub lost: u64,
}

/// Redundancy in sent packets.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RedundancyReport {
    /// Redundancy as requested by the user.
    pub asked: String,
    /// Time after a packet's departure in which it can be repaired.
    pub budget_ns: i64,
    /// Repair symbols per packet; a copy of another packet is one symbol.
    pub symbols: usize,
    /// Number of following packets that can restore a packet.
    pub window: usize,
    /// Whether each packet is instead sent again whole.
    pub repeated: bool,
    /// Extra UDP payload per packet, in bytes.
    pub bytes: usize,
}

/// Redundancy in received packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RepairReport {
    /// Time after a packet's departure in which it can be repaired.
    pub window_ns: i64,
    /// Smallest latency that leaves this receiver all of that time.
    pub needs_ns: i64,
}

/// Number of datagrams that were invalid for one reason.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct InvalidCount {
    /// Name of the reason.
    pub reason: Cow<'static, str>,
    /// Number of datagrams.
    pub count: u64,
}

/// Peer's clock against ours.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Clock {
    /// Peer's wall clock minus our monotonic clock.
    pub offset_ns: i64,
    /// Uncertainty of the offset, ± ns; absent if the sender marks its own clock as unreliable.
    pub uncertainty_ns: Option<i64>,
    /// Round trip of the exchange behind the offset. Absent without one, and below the resolution
    /// of its timestamps.
    pub round_trip_ns: Option<i64>,
    /// Rate error of the peer's clock against ours, in ppm, positive if fast.
    pub rate_ppm: Option<f64>,
    /// Rate error of the peer's sound card against our clock, in ppm, positive if fast, if known.
    pub card_ppm: Option<f64>,
    /// Basis of the mapping: `rtcp` (exchanges of reports), `system` or `ptp` (both system clocks
    /// are synchronized and more accurate), or `host` (both ends read one clock on the same
    /// machine).
    pub source: Cow<'static, str>,
}

/// A packet with the lengths of its known stages.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorstPacket {
    /// RTP timestamp of its first frame.
    pub rtp_timestamp: u32,
    /// Capture-to-DAC latency, if known.
    pub total_ns: Option<i64>,
    /// Name and length of each stage, in the order of travel.
    pub stages: Vec<(Cow<'static, str>, i64)>,
}

/// State of one receiver, from its reports.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RemoteReceiver {
    /// Its synchronization source (SSRC).
    pub ssrc: u32,
    /// Host that sends its reports.
    pub address: String,
    /// Whether its requests count: packets go to its host or to a group.
    pub believed: bool,
    /// `here`, `lost` (its reports stopped without a goodbye) or `left` (it sent a goodbye, or no
    /// longer receives the stream).
    pub state: Cow<'static, str>,
    /// Time from its last report to the end of the run.
    pub silent_ns: i64,
    /// Number of times that its reports stopped without a goodbye.
    pub times_lost: u32,
    /// Longest latency it requested, if the latency follows receivers' requests.
    pub asked_ns: Option<i64>,
    /// Lost packets, as it reports them.
    pub lost: i64,
    /// Lost packets rebuilt in time from other packets, if it reports them.
    pub repaired: Option<u64>,
    /// Packets neither received nor rebuilt in time, if it reports them.
    pub unrepaired: Option<u64>,
    /// Interarrival jitter.
    pub jitter_ns: i64,
    /// Its effective latency, if it reports it.
    pub effective_ns: Option<i64>,
    /// Uncertainty of that latency.
    pub uncertainty_ns: Option<i64>,
    /// Round trip to it; absent if unknown or below the resolution of the timestamps.
    pub round_trip_ns: Option<i64>,
}

/// Report of a call in both directions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallReport {
    /// Version of the JSON names.
    pub schema: u32,
    /// `call` or `serve`.
    pub role: Cow<'static, str>,
    /// Received direction, then sent direction.
    pub directions: Vec<Report>,
}

impl CallReport {
    /// Serializes both directions as JSON.
    pub fn json(role: &str, directions: &[Report]) -> Result<String, serde_json::Error> {
        let all: Vec<_> = directions.iter().map(Report::to_json).collect::<Result<_, _>>()?;
        Ok(format!("{{\"schema\":1,\"role\":\"{role}\",\"directions\":[{}]}}", all.join(",")))
    }
}

impl Report {
    /// Serializes as JSON with a final line feed; long lists have one line per item.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        json(self)
    }
}

/// Pacing of a sender's packets.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PacingReport {
    /// Pacing mode: `etf-offload`, `etf`, `fq`, `sleep` or `batch`.
    pub rung: Cow<'static, str>,
    /// Delay from a packet's scheduled departure to its launch, or to the hand-over by a sleeping
    /// thread. Absent if packets leave immediately.
    pub lead_ns: Option<i64>,
    /// Reason for this mode.
    pub why: String,
    /// Packets that the queue dropped because their launch time had passed.
    pub unlaunched: u64,
    /// Dropped packets that could not be identified, so no ledger line marks them.
    pub unnamed: u64,
}

/// Serializes counters as a map from name to count.
fn each_by_name<S: Serializer>(
    counters: impl Iterator<Item = Counted>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(counters.map(|counted| (counted.name, counted.count)))
}

/// Reads counts by name; missing names are 0.
fn counts<'de, D: Deserializer<'de>>(from: D) -> Result<impl Fn(&str) -> u64, D::Error> {
    let counts = BTreeMap::<String, Value>::deserialize(from)?;
    Ok(move |name: &str| counts.get(name).and_then(Value::as_u64).unwrap_or(0))
}

fn by_name<S: Serializer>(counters: &Counters, serializer: S) -> Result<S::Ok, S::Error> {
    each_by_name(counters.each(), serializer)
}

fn from_names<'de, D: Deserializer<'de>>(from: D) -> Result<Counters, D::Error> {
    counts(from).map(Counters::of)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// JSON of a run with every field set.
    const RUN: &str = include_str!("../samples/run.json");

    #[test]
    fn report_is_written_again_as_it_was_read() {
        let read: Report = serde_json::from_str(RUN).unwrap();
        let written = read.to_json().unwrap();
        assert_eq!(written, RUN);
        assert!(!RUN.contains("null") && !RUN.contains("[]"), "a field is not set");
        let call = CallReport::json("call", &[read.clone(), read]).unwrap();
        let call: CallReport = serde_json::from_str(&call).unwrap();
        assert_eq!(CallReport::json(&call.role, &call.directions).unwrap().matches(RUN).count(), 2);
    }

    #[test]
    fn unknown_fields_are_ignored_and_missing_ones_default() {
        let old =
            r#"{"role": "send", "new": [1], "streams": [{"counters": {"lost": 2, "new": 3}}]}"#;
        let read: Report = serde_json::from_str(old).unwrap();
        assert_eq!((&*read.role, read.streams[0].counters.lost), ("send", 2));
        assert_eq!(read.streams[0].latency, LatencyReport::default());
    }
}
