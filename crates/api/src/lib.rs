//! What one `taut` says to another: types, identity and trust, seals, and a small blocking client.
//!
//! `v1` is the words of the first version, as JSON, and the trait behind which whoever answers them
//! stands. Nothing here is asynchronous and nothing prints: a plugin in somebody else's process links it.
#![deny(missing_docs)]

pub mod attach;
pub mod call;
pub mod client;
pub mod folders;
pub mod pipeline;
pub mod saved;
pub mod seal;
pub mod srtp;
pub mod trust;
pub mod v1;
pub mod workers;
