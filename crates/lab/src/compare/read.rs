//! Reports as they are read again: what is compared of them, and nothing else, so that older and newer ones
//! are read alike.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::statistics::Missed;

/// Why a report cannot be read; ends with the mend.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Not a file that can be read.
    #[error("reading {}: {error}; check the path", path.display())]
    System {
        /// Where it was to be.
        path: PathBuf,
        /// What the system answered.
        error: std::io::Error,
    },
    /// Something else.
    #[error(
        "{} is no report of taut lab: {error}; write one with --report-file X.json", path.display()
    )]
    Other {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        error: serde_json::Error,
    },
}

/// A report.
#[derive(Debug, Clone, Deserialize)]
pub struct ReadReport {
    pub(super) experiment: String,
    pub(super) rows: Vec<ReadRow>,
}

/// One row of it.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct ReadRow {
    pub(super) name: String,
    pub(super) void: Option<String>,
    pub(super) configured_ns: Option<i64>,
    pub(super) uncertainty_ns: Option<i64>,
    pub(super) missed: Option<Missed>,
    #[serde(default)]
    pub(super) intervals: Vec<ReadInterval>,
}

/// One second of it.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(super) struct ReadInterval {
    pub(super) p50_ns: i64,
    pub(super) p99_ns: Option<i64>,
}

impl ReadRow {
    /// Whether there is anything in it that another could be held against.
    pub(super) fn is_comparable(&self) -> bool {
        self.void.is_none() && (!self.intervals.is_empty() || self.missed.is_some())
    }
}

impl ReadReport {
    /// Reads a report from a file.
    pub fn read(path: &Path) -> Result<Self, ReadError> {
        let named = || path.to_owned();
        let text = std::fs::read_to_string(path)
            .map_err(|error| ReadError::System { path: named(), error })?;
        Self::of(&text).map_err(|error| ReadError::Other { path: named(), error })
    }

    /// Reads a report from its text.
    pub fn of(json: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(json)
    }
}
