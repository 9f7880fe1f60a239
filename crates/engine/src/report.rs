//! The report, as JSON has it. Names are fixed: scripts rely on them.

use serde::Serialize;

use crate::distribution::Summary;

/// What happened in one run.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Version of these names.
    pub schema: u32,
    /// `send` or `recv`.
    pub role: &'static str,
    /// From the first period to the last.
    pub duration_ns: i64,
    /// One for each `--from`; one for all `--to`.
    pub streams: Vec<Stream>,
    /// The machine.
    pub host: Host,
    /// What a reader should know before believing the figures, a sentence each.
    pub notes: Vec<String>,
}

/// One stream.
#[derive(Debug, Clone, Serialize)]
pub struct Stream {
    /// As it was given.
    pub address: String,
    /// Frames per second.
    pub rate: u32,
    /// Samples per frame.
    pub channels: usize,
    /// `l16`, `l24` or `f32`.
    pub format: &'static str,
    /// Why none of it was played, in a sentence with the mend: it is of another rate or has other
    /// channels than this end was set up for. Absent where something was, and at a sender.
    pub refused: Option<String>,
    /// Audio time in one packet.
    pub ptime_ns: i64,
    /// Capture to DAC.
    pub latency: Latency,
    /// In the order of travel.
    pub stages: Vec<StageSummary>,
    /// What was counted.
    pub counters: Counters,
    /// Every packet that was not there at its turn, at one door; absent at a sender.
    pub gaps: Option<Gaps>,
    /// What its packets carry of earlier ones, at the end; absent at a receiver, and where nothing
    /// is asked for.
    pub redundancy: Option<Redundancy>,
    /// What its packets carry of others, at the end; absent at a sender, and where they carry nothing.
    pub repair: Option<Repair>,
    /// What each network brought, of a stream that came by several.
    pub paths: Vec<Path>,
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
}

/// Capture to DAC.
#[derive(Debug, Clone, Serialize)]
pub struct Latency {
    /// The link offset.
    pub configured_ns: i64,
    /// What it came to.
    pub measured: Summary,
    /// `sound` where the card listened to itself, `device` where its word is taken.
    pub measured_from: &'static str,
    /// How far the measured median may be from the truth, either way; absent where clocks are not
    /// mapped.
    pub uncertainty_ns: Option<i64>,
    /// The same at its greatest, as for the least and the greatest of the measured figures.
    pub uncertainty_max_ns: Option<i64>,
    /// What the sound says less what the books promised.
    pub books_error: Summary,
    /// What the presentation times rest on: `clock` or `arrival`.
    pub basis: &'static str,
    /// The share of packets that may be late at the latency advised.
    pub loss_target: Option<f64>,
    /// The least latency, in tenths of a millisecond, at which no more than that would have been
    /// late.
    pub advised_ns: Option<i64>,
    /// What would have been late at other latencies, in rising order, at the worst phase between
    /// packets and periods.
    pub curve: Vec<CurvePoint>,
    /// What became of the latency where it followed the packets' arrivals.
    pub auto: Option<Auto>,
}

/// What would have been late at one latency.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct CurvePoint {
    /// The link offset.
    pub latency_ns: i64,
    /// Of the packets that came.
    pub late_share: f64,
}

/// What became of a latency that followed the packets' arrivals.
#[derive(Debug, Clone, Copy, Serialize)]
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

/// Every packet that was not heard at its turn, at one door. The sum of the first six is that of the
/// counters `late`, `lost` and `unheard`.
#[derive(Debug, Clone, Copy, Default, Serialize)]
#[expect(missing_docs, reason = "the glossary has a line for each")]
pub struct Gaps {
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
#[derive(Debug, Clone, Serialize)]
pub struct StageSummary {
    /// See the glossary.
    pub name: &'static str,
    /// Its length.
    pub summary: Summary,
}

/// What was counted. Names are those of the interface.
#[derive(Debug, Clone, Copy, Default, Serialize)]
#[expect(missing_docs, reason = "the glossary has a line for each")]
pub struct Counters {
    pub packets_sent: u64,
    pub packets_received: u64,
    pub lost: u64,
    pub late: u64,
    pub reordered: u64,
    pub duplicate: u64,
    pub repaired: u64,
    pub invalid: u64,
    pub missing_frames: u64,
    pub concealed_frames: u64,
    pub skipped_frames: u64,
    pub xruns: u64,
    pub resyncs: u64,
    pub host_stalled: u64,
    pub resampled_frames: u64,
    pub early: u64,
    pub foreign: u64,
    pub doubted: u64,
    pub doubted_reports: u64,
    pub refused_exchanges: u64,
    pub clock_steps: u64,
    pub unbooked: u64,
    pub unheard: u64,
    pub damaged: u64,
    pub socket_drops: u64,
    pub send_errors: u64,
}

/// What one network brought of a stream.
#[derive(Debug, Clone, Serialize)]
pub struct Path {
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
#[derive(Debug, Clone, Serialize)]
pub struct Redundancy {
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
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Repair {
    /// Time after its own departure in which a packet may be repaired.
    pub window_ns: i64,
    /// The least latency that leaves all of that here.
    pub needs_ns: i64,
}

/// One reason for which datagrams were no packets.
#[derive(Debug, Clone, Serialize)]
pub struct InvalidCount {
    /// Its name.
    pub reason: &'static str,
    /// How many.
    pub count: u64,
}

/// The peer's clock against ours.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Clock {
    /// Peer's wall clock less our monotonic clock.
    pub offset_ns: i64,
    /// How far that may be from the truth, either way.
    pub uncertainty_ns: i64,
    /// The round trip of the exchange it rests on.
    pub round_trip_ns: i64,
    /// By how much it runs faster than ours, in ppm.
    pub rate_ppm: Option<f64>,
    /// By how much the peer's sound card runs faster than our clock, in ppm, if known.
    pub card_ppm: Option<f64>,
    /// What this rests on: `rtcp` for exchanges of reports, `system` or `ptp` where both system clocks
    /// are synchronised and surer.
    pub source: &'static str,
}

/// A packet with the length of each known stage.
#[derive(Debug, Clone, Serialize)]
pub struct WorstPacket {
    /// Its first frame as an RTP timestamp.
    pub rtp_timestamp: u32,
    /// Capture to DAC, if known.
    pub total_ns: Option<i64>,
    /// Name and length, in the order of travel.
    pub stages: Vec<(&'static str, i64)>,
}

/// What one receiver said of our stream.
#[derive(Debug, Clone, Serialize)]
pub struct RemoteReceiver {
    /// Its synchronisation source.
    pub ssrc: u32,
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
    /// Round trip to it.
    pub round_trip_ns: Option<i64>,
}

/// The machine.
#[derive(Debug, Clone, Serialize)]
pub struct Host {
    /// Its version.
    pub kernel: String,
    /// How the device's thread ran.
    pub scheduler: String,
    /// Processors.
    pub cpus: usize,
    /// Times that all processors stalled at once for more than a millisecond.
    pub stalls: u64,
    /// Processor time of the whole program, in nanoseconds.
    pub cpu_ns: i64,
    /// Most memory it held, in bytes.
    pub peak_bytes: u64,
}

impl Report {
    /// As indented JSON, ending in a line feed.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }
}
