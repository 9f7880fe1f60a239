//! The server side of the API.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::catalogue::{Catalogue, shown};
use super::stream::{StreamRequest, WorkStream, WorkStreamState};

/// Calls may block, and arrive on several threads.
pub trait Workshop: Send + Sync {
    /// All offered plugins.
    fn catalogue(&self) -> Catalogue;

    /// Used and free capacity.
    fn capacity(&self) -> Capacity;

    /// `seal::keys` derives the keys from `secret`. `None` only for cleartext via the loopback
    /// interface, to which the socket must be bound. Leaves `salt` and `key` of the response empty.
    fn open(
        &self,
        request: StreamRequest,
        secret: Option<[u8; 32]>,
    ) -> Result<WorkStream, WorkRefused>;

    /// State of all streams.
    fn streams(&self) -> Vec<WorkStreamState>;

    /// State of one stream, if it exists.
    fn stream(&self, id: u32) -> Option<WorkStreamState>;

    /// Closes a stream; returns whether it existed.
    fn close(&self, id: u32) -> bool;
}

/// Maximum bytes of iterations kept per stream.
pub const MAX_KEPT_BYTES: usize = 128 << 20;

/// Why a worker refuses a stream, each with its fix.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WorkRefused {
    /// 404: unknown plugin.
    #[error("unknown plugin {0:?}; update the saved list with taut plugins --worker HOST --save")]
    NoSuchPlugin(String),
    /// 410: the plugin's library has changed.
    #[error("the plugin {id:?} {what}")]
    PluginGone {
        /// Id of the plugin.
        id: String,
        /// What happened to it, and how to fix that.
        what: String,
    },
    /// 503: too little capacity is left.
    #[error("{0}")]
    Overloaded(String),
    /// 422: an invalid request.
    #[error("{0}")]
    BadRequest(String),
    /// 500: an internal failure.
    #[error("{0}")]
    Failed(String),
}

impl WorkRefused {
    /// HTTP status of the error.
    pub const fn status(&self) -> u16 {
        match self {
            Self::NoSuchPlugin(_) => 404,
            Self::PluginGone { .. } => 410,
            Self::Overloaded(_) => 503,
            Self::BadRequest(_) => 422,
            Self::Failed(_) => 500,
        }
    }
}

/// Body of every error response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusalAnswer {
    /// Error message, with its fix.
    #[serde(deserialize_with = "shown")]
    pub error: String,
}

/// `GET /v1/capacity`: used and total capacity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Capacity {
    /// Cores for plugins.
    pub cores: u32,
    /// Reserved share per core, 0 to 1.
    pub used_share: Vec<f64>,
    /// Maximum reserved share of a core.
    pub max_share: f64,
    /// Open streams.
    pub streams: u32,
    /// Maximum number of streams.
    pub max_streams: u32,
}
