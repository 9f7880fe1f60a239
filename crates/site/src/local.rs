//! `local.toml`, a file of a node that no other machine can read or change: programs that write
//! sound to standard output, and contacts.
//!
//! The building file names the programs as sources.

mod program;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use tautline_api::trust::usual_folder;
use tautline_proto::text::parse_span;
use tautline_proto::time::Span;
use tautline_proto::units::Rate;

pub(crate) use self::program::LocalProgram;
use crate::contact::ContactTable;

/// Name of the file with the commands of a node.
const FILE_NAME: &str = "local.toml";
/// Its folder for all users.
const SYSTEM_FOLDER: &str = "/etc/tautline";
/// Silence after which a program has stalled.
const TIMEOUT: Span = Span::from_secs(10);

/// Why a source of a program is not sent, or contacts are not watched. Each text has a hint, except
/// the text of a program's error.
#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    /// The file cannot be read.
    #[error(
        "reading {path}: {why}\nhint: write [source.NAME] with exec = \"COMMAND\", or [contact.NAME] with chip and line"
    )]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Reason.
        why: String,
    },
    /// The file has no such source.
    #[error("{path} has no source {name:?}\nhint: add [source.{name}] with exec = \"COMMAND\"")]
    NoSource {
        /// The file.
        path: PathBuf,
        /// Name.
        name: String,
    },
    /// A value in the file is invalid.
    #[error("invalid `{key}` of source {name:?} in {path}\nhint: write {write}")]
    Value {
        /// The file.
        path: PathBuf,
        /// Source.
        name: String,
        /// Key.
        key: &'static str,
        /// Valid values.
        write: &'static str,
    },
    /// A contact of the file is invalid.
    #[error("contact {name:?} in {path}: missing or invalid `{key}`\nhint: write {write}")]
    Contact {
        /// The file.
        path: PathBuf,
        /// Contact.
        name: String,
        /// Key.
        key: &'static str,
        /// Valid values.
        write: &'static str,
    },
    /// The program cannot be started.
    #[error("starting '{0}': {1}\nhint: retry")]
    NotStarted(String, std::io::Error),
    /// The program ended.
    #[error("'{command}' ended: {how}")]
    Ended {
        /// Command.
        command: String,
        /// Exit status and the last line of standard error.
        how: String,
    },
    /// The program writes nothing.
    #[error("'{command}' wrote no sound for {time}")]
    Stalled {
        /// Command.
        command: String,
        /// Time.
        time: Span,
    },
    /// Its output is not sound.
    #[error(
        "the output of '{command}' is not valid: {why}\nhint: write WAV, or set format, rate and channels"
    )]
    NotSound {
        /// Command.
        command: String,
        /// Reason.
        why: String,
    },
}

/// A program of this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LocalSource {
    /// Command for the shell.
    pub(crate) command: String,
    /// Format of its output; `None` for WAV or FLAC.
    pub(crate) raw: Option<RawSound>,
    /// Maximum time without sound.
    pub(crate) timeout: Option<Span>,
}

