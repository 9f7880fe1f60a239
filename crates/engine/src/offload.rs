//! Offloads work to other hosts, with threads and sockets. [`tautline_proto::offload`] makes the
//! decisions.
//!
//! [`offloaded`] is the master for audio: the host's real-time thread sends each block and plays
//! earlier answers. Its [`attendant`] attaches workers and receives the damage ledger. [`windowed`]
//! is the master for any other data. [`working`] is a worker's thread. None of them opens a link.

pub mod attendant;
pub mod delay;
pub(crate) mod far;
pub mod host_block;
pub mod offloaded;
pub mod sound_set;
pub mod windowed;
pub mod working;
