//! Counters of both machines.

/// Counters of the sending side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OutboundCounters {
    /// Iterations sent.
    pub blocks: u64,
    /// Datagrams of any kind.
    pub datagrams: u64,
    /// Bytes in these datagrams.
    pub bytes: u64,
    /// Iterations sent again as copies along with later ones.
    pub copies: u64,
    /// Iterations sent again on request.
    pub replays: u64,
    /// Requests received.
    pub asked: u64,
    /// Requests for blocks no longer kept.
    pub gone: u64,
}

/// Counters of the receiving side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InboundCounters {
    /// Datagrams of any kind.
    pub datagrams: u64,
    /// Bytes in these datagrams.
    pub bytes: u64,
    /// Completed iterations.
    pub blocks: u64,
    /// Iterations completed after one with a higher number.
    pub reordered: u64,
    /// Duplicate datagrams.
    pub duplicates: u64,
    /// Datagrams of blocks whose turn is over.
    pub late: u64,
    /// Datagrams of an epoch that ended or has not begun.
    pub old: u64,
    /// Datagrams of blocks without room yet; requested again later.
    pub early: u64,
    /// Datagrams of other streams.
    pub foreign: u64,
    /// Datagrams with invalid format, or against the agreement.
    pub invalid: u64,
    /// Requests sent.
    pub asks: u64,
    /// Blocks never received and no longer kept, counted from the first block run in an epoch.
    pub gone: u64,
    /// Epochs begun.
    pub epochs: u64,
}
