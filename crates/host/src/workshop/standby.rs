//! The process that waits to take a dead one's place: its plugin is loaded, so it takes blocks at once.

use std::io;

use tautline_proto::time::{LocalTime, Span};

use super::stream::{MOST_IN_A_ROW, pause};
use crate::process::ChildProcess;

/// How long a stream runs before a standby is started for it: loading the plugin once more takes nothing from a plugin
/// that catches up, nor from a stream that a host opens only to look at it.
const SETTLING: Span = Span::from_millis(500);

/// At most one process that waits.
#[derive(Debug, Default)]
pub(super) struct Standby {
    waiting: Option<ChildProcess>,
    /// When the next one is to be started.
    due: LocalTime,
    /// Processes in a row that ended while they waited, or could not be started.
    failed: u32,
}

impl Standby {
    /// Another process takes blocks from now on.
    pub(super) fn wait_from(&mut self, now: LocalTime) {
        if !self.due.is_never() {
            self.due = self.due.max(now + SETTLING);
        }
    }

    /// Whether one is to be started now. One that has ended is replaced, later and later.
    pub(super) fn is_due(&mut self, now: LocalTime) -> bool {
        if self.waiting.as_ref().is_some_and(ChildProcess::has_ended) {
            self.waiting = None;
            self.fail(now);
        }
        self.waiting.is_none() && now >= self.due
    }

    /// One was started, or could not be.
    pub(super) fn started(&mut self, child: io::Result<ChildProcess>, now: LocalTime) {
        match child {
            Ok(child) => self.waiting = Some(child),
            Err(_) => self.fail(now),
        }
    }

    fn fail(&mut self, now: LocalTime) {
        self.failed += 1;
        // As late as after so many processes that took blocks, but never at once.
        self.due = match self.failed {
            MOST_IN_A_ROW.. => LocalTime::NEVER,
            failed => now + pause(failed + 1),
        };
    }

    /// The one that waits, or still loads.
    pub(super) fn take(&mut self) -> Option<ChildProcess> {
        let child = self.waiting.take().filter(|child| !child.has_ended())?;
        self.failed = 0;
        Some(child)
    }
}