/// Samples without a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RawSound {
    pub(crate) format: RawFormat,
    pub(crate) hertz: u32,
    pub(crate) channels: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RawFormat {
    S16le,
    S24le,
    S32le,
    F32le,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LocalFile {
    #[serde(default)]
    source: BTreeMap<String, LocalTable>,
    #[serde(default)]
    pub(crate) contact: BTreeMap<String, ContactTable>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct LocalTable {
    exec: String,
    format: Option<RawFormat>,
    rate: Option<u32>,
    channels: Option<u16>,
    timeout: Option<String>,
}

impl LocalFile {
    /// Path of the file, which need not exist.
    pub(crate) fn path() -> PathBuf {
        let own = usual_folder().ok().map(|folder| folder.join(FILE_NAME));
        let own = own.filter(|path| path.exists());
        own.unwrap_or_else(|| Path::new(SYSTEM_FOLDER).join(FILE_NAME))
    }

    pub(crate) fn load(path: &Path) -> Result<Self, LocalError> {
        let text = std::fs::read_to_string(path).map_err(|error| LocalError::Unreadable {
            path: path.to_owned(),
            why: error.to_string(),
        })?;
        Self::parse(path, &text)
    }

    pub(crate) fn parse(path: &Path, text: &str) -> Result<Self, LocalError> {
        toml::from_str(text).map_err(|error: toml::de::Error| {
            let line = error.span().and_then(|span| text.get(..span.start));
            let line = line.map_or(String::new(), |before| {
                format!("line {}: ", 1 + before.matches('\n').count())
            });
            let why = line + error.message();
            LocalError::Unreadable { path: path.to_owned(), why }
        })
    }
}

impl LocalSource {
    /// Reads the source `name` of this node. Raw sound has `rate` and two channels by default.
    pub(crate) fn find(name: &str, rate: Rate) -> Result<Self, LocalError> {
        let path = LocalFile::path();
        Self::read(&path, LocalFile::load(&path)?, name, rate)
    }

    fn read(path: &Path, file: LocalFile, name: &str, rate: Rate) -> Result<Self, LocalError> {
        let table = file
            .source
            .get(name)
            .cloned()
            .ok_or_else(|| LocalError::NoSource { path: path.to_owned(), name: name.to_owned() })?;
        let invalid = |key, write| {
            let (path, name) = (path.to_owned(), name.to_owned());
            LocalError::Value { path, name, key, write }
        };
        let LocalTable { exec, format, rate: hertz, channels, timeout } = table;
        if format.is_none() && (hertz.is_some() || channels.is_some()) {
            return Err(invalid("format", "one of s16le, s24le, s32le and f32le"));
        }
        let channels = channels.unwrap_or(2);
        if !(1..=2).contains(&channels) {
            return Err(invalid("channels", "1 or 2"));
        }
        let hertz = hertz.unwrap_or(rate.hertz());
        let timeout = match timeout.as_deref() {
            None => Some(TIMEOUT),
            Some("never") => None,
            Some(text) => {
                let span = parse_span(text).ok().filter(|span| *span > Span::ZERO);
                let write = "a time, such as \"10s\", or \"never\"";
                Some(span.ok_or_else(|| invalid("timeout", write))?)
            }
        };
        let raw = format.map(|format| RawSound { format, hertz, channels });
        Ok(Self { command: exec, raw, timeout })
    }
}

impl RawSound {
    /// WAV header of sound without an end (EBU Tech 3285 §2).
    pub(crate) fn header(self) -> Vec<u8> {
        const PCM: u16 = 1;
        const FLOAT: u16 = 3;
        let (tag, bytes): (_, u16) = match self.format {
            RawFormat::S16le => (PCM, 2),
            RawFormat::S24le => (PCM, 3),
            RawFormat::S32le => (PCM, 4),
            RawFormat::F32le => (FLOAT, 4),
        };
        let block = bytes * self.channels;
        let mut header = b"RIFF\xff\xff\xff\xffWAVEfmt \x10\0\0\0".to_vec();
        header.extend([tag, self.channels].map(u16::to_le_bytes).as_flattened());
        let rates = [self.hertz, self.hertz.saturating_mul(block.into())];
        header.extend(rates.map(u32::to_le_bytes).as_flattened());
        header.extend([block, 8 * bytes].map(u16::to_le_bytes).as_flattened());
        header.extend(b"data\xff\xff\xff\xff");
        header
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<LocalSource, LocalError> {
        let path = Path::new("local.toml");
        LocalSource::read(path, LocalFile::parse(path, text)?, "radio", Rate::HZ_48000)
    }

    #[test]
    fn program_has_its_command_and_the_format_of_its_output() {
        let source = read("[source.radio]\nexec = \"cat a.wav\"\n").unwrap();
        let wav = LocalSource { command: "cat a.wav".into(), raw: None, timeout: Some(TIMEOUT) };
        assert_eq!(source, wav);
        let source = read(
            "[source.other]\nexec = \"b\"\n[source.radio]\nexec = \"a\"\nformat = \"s16le\"\n\
             rate = 44100\nchannels = 1\ntimeout = \"never\"\n",
        );
        let raw = RawSound { format: RawFormat::S16le, hertz: 44_100, channels: 1 };
        let expected = LocalSource { command: "a".into(), raw: Some(raw), timeout: None };
        assert_eq!(source.unwrap(), expected);
        let source = read("[source.radio]\nexec = \"a\"\nformat = \"f32le\"\ntimeout = \"2s\"\n");
        let LocalSource { raw, timeout, .. } = source.unwrap();
        let default = RawSound { format: RawFormat::F32le, hertz: 48_000, channels: 2 };
        assert_eq!((raw, timeout), (Some(default), Some(Span::from_secs(2))));
    }

    #[test]
    fn invalid_value_is_named() {
        for (value, expected) in [
            ("rate = 44100", "format"),
            ("channels = 2", "format"),
            ("format = \"s16le\"\nchannels = 3", "channels"),
            ("timeout = \"0s\"", "timeout"),
            ("timeout = \"soon\"", "timeout"),
        ] {
            let error = read(&format!("[source.radio]\nexec = \"a\"\n{value}\n")).unwrap_err();
            let LocalError::Value { key, .. } = error else { panic!("{value}: {error}") };
            assert_eq!(key, expected, "{value}");
        }
        assert!(matches!(read("[source.tv]\nexec = \"a\"\n"), Err(LocalError::NoSource { .. })));
        let error = read("\n[source.radio]\nexec = \"a\"\nformat = \"mp3\"\n").unwrap_err();
        let LocalError::Unreadable { why, .. } = error else { panic!("{error}") };
        assert!(why.starts_with("line 4: "), "{why}");
    }

    #[test]
    fn header_describes_raw_sound() {
        let raw = RawSound { format: RawFormat::S24le, hertz: 44_100, channels: 2 };
        let header = raw.header();
        assert_eq!(header.len(), 44);
        let number = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().unwrap());
        assert_eq!((number(24), number(28)), (44_100, 44_100 * 6));
        assert_eq!(header[20..24], [1, 0, 2, 0]);
        assert_eq!(header[32..36], [6, 0, 24, 0]);
        let float = RawSound { format: RawFormat::F32le, ..raw }.header();
        assert_eq!((float[20], float[34]), (3, 32));
    }
}
