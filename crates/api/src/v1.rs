//! The words of the first version: what goes over the wire as JSON, and who answers.
//!
//! Answers may grow: fields that a reader does not know are passed over. What is asked for may not be: a
//! request with a field that the worker does not know is refused, since nobody would notice otherwise
//! that it was not heeded.

mod catalogue;
mod stream;
mod workshop;

pub use catalogue::{Catalogue, MOST_PLUGINS, MOST_TEXT, Plugin, PluginCost, PluginPort};
pub use stream::{
    FedPort, FedStream, PipelinePlace, SecretText, StreamPhase, StreamRequest, WorkCounters,
    WorkStream, WorkStreamState,
};
pub use workshop::Capacity;
pub use workshop::{MOST_KEPT_BYTES, RefusalAnswer, WorkRefused, Workshop};

/// The version that these types are.
pub const VERSION: u32 = 1;
/// The TCP port on which a worker answers where nobody says another.
pub const PORT: u16 = 17230;
