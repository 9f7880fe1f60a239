//! A deterministic simulator that drives tautline's state machines in virtual time.
//!
//! Hosts have clocks with errors ([`clock`]), paths affect packets as networks do ([`link`]), and
//! cards wake according to their own clocks ([`card`]). The state machines of `proto` send, receive
//! and report over them ([`world`]). Several senders share one link ([`world::shared`]), two ends
//! are in a call ([`call`]), or a plugin runs elsewhere ([`offload`]). The same seed gives the same
//! bytes. Networks are named after places ([`preset`]) and give the sources of their values, or are
//! recorded ([`trace`]).
#![forbid(unsafe_code)]

mod beat;
pub mod call;
pub mod card;
pub mod clock;
mod coder;
pub mod fault;
pub mod heard;
pub mod link;
pub mod offload;
pub mod preset;
pub mod recipe;
pub mod scenario;
pub mod trace;
pub mod world;
