//! What a clerk asks of its worker.

use tautline_api::v1::StreamRequest;
use tautline_engine::offload::offloaded::Far;

/// What is to be opened: a plugin at a worker, or several of which each feeds the next.
#[derive(Debug, Clone)]
pub(crate) struct StreamOrder {
    pub(crate) request: StreamRequest,
    /// What the plugin has, as the catalogue says: inputs, outputs, controls and told controls.
    pub(crate) ports: [usize; 4],
    /// Those that it feeds, in their order.
    pub(crate) behind: Vec<OrderBehind>,
}

/// One of those that are fed.
#[derive(Debug, Clone)]
pub(crate) struct OrderBehind {
    pub(crate) address: String,
    pub(crate) request: StreamRequest,
    pub(crate) ports: [usize; 4],
}

/// What came of asking for a stream.
pub(crate) enum Opening {
    Opened {
        id: u32,
        far: Far,
    },
    /// The worker is there and has a reason.
    Refused(String),
    /// It is not there, or does not answer.
    Away(String),
}

/// What came of asking after a stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Alive {
    Yes,
    /// The worker knows nothing of it.
    No,
    /// The worker gave it up, and why.
    GivenUp(String),
    /// It is there and does not answer in time.
    Unknown,
    /// It is not there.
    Away(String),
}

/// A worker, as a clerk asks it. Each call ends by itself.
pub(crate) trait WorkerCalls: Send {
    fn open(&mut self, order: &StreamOrder) -> Opening;
    fn look(&mut self, id: u32) -> Alive;
    fn close(&mut self, id: u32);
}
