//! Sound that programs exchange with a device's thread: by memory of their own process, or by memory that is shared
//! with the process whose device it is.
//!
//! A [`ProgramBuffer`](buffer::ProgramBuffer) lies between a program and a device's thread, which takes from it or puts
//! into it once per period ([`ends`]). It is the same buffer in either case. Where another process has the device, it
//! makes the buffer and hands it over ([`listening`], [`attaching`]): what a program writes there is bounded here, and
//! what wakes it ([`waking`]) has it no hand on. It can give pages of the buffer back, though: they are zeros then, and
//! cost the device's thread a page fault each, in which the others are late.

pub mod attaching;
pub mod buffer;
pub mod ends;
pub mod greeting;
mod handing;
pub mod listening;
pub mod mixing;
pub mod place;
pub mod recording;
#[cfg(test)]
mod tests;
mod track;
pub mod waking;
