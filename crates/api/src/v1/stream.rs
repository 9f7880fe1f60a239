//! Asking for a plugin to be run, and how it stands.

use core::fmt;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use tautline_proto::offload::block::{BlockSpec, ByteOrder};

use super::VERSION;
use super::catalogue::{shown, shown_if_any};

/// `POST /v1/streams`: asks for an instance of a plugin and a way to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamRequest {
    /// [`VERSION`].
    pub version: u32,
    /// [`Plugin::id`](super::Plugin::id).
    pub plugin: String,
    /// [`Plugin::hash`](super::Plugin::hash), if it is to be that very library.
    #[serde(default)]
    pub hash: Option<String>,
    /// Frames per second.
    pub rate: u32,
    /// The most frames of one iteration.
    pub most_frames: u32,
    /// How the master has its numbers.
    pub byte_order: ByteOrder,
    /// The longest datagram that the path carries whole, before it is sealed.
    pub datagram_bytes: u32,
    /// From one run of the plugin to the next, for the admission; without it runs of 64 frames are assumed, the shortest
    /// of usual hosts, or of `most_frames` where that is less.
    #[serde(default)]
    pub period_ns: Option<u64>,
    /// Iterations of answers that the worker is to keep, so that it can send them again.
    #[serde(default = "default_history")]
    pub history: u32,
    /// Earlier answers that leave once more with each.
    #[serde(default)]
    pub copies: u8,
    /// Frames after which the plugin remembers nothing of what it heard, where anybody knows.
    #[serde(default)]
    pub memory_frames: Option<u64>,
    /// Datagrams without a seal, for measuring what it costs: on the loopback interface alone.
    #[serde(default)]
    pub cleartext: bool,
    /// Where it stands among workers of which each feeds the next; alone, if that is left out.
    #[serde(default)]
    pub pipeline: Option<PipelinePlace>,
}

impl StreamRequest {
    /// Alone, by datagrams that Ethernet carries whole, and nothing but what has to be said.
    pub fn of(plugin: impl Into<String>, rate: u32, most_frames: u32) -> Self {
        Self {
            version: VERSION,
            plugin: plugin.into(),
            hash: None,
            rate,
            most_frames,
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

/// With the seal and the heads below it.
const ETHERNET_BYTES: u32 = 1400;

/// Where a stream stands in a pipeline: blocks go from the master to the first worker, from each to the next, and from the
/// last to the master. The last is opened first, since each is told where the next one is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PipelinePlace {
    /// Blocks come from the worker before, and not from the master.
    #[serde(default)]
    pub fed: bool,
    /// Control values of the plugins behind this one, that come with its own and go on.
    #[serde(default)]
    pub onward: u32,
    /// Control values that the plugins before this one wrote, that come with the sound and go on.
    #[serde(default)]
    pub earlier: u32,
    /// To whom what is made goes, if not to the master.
    #[serde(default)]
    pub feeds: Option<FedStream>,
}

/// The stream that another feeds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FedStream {
    /// Where it hears its blocks, as the worker that feeds it reaches it.
    pub address: SocketAddr,
    /// [`WorkStream::id`].
    pub stream: u32,
    /// [`FedPort::key`]. It seals for one stream that feeds and no other: with a second, nonces would come twice.
    #[serde(default)]
    pub key: Option<SecretText>,
}

/// Where a stream that is fed by another worker hears its blocks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FedPort {
    /// At the address by which the worker was asked.
    pub udp_port: u16,
    /// 32 bytes in base64 that both workers seal by; `None` if datagrams are cleartext.
    #[serde(default)]
    pub key: Option<SecretText>,
}

/// As many as a quarter of a second has of the shortest usual blocks.
const fn default_history() -> u32 {
    256
}

/// A text that is not to be printed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretText(pub String);

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText")
    }
}

/// What was opened for a [`StreamRequest`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkStream {
    /// Names it in later calls and in each datagram. Never used again by the same worker.
    pub id: u32,
    /// Where the worker hears its datagrams, at the address by which the worker was asked.
    pub udp_port: u16,
    /// The blocks of an iteration, in their order.
    pub set: Vec<BlockSpec>,
    /// [`StreamRequest::most_frames`], as it was agreed on.
    pub most_frames: u32,
    /// [`StreamRequest::datagram_bytes`], as it was agreed on.
    pub datagram_bytes: u32,
    /// Of all samples and control values: [`StreamRequest::byte_order`].
    pub byte_order: ByteOrder,
    /// Audio inputs of the plugin.
    pub inputs: u32,
    /// Audio outputs.
    pub outputs: u32,
    /// Control inputs.
    pub controls_in: u32,
    /// Control outputs.
    pub controls_out: u32,
    /// Of 32 bytes, in base64: makes the secret of this stream of that of the TLS connection. The server fills it in;
    /// `None` without TLS.
    #[serde(default)]
    pub salt: Option<String>,
    /// The secret of this stream in base64, over plain HTTP on the loopback interface alone. The server
    /// fills it in.
    #[serde(default)]
    pub key: Option<SecretText>,
    /// Where it hears its blocks, if another worker feeds it.
    #[serde(default)]
    pub fed: Option<FedPort>,
    /// How it stands.
    pub state: WorkStreamState,
}

/// `GET /v1/streams/{id}`: how a stream stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkStreamState {
    /// [`WorkStream::id`].
    pub id: u32,
    /// [`Plugin::id`](super::Plugin::id).
    #[serde(deserialize_with = "shown")]
    pub plugin: String,
    /// Frames per second.
    pub rate: u32,
    /// The most frames of one iteration.
    pub most_frames: u32,
    /// Where its datagrams are heard.
    pub udp_port: u16,
    /// What it does.
    pub phase: StreamPhase,
    /// Why it does that, where it is no good news: a sentence.
    #[serde(default, deserialize_with = "shown_if_any")]
    pub why: Option<String>,
    /// How often its process was started anew.
    pub restarts: u32,
    /// The activation that it is in; 0 before the first.
    pub epoch: u32,
    /// Whether the plugin missed blocks of this epoch.
    pub dirty: bool,
    /// What the plugin says that its output is late by.
    pub latency_frames: u32,
    /// The core that its thread is on, if it is bound to one.
    #[serde(default)]
    pub core: Option<u32>,
    /// The share of a core that it was promised, 0 to 1.
    pub share: f64,
    /// What was counted since it was opened.
    pub counters: WorkCounters,
}

/// What a stream does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamPhase {
    /// Its process is being made.
    Starting,
    /// It waits for blocks.
    Idle,
    /// Blocks come.
    Running,
    /// Its process ended by a fault, and another is being made.
    Restarting,
    /// It was given up.
    Failed,
}

/// What a worker counts of one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkCounters {
    /// Blocks that the plugin worked on.
    pub blocks: u64,
    /// Those of them that came again, since they were asked for.
    pub replayed: u64,
    /// Times that a block was asked for again.
    pub asked: u64,
    /// Blocks that the master kept no more.
    pub gone: u64,
    /// Datagrams that came.
    pub received: u64,
    /// Datagrams that left.
    pub sent: u64,
    /// Datagrams that came again.
    pub duplicate: u64,
    /// Datagrams that break their format.
    pub invalid: u64,
    /// Datagrams of another stream or an older epoch.
    pub foreign: u64,
    /// Datagrams that were not sealed as they are opened.
    pub unopened: u64,
    /// What all runs of the plugin took, in nanoseconds.
    pub busy_ns: u64,
    /// What the longest took, in nanoseconds.
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
