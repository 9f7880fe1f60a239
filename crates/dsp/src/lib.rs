//! Sample arithmetic. No clock, no I/O, and no allocation after set-up except in `align::rivals`.
#![deny(missing_docs)]
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod align;
pub mod card;
pub mod channel;
pub mod chime;
pub mod conceal;
pub mod delay;
pub mod dither;
pub mod echo;
pub mod equalizer;
mod fade;
pub mod fit;
pub mod format;
pub mod gain;
pub mod level;
pub mod limiter;
pub mod map;
mod named;
pub mod resample;
pub mod signal;
pub mod sum;
pub mod timecode;
pub mod vector;
