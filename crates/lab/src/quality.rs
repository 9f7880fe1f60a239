//! `taut lab quality`: sends known sound and compares the recording with it.

mod carried;
mod effect;
mod known;

pub use carried::{CASES, CarriedCase, QUESTION, SentSound, noises_of, run};
pub use known::{KNOWN_SECONDS, write_known};
