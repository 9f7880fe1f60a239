//! Everything of tautline that can be decided without touching the machine.
//!
//! Machines here are plain values: time is an argument, bytes and samples are arguments, and
//! nothing is allocated after set-up.
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod device;
pub mod ledger;
pub mod stream;
pub mod time;
pub mod units;
pub mod wire;
pub mod wrap;
