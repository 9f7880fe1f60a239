//! Errors of nodes and stations.

use tautline_api::trust::TrustError;
use tautline_engine::error::RunError;
use tautline_engine::plan::address::AddressError;
use tautline_engine::plan::pacing::PacingRefused;
use tautline_io::link::OpenError;
use tautline_proto::device::DeviceError;

use crate::local::LocalError;
use crate::place::NotHere;

/// Error that prevents or ends the run of a node or an announcement. Its text has a hint.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This machine does not belong to the building.
    #[error(transparent)]
    NotHere(#[from] NotHere),
    /// The device cannot be opened.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The network address cannot be used.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The socket cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The packets cannot be paced as required.
    #[error(transparent)]
    Pacing(#[from] PacingRefused),
    /// The key cannot be read.
    #[error(transparent)]
    Key(#[from] TrustError),
    /// The program of a source does not deliver sound.
    #[error(transparent)]
    Local(#[from] LocalError),
    /// The input of a source ended.
    #[error("{0}")]
    Ended(String),
    /// The run failed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The building file does not permit the request.
    #[error("{0}")]
    Usage(String),
}
