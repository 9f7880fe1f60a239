//! Recordings that `taut site push` copies with the building file.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use ring::digest::{SHA256, digest};
use tautline_api::v1::MAX_PUSHED_FILE;

use crate::Site;

/// Endings of copied files. Others could be keys or settings of the node.
const COPIED: [&str; 3] = ["wav", "flac", "ics"];

/// A recording that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileFault {
    /// It cannot be read.
    #[error("reading {}: {error}\nhint: check the path and its permissions", path.display())]
    Read {
        /// Path.
        path: PathBuf,
        /// Error of the system.
        error: std::io::Error,
    },
    /// It has another hash than the building file says.
    #[error(
        "message {message}: {} has SHA-256 {found}\nhint: copy the right recording, or write sha256 = \"{found}\"",
        path.display()
    )]
    Hash {
        /// Message.
        message: String,
        /// Path.
        path: PathBuf,
        /// Hash of the file.
        found: String,
    },
    /// It is too large to copy.
    #[error(
        "{} has {bytes} bytes, and at most {MAX_PUSHED_FILE} are copied\nhint: save it as FLAC, or copy it by hand to an absolute path",
        path.display()
    )]
    Large {
        /// Path.
        path: PathBuf,
        /// Its size.
        bytes: usize,
    },
    /// A path that is not copied.
    #[error(
        "message {message}: {} is not copied\nhint: only .wav, .flac and .ics files below the folder of the building file are; copy others by hand",
        path.display()
    )]
    NotCopied {
        /// Message.
        message: String,
        /// Path.
        path: PathBuf,
    },
}

/// Bytes of copied files by their path in the building file.
pub(crate) type Files = BTreeMap<PathBuf, Vec<u8>>;

impl Site {
    /// Paths of copied files, relative to the folder of the building file.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        self.messages.values().map(|message| message.file.as_path()).filter(|path| is_copied(path))
    }

    /// Reads the files that belong to the building file in `folder`. Checks their hashes, and
    /// returns the messages that are not copied, too.
    pub(crate) fn read_files(&self, folder: &Path) -> Result<(Files, Vec<FileFault>), FileFault> {
        let (mut files, mut left) = (Files::new(), Vec::new());
        for (message, it) in &self.messages {
            if !is_copied(&it.file) {
                let (message, path) = (message.clone(), it.file.clone());
                left.push(FileFault::NotCopied { message, path });
                continue;
            }
            let bytes = self.recording(message, folder)?;
            if bytes.len() > MAX_PUSHED_FILE {
                return Err(FileFault::Large { path: it.file.clone(), bytes: bytes.len() });
            }
            files.insert(it.file.clone(), bytes);
        }
        Ok((files, left))
    }

    /// Checks that the recording of a message is in `folder` and has its hash.
    pub fn check_recording(&self, message: &str, folder: &Path) -> Result<(), FileFault> {
        self.recording(message, folder).map(drop)
    }

    /// Recordings of messages that are missing or have another hash.
    pub fn faulty_recordings(&self, folder: &Path) -> Vec<FileFault> {
        let checked = self.messages.keys().map(|message| self.check_recording(message, folder));
        checked.filter_map(Result::err).collect()
    }

    /// Bytes of a message's recording, if they have its hash.
    fn recording(&self, message: &str, folder: &Path) -> Result<Vec<u8>, FileFault> {
        let Some(it) = self.messages.get(message) else { return Ok(Vec::new()) };
        let path = folder.join(&it.file);
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) => return Err(FileFault::Read { path, error }),
        };
        let found = digest(&SHA256, &bytes);
        if it.sha256.is_some_and(|expected| expected != found.as_ref()) {
            let (message, found) = (message.to_owned(), hex(found.as_ref()));
            return Err(FileFault::Hash { message, path, found });
        }
        Ok(bytes)
    }
}

/// Whether nodes accept a pushed file at this path: it stays below the folder of the building file
/// and cannot be a key or a setting of the node.
pub(crate) fn is_copied(path: &Path) -> bool {
    let is_plain = |part: Component<'_>| match part {
        Component::Normal(name) => !name.as_encoded_bytes().starts_with(b"."),
        _ => false,
    };
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    path.components().all(is_plain) && COPIED.contains(&ending.to_ascii_lowercase().as_str())
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex(digest(&SHA256, bytes).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
