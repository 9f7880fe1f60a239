//! What the machines count.

/// What was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OutboundCounters {
    /// Iterations handed out.
    pub blocks: u64,
    /// Datagrams of any kind.
    pub datagrams: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// Iterations that left once more beside later ones.
    pub copies: u64,
    /// Iterations that left once more since they were asked for.
    pub replays: u64,
    /// Times that blocks were asked for.
    pub asked: u64,
    /// Times that what was asked for was kept no more.
    pub gone: u64,
}

/// What came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InboundCounters {
    /// Datagrams of any kind.
    pub datagrams: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// Iterations that are complete.
    pub blocks: u64,
    /// Iterations that came complete after one with a higher number.
    pub reordered: u64,
    /// Datagrams that had come before.
    pub duplicates: u64,
    /// Datagrams of blocks whose turn was over.
    pub late: u64,
    /// Datagrams of an epoch that is over, or has not begun.
    pub old: u64,
    /// Datagrams of blocks that there is no room for yet; they are asked for again.
    pub early: u64,
    /// Datagrams of other streams.
    pub foreign: u64,
    /// Datagrams that break the form, or what was agreed.
    pub invalid: u64,
    /// Times that blocks were asked for.
    pub asks: u64,
    /// Blocks that never came and are kept no more, from the first of an epoch that ran on.
    pub gone: u64,
    /// Epochs that began.
    pub epochs: u64,
}
