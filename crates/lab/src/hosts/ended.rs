//! A program at a host, to its end.

use std::time::Duration;

use serde::de::DeserializeOwned;

use super::{ChildEnded, ChildState, HostError, LabHost};

/// One that is told to end writes what it knows, and has ended by then.
const ENDING: Duration = Duration::from_secs(20);

impl LabHost {
    /// Waits until a program has ended; one that takes longer is told to, or it would go on beside the next.
    pub(crate) fn end_of(
        &mut self,
        child: u32,
        role: &str,
        most: Duration,
    ) -> Result<ChildEnded, HostError> {
        match self.wait(child, most)? {
            ChildState::Ended(ended) => Ok(ended),
            ChildState::Running => {
                self.interrupt(child)?;
                self.wait(child, ENDING)?;
                Err(self.refused(&format!("taut {role} did not end in time")))
            }
        }
    }

    /// Ends a program that runs until it is asked to end, and hands back what it says then.
    pub(crate) fn said_by<T: DeserializeOwned>(
        &mut self,
        child: u32,
        role: &str,
        most: Duration,
    ) -> Result<T, HostError> {
        self.interrupt(child)?;
        let ended = match self.wait(child, most)? {
            ChildState::Ended(ended) => ended,
            ChildState::Running => {
                return Err(self.refused(&format!("taut {role} did not end when asked")));
            }
        };
        serde_json::from_str(&ended.printed).map_err(|error| match ended {
            ChildEnded { status: Some(0), complaint: None, .. } => {
                self.refused(&format!("taut {role}: what it said cannot be read: {error}"))
            }
            ended => self.failed(role, ended),
        })
    }

    /// Why a program that ended did not do what it was for, in its own words if it had any.
    pub(crate) fn failed(&self, role: &str, ended: ChildEnded) -> HostError {
        let status =
            ended.status.map_or("a signal".to_owned(), |status| format!("status {status}"));
        let why = ended.complaint.unwrap_or(format!("it ended with {status}"));
        self.refused(&format!("taut {role}: {}", why.trim_start_matches("taut: ")))
    }
}
