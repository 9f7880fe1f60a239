//! What is left of sound that is over, while what had it goes on: a call that is held, or a server.

use std::collections::VecDeque;

use tautline_report::Report;

use crate::failure::Failure;

/// Reports that are kept, of the newest sound: two of each.
const MOST_REPORTS: usize = 64;

/// The reports, and what of it failed first.
#[derive(Default)]
pub(in crate::cmd) struct EndedSound {
    reports: VecDeque<Report>,
    failed: Option<Failure>,
}

impl EndedSound {
    /// Keeps what an end left: what of that failed, which is to be told at once.
    #[must_use]
    pub(in crate::cmd) fn keep(
        &mut self,
        (reports, done): (Vec<Report>, Result<(), Failure>),
    ) -> Option<String> {
        self.reports.extend(reports);
        let older = self.reports.len().saturating_sub(MOST_REPORTS);
        self.reports.drain(..older);
        let failure = done.err()?;
        let told = failure.to_string();
        self.failed.get_or_insert(failure);
        Some(told)
    }

    /// The reports, those of what was heard before those of what was sent, and whether all went well.
    pub(in crate::cmd) fn finish(self) -> (Vec<Report>, Result<(), Failure>) {
        (self.reports.into(), self.failed.map_or(Ok(()), Err))
    }
}
