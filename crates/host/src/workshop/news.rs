//! What becomes of a worker's streams, for whoever wants to say it.

use std::sync::Arc;

use tautline_api::v1::WorkStreamState;

/// What became of a stream. It is told by ordinary threads: plugins run in processes of their own.
#[derive(Debug, Clone, PartialEq)]
pub enum WorkNews {
    /// Its process died, or hung and was ended; its state says why. Another one is begun.
    BegunAnew(WorkStreamState),
    /// So many processes in a row were no good that no other is begun.
    GivenUp(WorkStreamState),
    /// It is over, and its state has all that it counted.
    Ended(WorkStreamState, StreamOver),
}

/// Why a stream is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamOver {
    /// Whoever may ask here asked for it.
    Closed,
    /// Nothing had come for long, and another stream found no room.
    MadeRoom,
    WorkerEnds,
}

/// Takes news. It is called while a stream waits for its next process, so it should be quick.
pub(super) type TellWork = Arc<dyn Fn(&WorkNews) + Send + Sync>;
