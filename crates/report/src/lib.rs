//! The report of a run, and what is reported while it runs: the types, JSON, and text for people. Names in JSON are
//! fixed: scripts rely on them.
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

/// What happened in one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// Version of these names.
    pub schema: u32,
    /// `send` or `recv`.
    pub role: Cow<'static, str>,
    /// When that was, by this machine's monotonic clock, as instants of a ledger are.
    pub began_ns: i64,
    /// From the first period to the last.
    pub duration_ns: i64,
    /// One for each `--from`; one for all `--to`.
    pub streams: Vec<StreamReport>,
    /// The clock that was followed beside the streams; absent where none was asked for.
    pub clock: Option<FollowedClockReport>,
    /// The machine.
    pub host: HostReport,
    /// What was to be written and is not whole, such as a ledger or a recording on a full disk: a
    /// sentence each, also among the notes.
    pub unwritten: Vec<String>,
    /// What a reader should know before believing the figures, a sentence each.
    pub notes: Vec<String>,
}

/// How a stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StreamEnd {
    /// Its sender said goodbye.
    Goodbye,
    /// Its sender fell silent and said nothing.
    Silence,
}

/// Whose packets a stream is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HeardSender {
    /// From where they come.
    pub from: String,
    /// Its synchronisation source.
    pub ssrc: u32,
}

/// One stream.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StreamReport {
    /// As it was given.
    pub address: String,
    /// Who is heard, or was last; absent where nobody is known, and at a sender.
    pub sender: Option<HeardSender>,
    /// Of a sender of AVTP: what its packets name the stream, `AA:BB:CC:DD:EE:FF:0001`, as `?streamid=` takes it.
    pub stream_id: Option<String>,
    /// By what profile of SRTP its packets are sealed, such as `AEAD_AES_256_GCM`; absent where they go in clear.
    pub sealed: Option<Cow<'static, str>>,
    /// Frames per second.
    pub rate: u32,
    /// Samples per frame.
    pub channels: usize,
    /// `l16`, `l24` or `f32`.
    pub format: Cow<'static, str>,
    /// Why it was not played, or not any more, in a sentence with the fix: it is of another rate, has other
    /// channels or comes with another payload type than this end was set up for. Absent at a sender.
    pub refused: Option<String>,
    /// Whether any of it was played.
    #[serde(skip)]
    pub played: bool,
    /// How it ended, where the run ended with it (`--exit-on-bye`).
    pub ended: Option<StreamEnd>,
    /// Audio time in one packet.
    pub ptime_ns: i64,
    /// Capture to DAC.
    pub latency: LatencyReport,
    /// How many of its packets were measured: `all`, `64` for one in 64, or `off`. What was not
    /// measured is absent, or counts nothing and has no figures.
    pub probes: Cow<'static, str>,
    /// In the order of travel.
    pub stages: Vec<StageSummary>,
    /// What was counted.
    #[serde(serialize_with = "by_name", deserialize_with = "from_names")]
    pub counters: Counters,
    /// When the device had xruns, as far as that is kept: the first thousand. The counter `xruns` has all.
    pub xruns: Vec<Xrun>,
    /// Every packet that was not there at its turn, under one cause; absent at a sender.
    pub gaps: Option<GapReport>,
    /// What its packets carry of earlier ones, at the end; absent at a receiver, and where nothing
    /// is asked for.
    pub redundancy: Option<RedundancyReport>,
    /// What its packets carry of others, at the end; absent at a sender, and where they carry nothing.
    pub repair: Option<RepairReport>,
    /// What each network brought, of a stream that came by several.
    pub paths: Vec<PathReport>,
    /// Datagrams that were no packet, by reason; reasons that did not occur are left out.
    pub invalid: Vec<InvalidCount>,
    /// How much faster the card runs than the sender's, in parts per million, as the resampler last
    /// made up for it; absent where frames are played as they came.
    pub drift_ppm: Option<f64>,
    /// The peer's clock against ours.
    pub clock: Option<Clock>,
    /// Packets that came closest to being late, each with its stages in nanoseconds.
    pub worst: Vec<WorstPacket>,
    /// What receivers said of the stream, if it is a sender's.
    pub receivers: Vec<RemoteReceiver>,
    /// Handed to the kernel → given to the network driver, of sampled packets.
    pub transmit: Option<Summary>,
    /// Departure against its schedule, if it is a sender's.
    pub lateness: Option<Summary>,
    /// Of a sender: what spaces its packets.
    pub pacing: Option<PacingReport>,
}

