//! The first version's API: JSON types, and the trait of a server.
//!
//! Responses may gain fields: readers ignore unknown ones. Requests may not: a worker rejects
//! unknown fields, as ignoring them would go unnoticed.

mod catalogue;
mod stream;
mod workshop;

pub use catalogue::{Catalogue, MAX_PLUGINS, MAX_TEXT, Plugin, PluginCost, PluginPort};
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
