//! The first version's API.
//!
//! Readers of responses ignore unknown fields. A worker rejects unknown fields in requests.

mod catalogue;
mod node;
mod push;
mod stream;
mod workshop;

pub use catalogue::{Catalogue, MAX_PLUGINS, MAX_TEXT, Plugin, PluginCost, PluginPort};
pub use node::{
    Acknowledged, AnnouncementResult, AnnouncementState, FaultKind, FaultState, FaultsAck,
    NODE_PORT, NodeService, NodeState, SourceState, ZoneChange, ZonePlayback, ZoneRefused,
    ZoneState,
};
pub use push::{MAX_PUSHED_FILE, PushRefused, SitePush, SitePushed};
pub use stream::{
    FedPort, FedStream, PipelinePlace, SecretText, StreamPhase, StreamRequest, WorkCounters,
    WorkStream, WorkStreamState,
};
pub use workshop::Capacity;
pub use workshop::{MAX_KEPT_BYTES, RefusalAnswer, WorkRefused, Workshop};

/// Version of these types.
pub const VERSION: u32 = 1;
/// Default TCP port of a worker.
pub const PORT: u16 = 17230;
