//! How tests are judged on a machine that others use too. What a machine lacks is said
//! ([`skipped`]); what time decides is set aside only where the host spoiled it, by the word of a
//! watch that is the tests' own ([`timed`]).
//!
//! Tests alone use this.
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
pub use snapshot::match_snapshot;
pub use timed::{alone, beside, each, mostly, shared, steady, timed};
pub use watch::Window;
