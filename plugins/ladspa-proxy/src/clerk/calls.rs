//! What a clerk asks of its worker.

use tautline_api::v1::StreamRequest;
use tautline_engine::offload::far::Far;
use tautline_engine::offload::offloaded::OffloadedConfig;

/// What came of asking for a stream.
pub(crate) enum Opening {
    Opened { id: u32, far: Box<Far> },
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
    /// It is there and does not answer in time.
    Unknown,
    /// It is not there.
    Away(String),
}

/// A worker, as a clerk asks it. Each call ends by itself.
pub(crate) trait Calls: Send {
    fn open(&mut self, request: &StreamRequest, config: &OffloadedConfig) -> Opening;
    fn look(&mut self, id: u32) -> Alive;
    fn close(&mut self, id: u32);
}
