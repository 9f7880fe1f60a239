//! Judges tests on a shared machine: missing prerequisites ([`skipped`]), and timing failures
//! caused by the host ([`timed`]).
//!
//! For tests only.
#![deny(unsafe_code)]

mod allocation;
mod lack;
mod load;
mod ports;
mod replay;
mod shape;
mod snapshot;
mod timed;
mod verdict;
mod watch;

pub use allocation::{CountingAllocator, allocator_calls, live_bytes, live_bytes_of_all};
pub use lack::{Lack, skipped};
pub use ports::{free_udp_ports, is_listed};
pub use replay::replay;
pub use shape::{assert_shape, shape_in_help, shape_of_json};
pub use snapshot::{match_document, match_snapshot};
pub use timed::{alone, alongside, each, mostly, shared, steady, timed};
pub use watch::Window;
