use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tautline_api::v1::{PluginCost, StreamRequest, WorkCounters};
use tautline_engine::offload::sound_set::SoundSet;

use crate::chain::Recipe;
use crate::child_notes::BlockOfEpoch;
use crate::offers::PortCounts;

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) recipe: Recipe,
    pub(crate) readable: Vec<PathBuf>,
    pub(crate) ports: PortCounts,
    pub(crate) stream: u32,
    pub(crate) request: StreamRequest,
    pub(crate) incarnation: u32,
    pub(crate) secret: Option<[u8; 32]>,
    pub(crate) pipeline: PlannedPipeline,
    pub(crate) scheduler: String,
    pub(crate) measure: bool,
    pub(crate) timeout_ms: u64,
}

impl Plan {
    pub(crate) fn sound_set(&self) -> SoundSet {
        self.ports.sound_set(&self.request)
    }
}

#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct PlannedPipeline {
    pub(crate) fed: Option<Option<[u8; 32]>>,
    pub(crate) feeds: Option<PlannedFeed>,
}

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct PlannedFeed {
    pub(crate) address: SocketAddr,
    pub(crate) stream: u32,
    pub(crate) secret: Option<[u8; 32]>,
}

impl PortCounts {
    pub(crate) fn sound_set(&self, request: &StreamRequest) -> SoundSet {
        let Self { inputs, outputs, controls, reported } = *self;
        let [onward, earlier] =
            request.pipeline.as_ref().map_or([0; 2], |place| [place.onward, place.earlier]);
        SoundSet {
            inputs,
            outputs,
            controls_in: controls,
            controls_out: reported,
            max_frames: request.max_frames,
            onward: onward as usize,
            earlier: earlier as usize,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct TakeBlocks {
    /// Blocks at which earlier processes died; skipped.
    pub(crate) fatal: Vec<BlockOfEpoch>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ChildEvent {
    Ready { scheduled: String, cost: Option<PluginCost> },
    Refused(String),
    Hung { millis: u64 },
    Standing(ChildStanding),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct ChildStanding {
    pub(crate) epoch: u32,
    pub(crate) dirty: bool,
    pub(crate) latency: u32,
    pub(crate) odd_controls: u64,
    pub(crate) counters: WorkCounters,
}
