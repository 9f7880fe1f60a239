//! What those whose sound a device is for are called, and where they find it.

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
    pub(super) fn socket(&self, folder: &Path, direction: Direction) -> PathBuf {
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
