//! Who answers.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::catalogue::{Catalogue, shown};
use super::stream::{StreamRequest, WorkStream, WorkStreamState};

/// What a worker does behind its HTTP. Calls may block for as long as a process takes to start, and come on
/// several threads at once.
pub trait Workshop: Send + Sync {
    /// Every plugin that is offered.
    fn catalogue(&self) -> Catalogue;

    /// What is taken and what is left.
    fn capacity(&self) -> Capacity;

    /// Opens a stream. Its datagrams are sealed by what `seal::keys` makes of `secret`;
    /// `None` only where the request asked for cleartext and came by the loopback interface: then the UDP
    /// socket is to be bound to it. `salt` and `key` of the answer are left empty.
    fn open(
        &self,
        request: StreamRequest,
        secret: Option<[u8; 32]>,
    ) -> Result<WorkStream, WorkRefused>;

    /// How all streams stand.
    fn streams(&self) -> Vec<WorkStreamState>;

    /// How one stands, if it is there.
    fn stream(&self, id: u32) -> Option<WorkStreamState>;

    /// Ends one; whether it was there.
    fn close(&self, id: u32) -> bool;
}

/// Bytes of iterations that a worker keeps for one stream at most, both ways together.
pub const MOST_KEPT_BYTES: usize = 128 << 20;

/// Why a worker opens no stream. Each is a sentence that ends with the mend.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WorkRefused {
    /// 404: nothing has this name.
    #[error(
        "no plugin {0:?} is offered here: keep what there is now by taut plugins --worker HOST --save"
    )]
    NoSuchPlugin(String),
    /// 410: it was offered, and its library is not there any more, or another.
    #[error("the plugin {id:?} {what}")]
    PluginGone {
        /// Of the plugin.
        id: String,
        /// "has gone" or "is another", and the mend.
        what: String,
    },
    /// 503: what is promised already leaves too little. The sentence says what of.
    #[error("{0}")]
    Overloaded(String),
    /// 422: it cannot be meant so. The sentence says what.
    #[error("{0}")]
    BadRequest(String),
    /// 500: it should have gone. The sentence says what was tried and what was answered.
    #[error("{0}")]
    Failed(String),
}

impl WorkRefused {
    /// The status by which HTTP says it.
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

/// The body of every answer that is no success.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusalAnswer {
    /// One sentence that ends with the mend.
    #[serde(deserialize_with = "shown")]
    pub error: String,
}

/// `GET /v1/capacity`: what a worker can take, and what it has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Capacity {
    /// Cores that plugins run on.
    pub cores: u32,
    /// Of each core: the share of its time that is promised to streams, 0 to 1.
    pub used_share: Vec<f64>,
    /// The share up to which a core takes streams.
    pub most_share: f64,
    /// Streams that are open.
    pub streams: u32,
    /// Streams that may be.
    pub most_streams: u32,
}
