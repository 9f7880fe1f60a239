//! Linux without C libraries: sockets, timestamps, real-time threads, locked and shared memory.
//! Contains all `unsafe` system code.
#![deny(missing_docs)]

pub mod bare;
pub mod clock;
pub mod control;
pub mod ethernet;
pub mod link;
pub mod local;
pub mod network;
pub mod output;
pub mod programs;
pub mod shm;
pub mod socket;
mod system;
pub mod tcp;
pub mod terminal;
pub mod thread;
pub mod udp;
