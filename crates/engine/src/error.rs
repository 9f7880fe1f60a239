//! Why a run could not begin, or failed.

use std::io;
use std::path::PathBuf;

use tautline_proto::device::DeviceError;

/// A run that could not begin, or that failed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The device went and did not come back.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The ledger could not be begun.
    #[error(
        "writing {}: {error}; name a file in a folder that is there and that you may write in",
        path.display()
    )]
    Ledger {
        /// Where it was to be.
        path: PathBuf,
        /// What the system answered.
        error: io::Error,
    },
    /// The system refused something else.
    #[error("{0}: {1}; end other programs or raise the limits of this user (ulimit -a)")]
    System(&'static str, io::Error),
}
