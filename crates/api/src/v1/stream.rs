//! Requests to run a plugin, and the state of such streams.

use core::fmt;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use tautline_proto::offload::block::{BlockSpec, ByteOrder};

use super::VERSION;
use super::catalogue::{shown, shown_if_any};

/// `POST /v1/streams`: requests an instance of a plugin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamRequest {
    /// [`VERSION`].
    pub version: u32,
    /// [`Plugin::id`](super::Plugin::id).
    pub plugin: String,
    /// [`Plugin::hash`](super::Plugin::hash), to require exactly that library.
    #[serde(default)]
    pub hash: Option<String>,
    /// Frames per second.
    pub rate: u32,
    /// Maximum frames per iteration.
    pub max_frames: u32,
    /// Byte order of the master.
    pub byte_order: ByteOrder,
    /// Unfragmented, before encryption.
    pub datagram_bytes: u32,
    /// Time between runs, for admission. Default: 64 frames, or `max_frames` if less.
    #[serde(default)]
    pub period_ns: Option<u64>,
    /// Answered iterations kept for retransmission.
    #[serde(default = "default_history")]
    pub history: u32,
    /// Earlier answers repeated with each.
    #[serde(default)]
    pub copies: u8,
    /// Frames after which past input has no effect.
    #[serde(default)]
    pub memory_frames: Option<u64>,
    /// Disables encryption: on the loopback interface only.
    #[serde(default)]
    pub cleartext: bool,
    /// `None` for a single worker.
    #[serde(default)]
    pub pipeline: Option<PipelinePlace>,
}

impl StreamRequest {
    /// Requests a single plugin, with datagrams that fit an Ethernet frame.
    pub fn of(plugin: impl Into<String>, rate: u32, max_frames: u32) -> Self {
        Self {
            version: VERSION,
            plugin: plugin.into(),
            hash: None,
            rate,
            max_frames,
            byte_order: ByteOrder::NATIVE,
            datagram_bytes: ETHERNET_BYTES,
            period_ns: None,
            history: default_history(),
            copies: 0,
            memory_frames: None,
            cleartext: false,
            pipeline: None,
        }
    }
}

const ETHERNET_BYTES: u32 = 1400;

/// Master, first worker, … last worker, master. The last is opened first, since each needs the
/// address of the next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PipelinePlace {
    /// Whether blocks come from the previous worker instead of the master.
    #[serde(default)]
    pub fed: bool,
    /// Control values for later plugins, to forward.
    #[serde(default)]
    pub onward: u32,
    /// Control values of earlier plugins, to forward.
    #[serde(default)]
    pub earlier: u32,
    /// Next worker's stream; `None` for the master.
    #[serde(default)]
    pub feeds: Option<FedStream>,
}

/// A stream fed by another worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FedStream {
    /// Address as reachable from the feeding worker.
    pub address: SocketAddr,
    /// [`WorkStream::id`].
    pub stream: u32,
    /// [`FedPort::key`]. A second feeding stream would repeat nonces.
    #[serde(default)]
    pub key: Option<SecretText>,
}

/// Where a stream receives blocks from another worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FedPort {
    /// UDP port at the address of the request.
    pub udp_port: u16,
    /// 32 bytes in base64; `None` for cleartext.
    #[serde(default)]
    pub key: Option<SecretText>,
}

/// 0.25 s of the shortest common blocks.
const fn default_history() -> u32 {
    256
}

/// A secret text that is never printed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretText(pub String);

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText")
    }
}

/// The stream opened for a [`StreamRequest`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkStream {
    /// Never reused by the same worker.
    pub id: u32,
    /// UDP port, at the address of the request.
    pub udp_port: u16,
    /// Blocks of an iteration, in order.
    pub set: Vec<BlockSpec>,
    /// Agreed [`StreamRequest::max_frames`].
    pub max_frames: u32,
    /// Agreed [`StreamRequest::datagram_bytes`].
    pub datagram_bytes: u32,
    /// Byte order of samples and control values.
    pub byte_order: ByteOrder,
    /// Number of audio inputs.
    pub inputs: u32,
    /// Number of audio outputs.
    pub outputs: u32,
    /// Number of control inputs.
    pub controls_in: u32,
    /// Number of control outputs.
    pub controls_out: u32,
    /// 32 bytes in base64; `None` without TLS.
    #[serde(default)]
    pub salt: Option<String>,
    /// Secret in base64, only for plain HTTP.
    #[serde(default)]
    pub key: Option<SecretText>,
    /// Port for blocks of another worker.
    #[serde(default)]
    pub fed: Option<FedPort>,
    /// Initial state.
    pub state: WorkStreamState,
}

