//! Audio between programs and a device's thread, via a [`ProgramBuffer`](buffer::ProgramBuffer) in
//! the same process or in shared memory.
//!
//! The device's process creates it ([`listening`], [`attaching`]) and checks all values. Pages that
//! a program releases read as zeros and cost a page fault.

pub mod attaching;
pub mod buffer;
pub mod ends;
pub mod greeting;
mod handing;
pub mod listening;
pub mod mixing;
#[cfg(test)]
mod tests;

use core::fmt;
use core::str::FromStr;
use std::path::{Path, PathBuf};

use tautline_proto::device::Direction;

/// A device that programs attach to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramsName(String);

impl ProgramsName {
    const LONGEST: usize = 32;

    fn socket(&self, folder: &Path, direction: Direction) -> PathBuf {
        let way = match direction {
            Direction::Playback => "play",
            Direction::Capture => "record",
        };
        folder.join(format!("programs-{self}.{way}"))
    }
}

impl Default for ProgramsName {
    fn default() -> Self {
        Self("taut".to_owned())
    }
}

impl FromStr for ProgramsName {
    type Err = ();

    /// Parses up to 32 letters, digits, `-` and `_`, for a file name.
    fn from_str(given: &str) -> Result<Self, ()> {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let good = !given.is_empty() && given.len() <= Self::LONGEST && given.chars().all(fits);
        if good { Ok(Self(given.to_owned())) } else { Err(()) }
    }
}

impl fmt::Display for ProgramsName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
