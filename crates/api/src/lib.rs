//! Communication between two `taut`. Nothing here is asynchronous or prints: plugins in foreign
//! processes link this crate.
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
