//! Counters.

/// Sending side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OutboundCounters {
    /// Iterations sent.
    pub blocks: u64,
    /// Datagrams of any kind.
    pub datagrams: u64,
    /// Bytes of these datagrams.
    pub bytes: u64,
    /// Iterations repeated along with later iterations.
    pub copies: u64,
    /// Iterations repeated on request.
    pub replays: u64,
    /// Requests received.
    pub requested: u64,
    /// Requests for blocks no longer kept.
    pub gone: u64,
}

/// Receiving side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InboundCounters {
    /// Datagrams of any kind.
    pub datagrams: u64,
    /// Bytes of these datagrams.
    pub bytes: u64,
    /// Completed iterations.
    pub blocks: u64,
    /// Iterations completed after a later iteration.
    pub reordered: u64,
    /// Duplicate datagrams.
    pub duplicates: u64,
    /// Datagrams after the turn of their block.
    pub late: u64,
    /// Datagrams of other epochs.
    pub old: u64,
    /// Datagrams without room yet; requested again.
    pub early: u64,
    /// Datagrams of other streams.
    pub foreign: u64,
    /// Invalid datagrams.
    pub invalid: u64,
    /// Requests sent.
    pub requests: u64,
    /// Missing blocks that are no longer kept.
    pub gone: u64,
    /// Epochs begun.
    pub epochs: u64,
}
