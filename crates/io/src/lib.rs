//! Linux without C libraries: sockets, timestamps, real-time threads, locked memory.
//!
//! All `unsafe` for the operating system lives here. What the kernel says in its own clocks and
//! numbers is turned into the project's types at this edge.

mod address;
pub mod clock;
pub mod control;
pub mod destinations;
pub mod ethtool;
mod fixed;
pub mod forks;
pub mod host;
mod incoming;
pub mod kept;
pub mod limits;
pub mod link;
pub mod memory;
mod open;
pub mod pair;
pub mod qdisc;
pub mod realtime;
mod receive_batch;
mod ring;
mod send_batch;
mod shared;
mod socket;
pub mod stall;
pub mod thread;
pub mod timer;
mod timestamp;
mod transmit;
pub mod udp;
pub mod waiter;
pub mod wire_thread;
