//! Context of a policy call: time, RTCP session, and commands to the device thread.

use crate::rtcp_session::Session;
use crate::time::LocalTime;

/// Context of one call. `C` is the type of the commands.
pub struct Context<'a, C> {
    /// Time on this host's clock.
    pub now: LocalTime,
    /// RTCP session, if the wire form has one.
    pub session: Option<&'a mut Session>,
    /// Sends a command to the device thread. Returns `false` if there is no room. The policy then
    /// retries at its next poll, rejects the request, or waits until the next report repeats the
    /// command.
    pub command: &'a mut dyn FnMut(C) -> bool,
}

impl<C> Context<'_, C> {
    /// Makes the next RTCP report due at once, if there is an RTCP session.
    pub(crate) fn hasten(&mut self) {
        if let Some(session) = &mut self.session {
            session.hasten();
        }
    }
}

/// Queue of new notes to the user, without duplicates. A peer may cause any number of notes, so the
/// caller must limit its output.
#[derive(Debug, Clone)]
pub(crate) struct NoteQueue<N>(Vec<N>);

impl<N: PartialEq> NoteQueue<N> {
    /// Maximum length. Between two polls there are fewer notes.
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
