//! Errors that prevent or end a run.

use std::io;
use std::path::PathBuf;

use tautline_proto::device::DeviceError;

/// Error that prevents or ends a run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The device failed and did not recover.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The ledger file cannot be created.
    #[error(
        "writing {}: {error}\nhint: name a file in an existing folder that you can write to",
        path.display()
    )]
    Ledger {
        /// Path of the ledger file.
        path: PathBuf,
        /// Error of the system call.
        error: io::Error,
    },
    /// Another system call failed.
    #[error("{0}: {1}\nhint: end other programs or raise the limits of this user (ulimit -a)")]
    System(&'static str, io::Error),
}
