//! A deterministic simulator that drives tautline's state machines in virtual time.
//!
//! Hosts have clocks ([`clock`]), network paths ([`link`]) and cards ([`card`]), all with errors.
//! Scenarios play a stream ([`world`]), several senders ([`world::shared`]), a call ([`call`]), or
//! a remote plugin ([`offload`]). The same seed gives the same bytes. Networks are presets with
//! sources ([`preset`]), or recorded ([`trace`]).
#![forbid(unsafe_code)]

mod beat;
pub mod call;
pub mod card;
pub mod clock;
mod codec;
pub mod fault;
pub mod link;
pub mod offload;
pub mod preset;
pub mod received;
pub mod recipe;
pub mod scenario;
pub mod trace;
pub mod world;
pub mod zones;
