//! Parts of tautline that decide without I/O. Time, bytes and samples are arguments. Nothing
//! allocates after set-up. `push` and `handle` take events; `pull` and `poll` return actions.
//!
//! Path of a frame: [`packetizer`] → link → [`jitter_buffer`] ([`source`], [`placement`],
//! [`playout`]) → device. [`redundancy`] repairs losses; [`rtcp_session`] maps the clocks
//! ([`clock`]).
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
pub mod codec;
pub mod coding_time;
pub mod congestion;
pub mod counters;
pub mod crf_follower;
pub mod demux;
pub mod device;
pub mod endpoint;
pub mod evidence;
pub mod faults;
pub mod frame_count;
mod heavy_loss;
pub mod holes;
pub mod jitter_buffer;
pub mod latency;
pub mod lead;
pub mod ledger;
pub mod maap;
pub mod offload;
pub mod pacing;
pub mod packet;
pub mod packetizer;
pub mod placement;
pub mod playout;
pub mod policy;
pub mod receive_policy;
pub mod redundancy;
mod renderer;
pub mod rtcp_session;
pub mod send_policy;
pub mod servo;
pub mod source;
pub mod stream;
pub mod target_delay;
pub mod text;
pub mod time;
pub mod unannounced;
pub mod units;
pub mod wire;
pub mod wrap;
pub mod zone;