/// Capture to DAC.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LatencyReport {
    /// The link offset; absent of a sender whose packets tell their presentation alone, where nobody says how
    /// long before that they were captured.
    pub configured_ns: Option<i64>,
    /// What packets that tell their presentation came to against that; absent of others.
    pub presented: Option<PresentedReport>,
    /// What it came to.
    pub measured: Summary,
    /// Whose word its end is: `sound` where each packet was found in what the device heard itself
    /// play, `device` where the device's word is taken, `due` where there is no converter and each
    /// counts when it was due. Its beginning is always the sender's stamp. Absent where no packet has
    /// one, or none is measured.
    pub by: Option<Cow<'static, str>>,
    /// Packets that it says nothing of.
    pub not_found: NotFound,
    /// As `by`, by which name it came first; `receivers` at a sender, `none` where nothing is measured.
    pub measured_from: Cow<'static, str>,
    /// How far the measured median may be from the truth, either way; absent where clocks are not
    /// mapped.
    pub uncertainty_ns: Option<i64>,
    /// The same at its greatest, as for the least and the greatest of the measured figures.
    pub uncertainty_max_ns: Option<i64>,
    /// What the sound says less what the ledger says.
    pub books_error: Summary,
    /// What the presentation times rest on: `clock` or `arrival`.
    pub basis: Cow<'static, str>,
    /// The share of packets that may be late at the latency advised.
    pub loss_target: Option<f64>,
    /// The least latency, in tenths of a millisecond, at which no more than that would have been
    /// late.
    pub advised_ns: Option<i64>,
    /// What would have been late at other latencies, in rising order, at the worst phase between
    /// packets and periods.
    pub curve: Vec<LatenessPoint>,
    /// What became of the latency where it followed the packets' arrivals.
    pub auto: Option<Auto>,
}

impl LatencyReport {
    /// Of a stream that nobody here measures.
    pub fn unmeasured(measured_from: &'static str) -> Self {
        let (measured_from, basis) = (measured_from.into(), "none".into());
        Self { measured_from, basis, ..Self::default() }
    }
}

/// Packets against the presentation that they tell.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PresentedReport {
    /// Arrival to presentation.
    pub lead: Summary,
    /// How much later than its presentation each met the DAC, by the device's word.
    pub off: Summary,
}

/// Packets that are not in the distribution of the latency, by what kept them out. Where that is by the
/// sound, these and those in it are all that came or were lost, but for duplicates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NotFound {
    /// They never came.
    pub lost: u64,
    /// They came after their turn.
    pub late: u64,
    /// The device played silence of its own at their turn.
    pub unheard: u64,
    /// Their turn was over before the device asked for the first block.
    pub unasked: u64,
    /// They were rebuilt, and heard at their turn.
    pub repaired: u64,
    /// They came and were not played: too far ahead, given up at a resync, rebuilt before they came, or
    /// waiting at the end.
    pub unplayed: u64,
    /// Nobody knew by our clock when they were captured.
    pub no_clock: u64,
    /// The ring to the ledger had no room for their line.
    pub unbooked: u64,
    /// They were not to be measured (`probes`).
    pub unprobed: u64,
    /// There was silence where they were due, which is found anywhere.
    pub silent: u64,
    /// Their sound is found at several places, as that of a tone.
    pub repeats: u64,
    /// There was other sound where they were due: a glitch, or several streams at once.
    pub unlike: u64,
    /// The device told of no sound at that time.
    pub untold: u64,
}

impl NotFound {
    /// Each with its words, in the order of travel.
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

/// What would have been late at one latency.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LatenessPoint {
    /// The link offset.
    pub latency_ns: i64,
    /// Of the packets that came.
    pub late_share: f64,
}

/// What became of a latency that followed the packets' arrivals.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Auto {
    /// Until something was measured; absent where nothing was.
    pub before_ns: Option<i64>,
    /// As soon as something was measured; absent where nothing was.
    pub first_ns: Option<i64>,
    /// At the end.
    pub last_ns: i64,
    /// Since something was measured.
    pub least_ns: i64,
    /// Since something was measured.
    pub greatest_ns: i64,
    /// How often it rose and fell.
    pub changes: u64,
    /// How often it rose.
    pub rises: u64,
    /// How often it fell.
    pub falls: u64,
    /// The largest step that was made at once; all else was resampled.
    pub largest_step_ns: i64,
}

/// A device starved or was flooded, or did so several times at once. Instants are by this machine's
/// monotonic clock, as those of a ledger are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Xrun {
    /// When the device last woke before it.
    pub since_ns: i64,
    /// When it was noticed.
    pub at_ns: i64,
    /// How often.
    pub count: u32,
}

/// Every packet that was not heard at its turn, under one cause. The sum of the first six is that of the
/// counters `late`, `lost` and `unheard`.
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
    /// The latency that would have caught 99 % of what its sender sent late.
    pub sender_needs_ns: Option<i64>,
    /// The latency that would have caught 99 % of what was late on the way.
    pub network_needs_ns: Option<i64>,
    /// The latency that would have caught 99 % of what was late here, where that is because the
    /// device takes so much of the latency that there is no time for the way.
    pub receiver_needs_ns: Option<i64>,
}

/// One stage.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StageSummary {
    /// See the glossary.
    pub name: Cow<'static, str>,
    /// Its length.
    pub summary: Summary,
    /// How far its median may be from the truth, either way, where its ends are on two clocks.
    pub uncertainty_ns: Option<i64>,
}

/// What one network brought of a stream.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PathReport {
    /// Its interface here.
    pub interface: String,
    /// Packets it brought.
    pub received: u64,
    /// Of those, packets that no other network had brought before.
    pub first: u64,
    /// Packets it did not bring.
    pub lost: u64,
}

