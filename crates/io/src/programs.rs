//! Sound that programs exchange with a device's thread, by a [`ProgramBuffer`](buffer::ProgramBuffer) in memory of
//! their own process, or shared with the process that has the device.
//!
//! That process makes the buffer and hands it over ([`listening`], [`attaching`]). It bounds what a program writes
//! there. A program can give pages back: they are zeros then, and cost the device's thread a page fault each.

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

/// The name of a device that programs attach to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramsName(String);

impl ProgramsName {
    const LONGEST: usize = 32;

    /// The socket by which programs play, or record, in this folder.
    fn socket(&self, folder: &Path, direction: Direction) -> PathBuf {
        let way = match direction {
            Direction::Playback => "play",
            Direction::Capture => "record",
        };
        folder.join(format!("programs-{self}.{way}"))
    }
}

impl Default for ProgramsName {
    /// That of who needs no other.
    fn default() -> Self {
        Self("taut".to_owned())
    }
}

impl FromStr for ProgramsName {
    type Err = ();

    /// Up to 32 letters, digits, `-` and `_`, as it becomes the name of a file.
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
