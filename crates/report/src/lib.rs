//! Reports and live snapshots of a run: types, JSON and text. JSON names are stable, as scripts
//! rely on them.
#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod csv;
pub mod digits;
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
    /// Start, on this machine's monotonic clock, as in packet logs.
    pub started_ns: i64,
    /// From the first period to the last.
    pub duration_ns: i64,
    /// Streams: one per `--from`, or one for all `--to`.
    pub streams: Vec<StreamReport>,
    /// Clock followed via `--clock`, if any.
    pub clock: Option<FollowedClockReport>,
    /// The machine.
    pub host: HostReport,
    /// Incomplete output files, one sentence each, also among the notes.
    pub incomplete_files: Vec<String>,
    /// Caveats for readers, one sentence each.
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
pub struct StreamSender {
    /// Source address of its packets.
    pub from: String,
    /// Its synchronization source (SSRC).
    pub ssrc: u32,
}

/// Faults of a sender's device while its stream was received.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SenderDeviceReport {
    /// Overruns and underruns.
    pub xruns: u64,
    /// Time that the device was lost and the sender sent silence.
    pub replaced_ns: i64,
}

impl SenderDeviceReport {
    /// Packets of this length that contained silence instead of sound.
    pub fn replaced_packets(&self, ptime_ns: i64) -> u64 {
        (self.replaced_ns / ptime_ns.max(1)).max(0).unsigned_abs()
    }
}

/// Report of one stream.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StreamReport {
    /// Address as given by the user.
    pub address: String,
    /// Current or last sender; absent if unknown, and at a sender.
    pub sender: Option<StreamSender>,
    /// AVTP sender: stream id, as `?streamid=` accepts it.
    pub stream_id: Option<String>,
    /// Faults of the sender's device, as it reports them; absent without, and at a sender.
    pub sender_device: Option<SenderDeviceReport>,
    /// SRTP profile, such as `AEAD_AES_256_GCM`; absent without encryption.
    pub encryption: Option<Cow<'static, str>>,
    /// Last transport of a call, `udp` or `tcp`.
    pub transport: Option<Cow<'static, str>>,
    /// Sample rate in Hz.
    pub rate: u32,
    /// Channels.
    pub channels: usize,
    /// Codec, such as `l24`, `f32` or `opus`.
    pub format: Cow<'static, str>,
    /// Why it was not played, or no longer, with the fix: another rate, channel count or payload
    /// type than configured. Absent at a sender.
    pub refused: Option<String>,
    /// Whether any part was played.
    #[serde(skip)]
    pub played: bool,
    /// How the stream ended the run (`--exit-on-bye`).
    pub ended: Option<StreamEnd>,
    /// Whole seconds without packets up to the end, if any, without a goodbye; absent at a sender.
    pub silent_ns: Option<i64>,
    /// Audio time per packet.
    pub ptime_ns: i64,
    /// Capture-to-DAC latency.
    pub latency: LatencyReport,
    /// Measured packets: `all`, `64` for one in 64, or `off`. Figures without measurements are
    /// absent or have a count of 0.
    pub sampling: Cow<'static, str>,
    /// Stages in the order of travel.
    pub stages: Vec<StageSummary>,
    /// Counters of the stream.
    #[serde(serialize_with = "by_name", deserialize_with = "from_names")]
    pub counters: Counters,
    /// First thousand xruns; the counter `xruns` has all.
    pub xruns: Vec<Xrun>,
    /// First thousand seconds with missed packets; empty at a sender.
    pub misses: Vec<Misses>,
    /// Causes of missing packets; absent at a sender without launch times.
    pub gaps: Option<GapReport>,
    /// Sent redundancy at the end; absent at a receiver and without a request.
    pub redundancy: Option<RedundancyReport>,
    /// Received redundancy at the end; absent at a sender and without redundancy.
    pub repair: Option<RepairReport>,
    /// Packets per network, if there are several.
    pub paths: Vec<PathReport>,
    /// Invalid datagrams by reason, without zero counts.
    pub invalid: Vec<InvalidCount>,
    /// Card's rate against the sender's, in ppm, positive if fast; absent without resampling, and
    /// if no packets arrived at the end.
    pub drift_ppm: Option<f64>,
    /// Peer's clock against ours.
    pub clock: Option<Clock>,
    /// Packets closest to being late, with their stages in nanoseconds.
    pub worst: Vec<WorstPacket>,
    /// Sender only: receivers that report.
    pub receivers: Vec<RemoteReceiver>,
    /// From the kernel to the network driver, for sampled packets.
    pub transmit: Option<Summary>,
    /// Sender only: departures against schedule.
    pub lateness: Option<Summary>,
    /// Sender only: packet pacing.
    pub pacing: Option<PacingReport>,
}

