//! Why a host cannot be used.

use tautline_io::udp::PORT_HELD;
use tautline_ui::failure::Failure;
use thiserror::Error;

/// Why a host cannot be used, or not any more.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HostError {
    /// Its agent could not be started.
    #[error("starting an agent at {place}: {why}")]
    NotStarted {
        place: String,
        /// and why, with the mend.
        why: String,
    },
    /// It is of another version, whose words may mean something else.
    #[error(
        "the agent at {place} is taut {there} and this is taut {here}; install the same at both"
    )]
    OtherVersion {
        place: String,
        there: String,
        /// and what runs here.
        here: &'static str,
    },
    #[error("the agent at {place} ended: {why}")]
    Ended {
        place: String,
        /// and what it said last.
        why: String,
    },
    /// It does not answer.
    #[error("the agent at {place} has not answered for {} s; is the machine still there?", .seconds)]
    Silent {
        place: String,
        /// and for how long.
        seconds: u64,
    },
    /// Somebody asked to end while it was waited for.
    #[error(
        "the agent at {place} was waited for no longer, as you ended this; what it had is not measured"
    )]
    Interrupted { place: String },
    /// It cannot do what was asked.
    #[error("{place}: {why}")]
    Refused {
        place: String,
        /// and why, with the mend.
        why: String,
    },
}

impl HostError {
    /// Whether a program there could not have a UDP port that was free when it was chosen for it.
    pub(crate) fn tells_of_a_held_port(&self) -> bool {
        matches!(self, Self::Refused { why, .. } if why.contains(PORT_HELD))
    }
}

impl From<HostError> for Failure {
    fn from(error: HostError) -> Self {
        match error {
            HostError::Interrupted { .. } => Self::running(error.to_string()),
            _ => Self::open(error.to_string()),
        }
    }
}
