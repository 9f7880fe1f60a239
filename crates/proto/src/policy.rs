//! What a policy has at hand when something happened: the time, the conversation with the other end,
//! and the way to the device's thread.

use crate::session::Session;
use crate::time::LocalTime;

/// At hand for one call. `C` is what the device's thread is told.
pub struct Context<'a, C> {
    /// By the clock of this host.
    pub now: LocalTime,
    /// The conversation with the other end, where the wire has one.
    pub session: Option<&'a mut Session>,
    /// Hands a command to the device's thread. False where there is no room for it now: the policy
    /// then says it again when its next turn comes.
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

/// What people are to know, each matter once, and no more of them than anybody reads: a peer may go on
/// and on.
#[derive(Debug, Clone)]
pub struct Notes<N> {
    told: Vec<N>,
    /// How many of them were taken.
    taken: usize,
}

impl<N: PartialEq> Notes<N> {
    const MOST: usize = 64;

    /// Nothing is to be known yet.
    pub const fn new() -> Self {
        Self { told: Vec::new(), taken: 0 }
    }

    /// This is to be known.
    pub fn note(&mut self, note: N) {
        if self.told.len() < Self::MOST && !self.told.contains(&note) {
            self.told.push(note);
        }
    }

    /// What was noted since it was last asked for.
    pub fn take_new(&mut self) -> &[N] {
        let from = core::mem::replace(&mut self.taken, self.told.len());
        &self.told[from..]
    }
}

impl<N: PartialEq> Default for Notes<N> {
    fn default() -> Self {
        Self::new()
    }
}
