//! Building files that a trusted machine copies to a node.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Maximum bytes of a pushed recording or calendar.
pub const MAX_PUSHED_FILE: usize = 64 << 20;

/// A building file for a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SitePush {
    /// Text of the building file.
    pub text: String,
    /// SHA-256, in hexadecimal, of the files next to it, by their path.
    pub files: BTreeMap<String, String>,
}

/// Answer to a [`SitePush`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SitePushed {
    /// Epoch that the node has now.
    pub epoch: u64,
    /// SHA-256 of the files that the node lacks. Unless empty, the node has changed nothing: send
    /// these files and push again.
    pub missing: Vec<String>,
}

/// Why a node refuses a push, each with its fix. The node keeps the file it has.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PushRefused {
    /// 409: the node has a newer file.
    #[error("epoch {given} is lower than epoch {has} of the node; write epoch = {next}", next = has.saturating_add(1))]
    LowerEpoch {
        /// Epoch of the node.
        has: u64,
        /// Epoch of the push.
        given: u64,
    },
    /// 409: the node has another file of this epoch.
    #[error("the node has another building file of epoch {epoch}; write epoch = {next}", next = epoch.saturating_add(1))]
    OtherFile {
        /// Epoch of both.
        epoch: u64,
    },
    /// 422: the file has mistakes, or does not fit the node.
    #[error("{0}")]
    Invalid(String),
    /// 422: a path that is not distributed.
    #[error(
        "{0:?} is not copied: only .wav, .flac and .ics files that the building file names, below its folder, are"
    )]
    Path(String),
    /// 409: a file that no push lacks.
    #[error("no push lacks a file with SHA-256 {0:?}; push the building file first")]
    Unrequested(String),
    /// 422: a file with another hash.
    #[error("the file does not have SHA-256 {0}; send it again")]
    Hash(String),
    /// 500: the node cannot store it.
    #[error("{path}: {error}; check the space and permissions on the node")]
    Storage {
        /// Path on the node.
        path: String,
        /// Error message of the system.
        error: String,
    },
}

impl PushRefused {
    /// HTTP status of the error.
    pub const fn status(&self) -> u16 {
        match self {
            Self::LowerEpoch { .. } | Self::OtherFile { .. } | Self::Unrequested(_) => 409,
            Self::Invalid(_) | Self::Path(_) | Self::Hash(_) => 422,
            Self::Storage { .. } => 500,
        }
    }
}
