//! A program at a host, to its end.

use std::time::Duration;

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

    /// Why a program that ended did not do what it was for, in its own words if it had any.
    pub(crate) fn failed(&self, role: &str, ended: ChildEnded) -> HostError {
        let status =
            ended.status.map_or("a signal".to_owned(), |status| format!("status {status}"));
        let why = ended.complaint.unwrap_or(format!("it ended with {status}"));
        self.refused(&format!("taut {role}: {}", why.trim_start_matches("taut: ")))
    }
}
