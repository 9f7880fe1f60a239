//! Errors of a run.

use std::io;
use std::path::PathBuf;

use tautline_proto::device::DeviceError;

use crate::plan::zone::InvalidTargets;

/// Error that prevents or ends a run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The device failed and did not recover.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Cannot create the ledger.
    #[error(
        "writing {}: {error}\nhint: name a file in an existing folder that you can write to",
        path.display()
    )]
    Ledger {
        /// Path of the ledger.
        path: PathBuf,
        /// System error.
        error: io::Error,
    },
    /// Invalid targets of an announcement.
    #[error(transparent)]
    Targets(#[from] InvalidTargets),
    /// Other system error.
    #[error("{0}: {1}\nhint: end other programs or raise the limits of this user (ulimit -a)")]
    System(&'static str, io::Error),
}
