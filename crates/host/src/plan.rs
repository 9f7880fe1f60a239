//! What parent and child of one stream say to each other, each a line of JSON.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tautline_api::v1::{DescribedOrder, PluginCost, WorkCounters};
use tautline_engine::offload::sound_set::SoundSet;

use crate::chain::Recipe;
use crate::child_notes::BlockOfEpoch;
use crate::offers::PortCounts;

/// What a child is to do.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) recipe: Recipe,
    /// Folders that its plugins may read, besides their own and the system's.
    pub(crate) readable: Vec<PathBuf>,
    /// Its ports, as its libraries said when they were asked.
    pub(crate) ports: PortCounts,
    pub(crate) stream: u32,
    pub(crate) rate: u32,
    pub(crate) most_frames: u32,
    /// Before they are sealed.
    pub(crate) datagram_bytes: usize,
    pub(crate) history: usize,
    pub(crate) copies: u8,
    pub(crate) memory_frames: Option<u64>,
    pub(crate) byte_order: DescribedOrder,
    /// The number of this process among those of the stream.
    pub(crate) incarnation: u32,
    /// Datagrams are sealed by it, if there is one.
    pub(crate) secret: Option<[u8; 32]>,
    /// Where it stands among workers of which each feeds the next.
    pub(crate) pipeline: PlannedPipeline,
    /// As `--scheduler` has it.
    pub(crate) scheduler: String,
    /// Whether to measure first what the plugin takes.
    pub(crate) measure: bool,
    /// How long a run may take before it is taken for one that does not come to an end.
    pub(crate) patience_ms: u64,
}

impl Plan {
    pub(crate) fn sound_set(&self) -> SoundSet {
        let PlannedPipeline { onward, earlier, .. } = self.pipeline;
        SoundSet { onward, earlier, ..self.ports.sound_set(self.most_frames) }
    }
}

/// [`PipelinePlace`](tautline_api::v1::PipelinePlace), as it was agreed on.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct PlannedPipeline {
    pub(crate) onward: usize,
    pub(crate) earlier: usize,
    /// By what blocks are sealed that the worker before sends, if one does.
    pub(crate) fed: Option<Option<[u8; 32]>>,
    pub(crate) feeds: Option<PlannedFeed>,
}

/// To whom what is made goes.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct PlannedFeed {
    pub(crate) address: SocketAddr,
    pub(crate) stream: u32,
    pub(crate) secret: Option<[u8; 32]>,
}

impl PortCounts {
    /// What both ends agree on.
    pub fn sound_set(&self, most_frames: u32) -> SoundSet {
        let Self { inputs, outputs, controls, told } = *self;
        SoundSet {
            inputs,
            outputs,
            controls_in: controls,
            controls_out: told,
            most_frames,
            ..SoundSet::default()
        }
    }
}

/// Has a process take blocks. It is loaded by then, or first loads: one that waits for this is a standby.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct TakeBlocks {
    /// Blocks at which processes before it died: the plugin does not get them.
    pub(crate) fatal: Vec<BlockOfEpoch>,
}

/// What a child tells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ChildEvent {
    /// It is loaded, and takes blocks as soon as it is told to.
    Ready {
        /// How its thread is scheduled, in a sentence where that was refused.
        scheduled: String,
        /// Where that was to be measured.
        cost: Option<PluginCost>,
    },
    /// It will never, and why.
    Refused(String),
    /// A run does not come to an end; the process ends next.
    Hung {
        /// How long it has been running.
        millis: u64,
    },
    Standing(ChildStanding),
}

/// How a child stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct ChildStanding {
    /// 0 before the first.
    pub(crate) epoch: u32,
    pub(crate) dirty: bool,
    /// By the plugin's word, in frames.
    pub(crate) latency: u32,
    /// Blocks in which a control was no number, or infinite.
    pub(crate) odd_controls: u64,
    pub(crate) counters: WorkCounters,
}