/// `GET /v1/streams/{id}`: state of a stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkStreamState {
    /// [`WorkStream::id`].
    pub id: u32,
    /// [`Plugin::id`](super::Plugin::id).
    #[serde(deserialize_with = "shown")]
    pub plugin: String,
    /// Frames per second.
    pub rate: u32,
    /// Maximum frames per iteration.
    pub max_frames: u32,
    /// UDP port for its datagrams.
    pub udp_port: u16,
    /// Current phase.
    pub phase: StreamPhase,
    /// Reason for the phase, if there is a problem.
    #[serde(default, deserialize_with = "shown_if_any")]
    pub reason: Option<String>,
    /// Number of restarts of its process.
    pub restarts: u32,
    /// Current activation; 0 before the first.
    pub epoch: u32,
    /// Whether the plugin missed blocks in this epoch.
    pub dirty: bool,
    /// Output latency reported by the plugin.
    pub latency_frames: u32,
    /// Core of its pinned thread.
    #[serde(default)]
    pub core: Option<u32>,
    /// Reserved share of a core, 0 to 1.
    pub share: f64,
    /// Counters since it was opened.
    pub counters: WorkCounters,
}

/// Phase of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamPhase {
    /// The plugin's process is starting.
    Starting,
    /// Waiting for blocks.
    Idle,
    /// Receiving blocks.
    Running,
    /// The plugin's process crashed, and another process is starting.
    Restarting,
    /// Given up.
    Failed,
}

/// A worker's counters for a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkCounters {
    /// Blocks processed by the plugin.
    pub blocks: u64,
    /// Processed blocks that were retransmitted on request.
    pub retransmitted: u64,
    /// Retransmission requests for blocks.
    pub retransmit_requests: u64,
    /// Blocks no longer available at the master.
    pub expired: u64,
    /// Datagrams received.
    pub received: u64,
    /// Datagrams sent.
    pub sent: u64,
    /// Duplicate datagrams.
    pub duplicate: u64,
    /// Malformed datagrams.
    pub invalid: u64,
    /// Datagrams of another stream or an older epoch.
    pub other_stream: u64,
    /// Datagrams that could not be decrypted.
    pub auth_failed: u64,
    /// Total duration of all runs of the plugin, in nanoseconds.
    pub busy_ns: u64,
    /// Duration of the longest run, in nanoseconds.
    pub longest_ns: u64,
}

#[cfg(test)]
mod tests {
    use tautline_proto::offload::block::{BlockWay, Element, Length};

    use super::*;

    #[test]
    fn blocks_and_byte_orders_are_written_in_these_words() {
        let ways = [BlockWay::ToWorker, BlockWay::FromWorker, BlockWay::Both];
        let elements = [Element::F32, Element::F64, Element::I16, Element::I32, Element::Byte];
        let lengths = [Length::Fixed(3), Length::PerFrame(1)];
        let orders = [ByteOrder::Little, ByteOrder::Big];
        let written = serde_json::to_string(&(ways, elements, lengths, orders)).unwrap();
        assert_eq!(
            written,
            r#"[["to_worker","from_worker","both"],["f32","f64","i16","i32","byte"],[{"fixed":3},{"per_frame":1}],["little","big"]]"#
        );
        let block = BlockSpec { element: elements[0], way: ways[0], length: lengths[1] };
        let written = serde_json::to_string(&block).unwrap();
        assert_eq!(written, r#"{"element":"f32","way":"to_worker","length":{"per_frame":1}}"#);
    }
}
