//! Programs of `taut` that run at a host for a call.

use crate::hosts::{HostError, LabHost};

/// A `taut` that was started at a host, and what it is called in complaints.
#[derive(Clone, Copy)]
pub(super) struct StartedTaut {
    pub(super) child: u32,
    pub(super) role: &'static str,
}

/// Starts a `taut` of these words.
pub(super) fn start(
    host: &mut LabHost,
    words: &[String],
    role: &'static str,
) -> Result<StartedTaut, HostError> {
    Ok(StartedTaut { child: host.start(words, &[])?, role })
}
