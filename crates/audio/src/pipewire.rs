//! A node of PipeWire, by its own name: a sink that other programs play to, a source that they
//! record from, or a stream that is connected to a sound card.
//!
//! The graph calls the process, on a thread of PipeWire's, once per cycle: `node` is the device,
//! `course` decides where a block lies in time. What needs the library is behind the feature
//! `pipewire`; without it every name is understood and answered with what is missing.

use tautline_proto::device::{Device, DeviceError, Directions, Settings};

pub use self::spec::PipeWireSpec;
use crate::toolbox::description::DeviceDescription;
use crate::toolbox::notes::Notes;
use crate::toolbox::sides::Sides;
use crate::toolbox::stream_latency::StreamLatency;

#[cfg(feature = "pipewire")]
mod callee;
#[cfg(any(feature = "pipewire", test))]
mod course;
#[cfg(feature = "pipewire")]
mod filter;
mod graph;
#[cfg(feature = "pipewire")]
mod held;
#[cfg(feature = "pipewire")]
mod library;
#[cfg(feature = "pipewire")]
mod node;
#[cfg(feature = "pipewire")]
mod offer;
#[cfg(feature = "pipewire")]
mod pods;
#[cfg(feature = "pipewire")]
mod priority;
#[cfg(feature = "pipewire")]
mod server;
pub(crate) mod spec;
#[cfg(feature = "pipewire")]
mod time;
#[cfg(feature = "pipewire")]
mod wired;

pub use graph::Graph;

/// How the device would run: at the rate and with the channels that are wanted, because the graph
/// converts, and in cycles as long as the graph grants.
#[cfg(feature = "pipewire")]
pub(crate) fn settle(
    spec: &PipeWireSpec,
    directions: Directions,
    wanted: Settings,
) -> Result<Settings, DeviceError> {
    offer::settle(spec, directions, wanted)
}

#[cfg(feature = "pipewire")]
pub(crate) fn open(
    spec: &PipeWireSpec,
    directions: Directions,
    settings: Settings,
    notes: &Notes,
    latency: &StreamLatency,
) -> Result<Box<dyn Device>, DeviceError> {
    Ok(Box::new(node::Node::open(spec, directions, settings, notes, latency)?))
}

/// Those that are here.
#[cfg(feature = "pipewire")]
pub(crate) fn list() -> Vec<DeviceDescription> {
    offer::list()
}

/// In which directions the server that runs has a device; `None` without one that answers. Starts none.
#[cfg(feature = "pipewire")]
pub(crate) fn devices() -> Option<Sides<bool>> {
    offer::devices()
}

/// How the graph runs; `None` without a server that answers. Starts none.
#[cfg(feature = "pipewire")]
pub fn graph() -> Option<Graph> {
    offer::graph()
}

/// How the device would run, if this build had any.
#[cfg(not(feature = "pipewire"))]
pub(crate) fn settle(
    spec: &PipeWireSpec,
    _directions: Directions,
    _wanted: Settings,
) -> Result<Settings, DeviceError> {
    Err(left_out(spec))
}

/// Opens it, if this build had any.
#[cfg(not(feature = "pipewire"))]
pub(crate) fn open(
    spec: &PipeWireSpec,
    _directions: Directions,
    _settings: Settings,
    _notes: &Notes,
    _latency: &StreamLatency,
) -> Result<Box<dyn Device>, DeviceError> {
    Err(left_out(spec))
}

/// Those that are here: none.
#[cfg(not(feature = "pipewire"))]
pub(crate) fn list() -> Vec<DeviceDescription> {
    Vec::new()
}

/// In which directions the server has a device: this build cannot ask.
#[cfg(not(feature = "pipewire"))]
pub(crate) fn devices() -> Option<Sides<bool>> {
    None
}

/// How the graph runs: this build cannot ask.
#[cfg(not(feature = "pipewire"))]
pub fn graph() -> Option<Graph> {
    None
}

#[cfg(not(feature = "pipewire"))]
fn left_out(spec: &PipeWireSpec) -> DeviceError {
    DeviceError {
        tried: spec.to_string(),
        answer: "this taut was built without PipeWire".to_owned(),
        mend:
            "apt-get install libpipewire-0.3-dev libclang-dev, then build it again (make release)"
                .to_owned(),
    }
}
