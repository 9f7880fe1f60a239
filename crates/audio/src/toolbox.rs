//! What every kind of device is built with: none of these knows a device by its kind.

pub(crate) mod callback;
pub(crate) mod description;
pub(crate) mod notes;
pub(crate) mod ports;
pub(crate) mod sides;
pub(crate) mod stream_latency;
pub(crate) mod supervise;
pub(crate) mod tapped;
pub(crate) mod thread;
