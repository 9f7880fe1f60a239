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
    /// Audio time in one packet.
    pub ptime_ns: i64,
    /// Capture to DAC.
    pub latency: Latency,
    /// In the order of travel.
    pub stages: Vec<StageSummary>,
    /// What was counted.
    pub counters: Counters,
    /// Datagrams that were no packet, by reason; reasons that did not occur are left out.
    pub invalid: Vec<InvalidCount>,
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
    pub xruns: u64,
    pub resyncs: u64,
    pub host_stalled: u64,
    pub resampled_frames: u64,
    pub early: u64,
    pub foreign: u64,
    pub doubted: u64,
    pub unbooked: u64,
    pub socket_drops: u64,
    pub send_errors: u64,
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
    /// Not estimated yet.
    pub rate_ppm: Option<f64>,
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
