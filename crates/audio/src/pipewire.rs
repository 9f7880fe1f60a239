//! A PipeWire node: sink, source, or stream to a card. The graph calls the process once per cycle.
//! `node` is the device, `course` times blocks. Without feature `pipewire`, every name is rejected.

use tautline_proto::device::{Device, DeviceError, Directions, Settings};

pub use self::spec::PipeWireSpec;
#[cfg(not(feature = "pipewire"))]
use crate::toolbox::{DeviceDescription, Sides};
use crate::toolbox::{Notes, StreamLatency};

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
mod wired;

pub use graph::Graph;
#[cfg(feature = "pipewire")]
pub use offer::graph;
#[cfg(feature = "pipewire")]
pub(crate) use offer::{devices, list, settle};

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

#[cfg(not(feature = "pipewire"))]
pub(crate) fn settle(
    spec: &PipeWireSpec,
    _directions: Directions,
    _wanted: Settings,
) -> Result<Settings, DeviceError> {
    Err(left_out(spec))
}

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

#[cfg(not(feature = "pipewire"))]
pub(crate) fn list() -> Vec<DeviceDescription> {
    Vec::new()
}

#[cfg(not(feature = "pipewire"))]
pub(crate) fn devices() -> Option<Sides<bool>> {
    None
}

#[cfg(not(feature = "pipewire"))]
pub fn graph() -> Option<Graph> {
    None
}

#[cfg(not(feature = "pipewire"))]
fn left_out(spec: &PipeWireSpec) -> DeviceError {
    DeviceError {
        tried: spec.to_string(),
        answer: "taut was built without PipeWire".to_owned(),
        hint:
            "apt-get install libpipewire-0.3-dev libclang-dev, then build it again (make release)"
                .to_owned(),
    }
}
