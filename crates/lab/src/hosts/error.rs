use tautline_io::udp::PORT_HELD;
use tautline_ui::failure::Failure;
use thiserror::Error;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HostError {
    #[error("cannot start an agent at {place}: {why}")]
    NotStarted { place: String, why: String },
    #[error(
        "the agent at {place} is taut {there}, but this is taut {here}\nhint: install the same version \
         on both"
    )]
    OtherVersion { place: String, there: String, here: &'static str },
    #[error("the agent at {place} ended: {why}")]
    Ended { place: String, why: String },
    #[error("the agent at {place} has not answered for {} s\nhint: check that the machine runs and is reachable", .seconds)]
    Silent { place: String, seconds: u64 },
    #[error("stopped while waiting for the agent at {place}; its results are lost")]
    Interrupted { place: String },
    #[error("{place}: {why}")]
    Refused { place: String, why: String },
}

impl HostError {
    pub(crate) fn is_held_port(&self) -> bool {
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