/// Capture-to-DAC latency.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LatencyReport {
    /// Link offset. Absent at a sender whose packets carry only presentation times.
    pub configured_ns: Option<i64>,
    /// Packets against their presentation times, if they carry any.
    pub presented: Option<PresentedReport>,
    /// Measured latency.
    pub measured: Summary,
    /// Source of the time at which a packet leaves the DAC: `sound` (found in the played sound),
    /// `device` (as reported by the device) or `due` (scheduled). The time at the ADC is the
    /// sender's timestamp. Absent if nothing was measured.
    pub method: Option<Cow<'static, str>>,
    /// Packets that could not be measured.
    pub not_measured: NotFound,
    /// Uncertainty of the median, ± ns; absent if clocks are not mapped.
    pub uncertainty_ns: Option<i64>,
    /// Median of the last packets, if a user changed the latency during the run.
    pub changed_ns: Option<i64>,
    /// Maximum uncertainty, for minimum and maximum.
    pub uncertainty_max_ns: Option<i64>,
    /// Latency from the sound minus that from the packet log.
    pub trace_error: Summary,
    /// Basis of the presentation times: `clock` or `arrival`; `none` if no packet was placed.
    pub basis: Cow<'static, str>,
    /// Accepted late share at the advised latency.
    pub loss_target: Option<f64>,
    /// Smallest latency with at most that share of late packets, in steps of 0.1 ms.
    pub recommended_ns: Option<i64>,
    /// Share of packets that would have been late, for rising latencies. The share depends on the
    /// phase between packets and periods: this is the worst case.
    pub curve: Vec<LatenessPoint>,
    /// Changes of an adaptive latency.
    pub auto: Option<Auto>,
}

impl StreamReport {
    /// Packets that were not played in time, or not sent.
    pub fn missed(&self) -> u64 {
        let c = &self.counters;
        let unplayed = [c.lost, c.late, c.underrun_discarded, c.undecodable, c.too_early];
        unplayed.into_iter().fold(self.not_sent(), u64::saturating_add)
    }

    /// All packets that the sound needed.
    pub fn needed(&self) -> u64 {
        self.arrived().saturating_add(self.counters.lost).saturating_add(self.not_sent())
    }

    /// Packets of the sound that arrived or were rebuilt.
    pub fn arrived(&self) -> u64 {
        let c = &self.counters;
        let silent = self.sender_device.map_or(0, |it| it.replaced_packets(self.ptime_ns));
        let others = [c.duplicate, c.before_start, c.on_probation, silent].into_iter();
        others.fold(c.received, u64::saturating_sub).saturating_add(self.rebuilt())
    }

    /// Packets that never arrived, but were rebuilt from redundancy.
    pub fn rebuilt(&self) -> u64 {
        let Counters { repaired, repaired_arrived, repaired_whole, .. } = self.counters;
        repaired.saturating_sub(repaired_arrived).saturating_sub(repaired_whole)
    }

    fn not_sent(&self) -> u64 {
        self.gaps.map_or(0, |gaps| gaps.not_sent)
    }
}

impl LatencyReport {
    /// A stream without measurements.
    pub fn unmeasured() -> Self {
        Self { basis: "none".into(), ..Self::default() }
    }
}

/// Packets against their presentation times.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PresentedReport {
    /// Arrival to presentation.
    pub lead: Summary,
    /// Presentation to DAC, as reported by the device.
    pub error: Summary,
}

/// Packets without a measured latency, by reason. With latency from the sound, they add up: these
/// plus `measured.count` = `packets_received` − `duplicate` + `lost` + `repaired` −
/// `repaired_arrived`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NotFound {
    /// Never arrived.
    pub lost: u64,
    /// Arrived after their playout time.
    pub late: u64,
    /// Replaced by an underrun's silence.
    pub underrun_discarded: u64,
    /// Due before the device requested the first block.
    pub before_start: u64,
    /// Rebuilt and played on time, even if they arrived after all.
    pub repaired: u64,
    /// Arrived but not played: too early, discarded at a resync, or waiting at the end.
    pub not_played: u64,
    /// Capture time unknown on our clock.
    pub no_clock: u64,
    /// Not logged, because the ring to the packet log was full.
    pub trace_overflow: u64,
    /// Not selected for measurement (`sampling`).
    pub not_sampled: u64,
    /// Silent, which matches any position.
    pub silent: u64,
    /// Found at several positions, as with a tone.
    pub ambiguous: u64,
    /// Not found in the played sound: a gap or glitch, or several streams were mixed.
    pub no_match: u64,
    /// No sound was reported for their playout time.
    pub not_reported: u64,
}

