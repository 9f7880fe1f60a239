//! Work handed to other hosts, as threads and sockets do it: what decides is
//! [`tautline_proto::offload`].
//!
//! A master of sound is [`offloaded`]: a host's real-time thread hands each run of a plugin out and plays what came
//! back of those before; whoever attaches workers and hears of damage is its [`attendant`]. A master of anything else is
//! [`windowed`]. A worker's thread is [`working`]. None of them opens a link.

pub mod attendant;
pub mod delay;
pub(crate) mod far;
pub mod host_block;
pub mod offloaded;
pub mod sound_set;
pub mod windowed;
pub mod working;
