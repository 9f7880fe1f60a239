//! A deterministic world that drives tautline's machines in virtual time.
//!
//! Hosts have clocks that err ([`clock`]), paths do to packets what networks do ([`link`]), cards
//! wake when their own clocks say so ([`card`]); the very machines of `proto` send, receive and
//! talk over them ([`world`]), several senders share one link ([`world::shared`]), two ends are in a call ([`call`]), or a
//! plugin runs elsewhere ([`offload`]). The same seed gives the same bytes. Networks are named after places
//! ([`preset`]), each with where its figures come from, or recorded ([`trace`]).
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
