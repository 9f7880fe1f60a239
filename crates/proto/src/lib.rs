//! Everything of tautline that can be decided without touching the machine.
//!
//! Machines here are plain values: time is an argument, bytes and samples are arguments, and
//! nothing is allocated after set-up. Their methods are of three kinds: `push`/`handle` take what
//! happened, `pull`/`poll` give what is to be done, `set`/`observe` take what another thread
//! learnt. A driver hands in everything that happened, then takes what is to be done, then waits
//! until the deadline the machine names, if it names one.
//!
//! The path of one frame: [`sender`] → a link → [`receiver`] (whom: [`source`], when:
//! [`placement`], where: [`playout`]) → the device. Later packets can carry copies of lost ones
//! ([`redundancy`]). Beside it, on an ordinary thread, [`session`]
//! exchanges reports and maps the clocks ([`clock`]).
#![deny(missing_docs)]
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub use tautline_dsp::named_enum;

pub mod arrivals;
pub mod call;
pub mod card_clock;
pub mod card_line;
pub mod cause;
pub mod clock;
pub mod coder;
pub mod coding_time;
pub mod counted;
pub mod counters;
pub mod crf_follower;
pub mod depth;
pub mod device;
pub mod endpoint;
pub mod evidence;
pub mod faults;
pub mod holes;
pub mod latency;
pub mod lead;
pub mod ledger;
pub mod maap;
pub mod offload;
pub mod pacing;
pub mod packet;
pub mod placement;
pub mod playout;
pub mod policy;
pub mod receiver;
pub mod receiving;
pub mod redundancy;
mod renderer;
pub mod sender;
pub mod senders;
pub mod sending;
pub mod servo;
pub mod session;
pub mod source;
pub mod stream;
pub mod text;
pub mod time;
pub mod unannounced;
pub mod units;
pub mod wire;
pub mod wrap;
