//! Context of a policy call.

use crate::rtcp_session::Session;
use crate::time::LocalTime;

/// Time, RTCP session and commands. `C` is the command type.
pub struct Context<'a, C> {
    /// Time on the local clock.
    pub now: LocalTime,
    /// RTCP session, if any.
    pub session: Option<&'a mut Session>,
    /// Sends a command to the device thread. Returns `false` without room; the policy retries or
    /// rejects.
    pub command: &'a mut dyn FnMut(C) -> bool,
}

impl<C> Context<'_, C> {
    pub(crate) fn hasten(&mut self) {
        if let Some(session) = &mut self.session {
            session.hasten();
        }
    }
}

/// Without duplicates. A peer may cause any number, so the caller must limit output.
#[derive(Debug, Clone)]
pub(crate) struct NoteQueue<N>(Vec<N>);

impl<N: PartialEq> NoteQueue<N> {
    const MAX: usize = 64;

    pub(crate) fn note(&mut self, note: N) {
        if self.0.len() < Self::MAX && !self.0.contains(&note) {
            self.0.push(note);
        }
    }

    pub(crate) fn take(&mut self) -> Vec<N> {
        core::mem::take(&mut self.0)
    }
}

impl<N> Default for NoteQueue<N> {
    fn default() -> Self {
        Self(Vec::new())
    }
}
