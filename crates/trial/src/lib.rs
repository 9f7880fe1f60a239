//! How tests are judged on a machine that others use too. What a machine lacks is said
//! ([`skipped`]); what time decides is set aside only where the host spoiled it, by the word of a
//! watch that is the tests' own ([`timed`]).
//!
//! Tests alone use this.
#![forbid(unsafe_code)]

mod lack;
mod load;
mod ports;
mod timed;
mod verdict;
mod watch;

pub use lack::{Lack, skipped};
pub use ports::{free_udp_ports, is_listed};
pub use timed::{alone, beside, each, mostly, shared, steady, timed};
pub use watch::Window;
