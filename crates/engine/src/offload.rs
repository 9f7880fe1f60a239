//! Offloads work to other hosts; [`tautline_proto::offload`] decides.
//!
//! [`offloaded`] is the master for audio, on the host's real-time thread. Its [`attendant`]
//! attaches workers and receives the damage ledger. [`windowed`] is the master for other data,
//! [`working`] a worker.

pub mod attendant;
pub mod delay;
pub(crate) mod far;
pub mod host_block;
pub mod offloaded;
pub mod sound_set;
pub mod windowed;
pub mod working;