impl NotFound {
    /// Reasons with descriptions.
    pub const fn each(&self) -> [(&'static str, u64); 13] {
        [
            ("lost", self.lost),
            ("late", self.late),
            ("repaired", self.repaired),
            ("not played", self.not_played),
            ("without capture time", self.no_clock),
            ("not logged", self.trace_overflow),
            ("not sampled", self.not_sampled),
            ("discarded by underruns", self.underrun_discarded),
            ("before the device started", self.before_start),
            ("in silence", self.silent),
            ("in repeating sound", self.ambiguous),
            ("not found (gap or glitch)", self.no_match),
            ("not reported by the device", self.not_reported),
        ]
    }
}

/// Share of late packets at one latency.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LatenessPoint {
    /// Link offset.
    pub latency_ns: i64,
    /// Share of received packets.
    pub late_share: f64,
}

/// Changes of an adaptive latency.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Auto {
    /// Latency before the first measurement; absent without a measurement.
    pub before_ns: Option<i64>,
    /// Latency at the first measurement; absent without a measurement.
    pub first_ns: Option<i64>,
    /// Latency at the end.
    pub last_ns: i64,
    /// Minimum since the first measurement.
    pub min_ns: i64,
    /// Maximum since the first measurement.
    pub max_ns: i64,
    /// Number of changes.
    pub changes: u64,
    /// Number of increases.
    pub increases: u64,
    /// Number of decreases.
    pub decreases: u64,
    /// Largest single step. Resampling covers the rest.
    pub largest_step_ns: i64,
    /// Configured maximum, if any.
    pub limit_ns: Option<i64>,
}

/// Simultaneous xruns. Times are on this machine's monotonic clock, as in packet logs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Xrun {
    /// Device's last wake-up before the xrun.
    pub last_wakeup_ns: i64,
    /// Time of detection.
    pub at_ns: i64,
    /// Count.
    pub count: u32,
}

/// Missed packets: late, lost, discarded by an underrun, undecodable, too early, or never sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Misses {
    /// Time of the first, on this machine's monotonic clock, as in packet logs.
    pub at_ns: i64,
    /// Count, within a second of the first.
    pub count: u64,
}

/// Causes of packets not played on time. The first eight counts add up to the counters `late`,
/// `lost` and `underrun_discarded`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GapReport {
    /// Late because the sender sent them late.
    pub late_sender: u64,
    /// Late because the network was slower than the latency allows.
    pub late_network: u64,
    /// Late by the sender or the network: the sender does not report when it sent them, or its
    /// clock is unknown.
    pub late_unattributed: u64,
    /// Late because the latency leaves the network less than 1 ms, and would not have been with it.
    pub late_too_short: u64,
    /// Read late, or discarded by an underrun.
    pub late_receiver: u64,
    /// Missed during a stall of the whole machine.
    pub host_stalled: u64,
    /// Lost by the network.
    pub lost: u64,
    /// Dropped by a full socket buffer of this machine.
    pub discarded: u64,
    /// Never sent, because the sender's card did not deliver the sound (`skipped_frames`), or sent
    /// as silence, because the device was lost ([`SenderDeviceReport`]).
    pub not_sent: u64,
    /// Lost packets in gaps too long for repairs: the network was interrupted.
    pub lost_in_outages: u64,
    /// Latency that catches 99 % of the packets sent late.
    pub sender_needs_ns: Option<i64>,
    /// Latency that catches 99 % of the packets delayed by the network.
    pub network_needs_ns: Option<i64>,
    /// Latency that catches 99 % of the packets late by the sender or the network.
    pub unattributed_needs_ns: Option<i64>,
    /// Latency that catches 99 % of the packets for which it is too short.
    pub too_short_needs_ns: Option<i64>,
}

impl GapReport {
    /// Missed packets by fault: too short a latency, this machine, the sender, the network, sender
    /// or network.
    pub const fn faults(&self) -> [u64; 5] {
        [
            self.late_too_short,
            self.late_receiver + self.discarded + self.host_stalled,
            self.late_sender + self.not_sent,
            self.late_network + self.lost,
            self.late_unattributed,
        ]
    }

    /// Adds another stream's counts. Needed latencies do not add up, so they stay.
    pub const fn add_counts(&mut self, other: &Self) {
        self.late_sender += other.late_sender;
        self.late_network += other.late_network;
        self.late_unattributed += other.late_unattributed;
        self.late_too_short += other.late_too_short;
        self.late_receiver += other.late_receiver;
        self.host_stalled += other.host_stalled;
        self.lost += other.lost;
        self.discarded += other.discarded;
        self.not_sent += other.not_sent;
        self.lost_in_outages += other.lost_in_outages;
    }
}

