//! Recordings that `taut site push` copies with the building file.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use ring::digest::{SHA256, digest};
use tautline_api::v1::MAX_PUSHED_FILE;

use crate::{Message, RuleTimes, Site};

/// File extensions that are copied. Files with other extensions could be settings of the node, or
/// its identity.
const COPIED: [&str; 4] = ["wav", "flac", "ics", KEY];
/// Ending of keys.
const KEY: &str = "key";

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
    /// The file has no such message.
    #[error("the building file has no message {0:?}\nhint: add [message.{0}] to it")]
    NoMessage(String),
    /// The recording's hash differs from the hash in the building file.
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
    /// The recording is too large to copy.
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
        "{name}: {} is not copied\nhint: only .wav, .flac, .ics and .key files below the folder of the building file are; copy others by hand",
        path.display()
    )]
    NotCopied {
        /// Message, rule of the schedule, or key of the building file.
        name: String,
        /// Path.
        path: PathBuf,
    },
}

/// Bytes of copied files by their path in the building file.
pub(crate) type Files = BTreeMap<PathBuf, Vec<u8>>;

impl Site {
    /// Paths of copied files, relative to the folder of the building file.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        let messages = self.messages.values().map(|message| message.file.as_path());
        let calendars = self.calendars().map(|(_, path)| path);
        let key = self.srtp_key_file.as_deref();
        messages.chain(calendars).chain(key).filter(|path| is_copied(path))
    }

    /// Calendars with their rules.
    fn calendars(&self) -> impl Iterator<Item = (&str, &Path)> {
        self.schedule.iter().flat_map(|(name, rule)| {
            let events = match &rule.times {
                RuleTimes::Calendar(path) => Some(path),
                _ => None,
            };
            let both = events.into_iter().chain(&rule.holidays);
            both.map(move |path| (name.as_str(), path.as_path()))
        })
    }

    /// Reads the files that belong to the building file in `folder`. Checks their hashes, and
    /// returns the messages that are not copied, too.
    pub(crate) fn read_files(&self, folder: &Path) -> Result<(Files, Vec<FileFault>), FileFault> {
        let (mut files, mut left) = (Files::new(), Vec::new());
        let messages = self.messages.iter().map(|(name, it)| (name.as_str(), &*it.file, it.sha256));
        let calendars = self.calendars().map(|(rule, path)| (rule, path, None));
        let key = self.srtp_key_file.as_deref().map(|path| ("srtp-key-file", path, None));
        for (name, path, sha256) in messages.chain(calendars).chain(key) {
            let path = path.to_owned();
            if !is_copied(&path) {
                left.push(FileFault::NotCopied { name: name.to_owned(), path });
                continue;
            }
            let bytes = read(name, folder.join(&path), sha256)?;
            if bytes.len() > MAX_PUSHED_FILE {
                return Err(FileFault::Large { path, bytes: bytes.len() });
            }
            files.insert(path, bytes);
        }
        Ok((files, left))
    }

    /// Path of a message's recording, if it exists with its hash. The building file is in `folder`.
    pub fn recording(&self, message: &str, folder: &Path) -> Result<PathBuf, FileFault> {
        let unknown = || FileFault::NoMessage(message.to_owned());
        let Message { file, sha256 } = self.messages.get(message).ok_or_else(unknown)?;
        let path = folder.join(file);
        match sha256 {
            Some(_) => drop(read(message, path.clone(), *sha256)?),
            None => {
                let found = std::fs::metadata(&path);
                let failed = |error| FileFault::Read { path: path.clone(), error };
                found.map_err(failed)?;
            }
        }
        Ok(path)
    }

    /// Path of the key to copy, if the key cannot be read here.
    pub fn faulty_key(&self, folder: &Path) -> Option<FileFault> {
        let path = self.srtp_key_file.as_deref().filter(|path| is_copied(path))?;
        let path = folder.join(path);
        let error = std::fs::File::open(&path).err()?;
        Some(FileFault::Read { path, error })
    }

    /// Recordings of messages that are missing or have another hash.
    pub fn faulty_recordings(&self, folder: &Path) -> Vec<FileFault> {
        let checked = self.messages.keys().map(|message| self.recording(message, folder));
        checked.filter_map(Result::err).collect()
    }
}

/// Reads a file that has this hash.
fn read(name: &str, path: PathBuf, sha256: Option<[u8; 32]>) -> Result<Vec<u8>, FileFault> {
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) => return Err(FileFault::Read { path, error }),
    };
    let found = digest(&SHA256, &bytes);
    if sha256.is_some_and(|expected| expected != found.as_ref()) {
        let (message, found) = (name.to_owned(), hex(found.as_ref()));
        return Err(FileFault::Hash { message, path, found });
    }
    Ok(bytes)
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

/// Whether only the user of the node may read the file.
pub(crate) fn is_private(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case(KEY))
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex(digest(&SHA256, bytes).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
