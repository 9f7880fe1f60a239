//! What a clerk asks of its worker.

use tautline_api::v1::StreamRequest;
use tautline_engine::offload::offloaded::Far;
use tautline_engine::offload::sound_set::SoundSet;

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
    /// It is there and does not answer in time.
    Unknown,
    /// It is not there.
    Away(String),
}

/// A worker, as a clerk asks it. Each call ends by itself.
pub(crate) trait WorkerCalls: Send {
    fn open(&mut self, request: &StreamRequest, set: SoundSet) -> Opening;
    fn look(&mut self, id: u32) -> Alive;
    fn close(&mut self, id: u32);
}
