//! How much of a worker is taken.

use serde::{Deserialize, Serialize};

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