/// One stage.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StageSummary {
    /// Name of the stage (`docs/reference/stages.md`).
    pub name: Cow<'static, str>,
    /// Length of the stage.
    pub summary: Summary,
    /// Uncertainty of the median, ± ns, between two clocks.
    pub uncertainty_ns: Option<i64>,
}

/// Packets via one network.
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
    pub requested: String,
    /// Repair time after a packet's departure.
    pub budget_ns: i64,
    /// Repair symbols per packet; a copy counts as one.
    pub symbols: usize,
    /// Following packets that can restore a packet.
    pub window: usize,
    /// Whether each packet is sent again whole instead.
    pub repeated: bool,
    /// Extra UDP payload per packet, in bytes.
    pub bytes: usize,
}

/// Redundancy in received packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RepairReport {
    /// Repair time after a packet's departure.
    pub window_ns: i64,
    /// Smallest latency with all of that time; at most the present one if no repair was late.
    pub needs_ns: i64,
}

/// Invalid datagrams of one reason.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct InvalidCount {
    /// Reason.
    pub reason: Cow<'static, str>,
    /// Count.
    pub count: u64,
}

/// Peer's clock against ours.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Clock {
    /// Peer's wall clock minus our monotonic clock.
    pub offset_ns: i64,
    /// Uncertainty, ± ns; absent if the sender marks its clock as unreliable, or this machine does
    /// not know TAI.
    pub uncertainty_ns: Option<i64>,
    /// Round trip of the exchange, if any; absent below the timestamps' resolution.
    pub round_trip_ns: Option<i64>,
    /// Rate against ours, in ppm, positive if fast.
    pub rate_ppm: Option<f64>,
    /// Uncertainty of that rate, ± ppm.
    pub rate_uncertainty_ppm: Option<f64>,
    /// Peer's card against our clock, in ppm, positive if fast.
    pub card_ppm: Option<f64>,
    /// Uncertainty of that rate, ± ppm.
    pub card_uncertainty_ppm: Option<f64>,
    /// `rtcp` (exchanged reports), `system` or `ptp` (synchronized system clocks, more accurate),
    /// `host` (one machine), or `tai` (AVTP presentation times).
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
    /// Whether its requests count, as packets go to its host or a group.
    pub trusted: bool,
    /// `connected`, `lost` (its reports stopped without a goodbye) or `left` (it sent a goodbye, or
    /// no longer receives the stream).
    pub state: Cow<'static, str>,
    /// Time from its last report to the end.
    pub silent_ns: i64,
    /// How often its reports stopped without a goodbye.
    pub times_lost: u32,
    /// Longest requested latency, if the latency follows requests.
    pub requested_ns: Option<i64>,
    /// Reported lost packets.
    pub lost: i64,
    /// Lost packets rebuilt in time, if reported.
    pub repaired: Option<u64>,
    /// Packets neither received nor rebuilt in time, if reported.
    pub unrepaired: Option<u64>,
    /// Packets that arrived too late to be played, if reported.
    pub late: Option<u64>,
    /// Interarrival jitter.
    pub jitter_ns: i64,
    /// Effective latency, if it reports one.
    pub effective_ns: Option<i64>,
    /// Uncertainty of that latency.
    pub uncertainty_ns: Option<i64>,
    /// End of that latency, as in the receiver's report: `sound`, `device` or `due`. Absent with
    /// older receivers.
    pub method: Option<Cow<'static, str>>,
    /// Round trip; absent if unknown or below the timestamps' resolution.
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
    /// JSON of both directions.
    pub fn json(role: &str, directions: &[Report]) -> Result<String, serde_json::Error> {
        let all: Vec<_> = directions.iter().map(Report::to_json).collect::<Result<_, _>>()?;
        Ok(format!("{{\"schema\":2,\"role\":\"{role}\",\"directions\":[{}]}}", all.join(",")))
    }
}

impl Report {
    /// JSON with a final line feed; long lists have one line per item.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        json(self)
    }
}

/// Pacing of a sender's packets.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PacingReport {
    /// Pacing mode: `etf-offload`, `etf`, `fq`, `sleep` or `batch`.
    pub mode: Cow<'static, str>,
    /// From scheduled departure to launch, or to a sleeping thread's hand-over; absent if
    /// immediate.
    pub lead_ns: Option<i64>,
    /// Reason for this mode.
    pub reason: String,
    /// Packets dropped by the queue, too late for their launch.
    pub dropped_by_queue: u64,
    /// Dropped packets that no line of the packet log marks.
    pub unidentified: u64,
}

fn each_by_name<S: Serializer>(
    counters: impl Iterator<Item = Counted>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(counters.map(|counted| (counted.name, counted.count)))
}

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
