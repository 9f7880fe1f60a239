//! Sockets that carry datagrams, whatever the network: the kernel's arrays, its stamps, and what it tells beside
//! a datagram. [`crate::udp`] and [`crate::ethernet`] open them; [`crate::link::direct`] runs them.

pub(crate) mod address;
pub mod bare;
pub(crate) mod buffers;
pub(crate) mod descriptor;
pub(crate) mod fixed;
pub mod forks;
pub(crate) mod incoming;
pub mod launch;
pub(crate) mod outlet;
pub(crate) mod receive_batch;
pub(crate) mod segments;
pub(crate) mod timestamp;
pub(crate) mod transmit;
