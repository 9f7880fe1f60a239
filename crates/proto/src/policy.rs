//! What a policy has at hand when something happened: the time, the conversation with the other end,
//! and the way to the device's thread.

use crate::rtcp_session::Session;
use crate::time::LocalTime;

/// At hand for one call. `C` is what the device's thread is told.
pub struct Context<'a, C> {
    /// By the clock of this host.
    pub now: LocalTime,
    /// The conversation with the other end, where the wire has one.
    pub session: Option<&'a mut Session>,
    /// Hands a command to the device's thread. False where there is no room for it now: the policy
    /// then says it again at its next turn, refuses what was asked for, or drops what the next report
    /// brings again.
    pub command: &'a mut dyn FnMut(C) -> bool,
}

impl<C> Context<'_, C> {
    /// The next report is due at once, where there are reports.
    pub(crate) fn hasten(&mut self) {
        if let Some(session) = &mut self.session {
            session.hasten();
        }
    }
}

/// What people are to know, and were not told yet: each matter once. A peer may go on and on, so who
/// tells it keeps to a bound of their own.
#[derive(Debug, Clone)]
pub(crate) struct NoteQueue<N>(Vec<N>);

impl<N: PartialEq> NoteQueue<N> {
    /// What waits to be taken; between two beats nobody says as much.
    const MOST: usize = 64;

    /// This is to be known.
    pub(crate) fn note(&mut self, note: N) {
        if self.0.len() < Self::MOST && !self.0.contains(&note) {
            self.0.push(note);
        }
    }

    /// What was noted since it was last asked for.
    pub(crate) fn take(&mut self) -> Vec<N> {
        core::mem::take(&mut self.0)
    }
}

impl<N> Default for NoteQueue<N> {
    fn default() -> Self {
        Self(Vec::new())
    }
}