/// What packets carry of earlier ones.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RedundancyReport {
    /// As it was asked for.
    pub asked: String,
    /// Time after its own departure in which a packet may still be repaired.
    pub budget_ns: i64,
    /// Repair symbols in each packet; a copy of another packet is one.
    pub symbols: usize,
    /// Packets after a packet that may bring it back.
    pub window: usize,
    /// Whether every packet is sent again whole instead.
    pub repeated: bool,
    /// Bytes of UDP payload on top for each packet.
    pub bytes: usize,
}

/// What packets that came carry of others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RepairReport {
    /// Time after its own departure in which a packet may be repaired.
    pub window_ns: i64,
    /// The least latency that leaves all of that here.
    pub needs_ns: i64,
}

/// One reason for which datagrams were no packets.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct InvalidCount {
    /// Its name.
    pub reason: Cow<'static, str>,
    /// How many.
    pub count: u64,
}

/// The peer's clock against ours.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Clock {
    /// Peer's wall clock less our monotonic clock.
    pub offset_ns: i64,
    /// How far that may be from the truth, either way; absent where the sender says that its own clock is not to be
    /// relied upon.
    pub uncertainty_ns: Option<i64>,
    /// The round trip of the exchange it rests on; absent where it rests on none, and below what the
    /// stamps of an exchange can tell.
    pub round_trip_ns: Option<i64>,
    /// By how much it runs faster than ours, in ppm.
    pub rate_ppm: Option<f64>,
    /// By how much the peer's sound card runs faster than our clock, in ppm, if known.
    pub card_ppm: Option<f64>,
    /// What this rests on: `rtcp` for exchanges of reports, `system` or `ptp` where both system clocks
    /// are synchronised and surer, `host` where both ends run on one machine and read one clock.
    pub source: Cow<'static, str>,
}

/// A packet with the length of each known stage.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorstPacket {
    /// Its first frame as an RTP timestamp.
    pub rtp_timestamp: u32,
    /// Capture to DAC, if known.
    pub total_ns: Option<i64>,
    /// Name and length, in the order of travel.
    pub stages: Vec<(Cow<'static, str>, i64)>,
}

/// What one receiver said of our stream.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RemoteReceiver {
    /// Its synchronisation source.
    pub ssrc: u32,
    /// The host it reports from.
    pub address: String,
    /// Whether what it asks for counts: packets go to its host, or to a group.
    pub believed: bool,
    /// `here`, `lost` (it stopped reporting without a goodbye) or `left` (it said goodbye, or is no receiver of the
    /// stream any more).
    pub state: Cow<'static, str>,
    /// From its last report to the end of the run.
    pub silent_ns: i64,
    /// How often it stopped reporting without a goodbye.
    pub times_lost: u32,
    /// The longest latency it asked for, where the latency follows what receivers ask for.
    pub asked_ns: Option<i64>,
    /// Packets it missed, by its own count.
    pub lost: i64,
    /// Of those, rebuilt in time from what other packets carried, if it says so.
    pub repaired: Option<u64>,
    /// Packets that neither came nor were rebuilt in time, if it says so.
    pub unrepaired: Option<u64>,
    /// Interarrival jitter.
    pub jitter_ns: i64,
    /// The latency it reaches, if it says so.
    pub effective_ns: Option<i64>,
    /// How sure it is.
    pub uncertainty_ns: Option<i64>,
    /// Round trip to it; absent where it is not known, and below what the stamps of an exchange can
    /// tell.
    pub round_trip_ns: Option<i64>,
}

/// How both directions of a call went.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallReport {
    /// Version of these names.
    pub schema: u32,
    /// `call` or `serve`.
    pub role: Cow<'static, str>,
    /// What was heard, then what was sent.
    pub directions: Vec<Report>,
}

impl CallReport {
    /// Both directions as JSON.
    pub fn json(role: &str, directions: &[Report]) -> Result<String, serde_json::Error> {
        let all: Vec<_> = directions.iter().map(Report::to_json).collect::<Result<_, _>>()?;
        Ok(format!("{{\"schema\":1,\"role\":\"{role}\",\"directions\":[{}]}}", all.join(",")))
    }
}

impl Report {
    /// As JSON, indented but for what there are many of, ending in a line feed.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        json(self)
    }
}

/// What spaces a sender's packets.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PacingReport {
    /// `etf-offload`, `etf`, `fq`, `sleep` or `batch`.
    pub rung: Cow<'static, str>,
    /// How long after it is due a packet is launched, or handed over by a thread that sleeps; absent where it is at
    /// once.
    pub lead_ns: Option<i64>,
    /// Why this rung.
    pub why: String,
    /// Packets that the queue dropped, since they could not be launched in time.
    pub unlaunched: u64,
    /// Of those, packets of which nobody could say which they were: no line of a ledger marks them.
    pub unnamed: u64,
}

/// Every counter by its name.
fn each_by_name<S: Serializer>(
    counters: impl Iterator<Item = Counted>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(counters.map(|counted| (counted.name, counted.count)))
}

/// The counts of these names; 0 for others.
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

    /// A run with every field set.
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
