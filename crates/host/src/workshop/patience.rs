//! How long a process may load, how often it may fail, and how long it may stay stopped: the same for one that takes
//! blocks and for a standby.

use tautline_proto::time::{LocalTime, Span};

use crate::process::ChildProcess;

/// How long a process may take until it takes blocks: some plugins read samples or compute tables, and measuring
/// takes 0.2 s.
pub(super) const BEGINNING: Span = Span::from_secs(10);
/// Processes in a row that were no good, after which there is no other.
pub(super) const MOST_IN_A_ROW: u32 = 20;
/// The wait before the second process in a row that was no good; it doubles up to the longest.
const FIRST_WAIT: Span = Span::from_millis(50);
const LONGEST_WAIT: Span = Span::from_secs(5);
/// From one look whether the process is stopped to the next.
pub(super) const LOOK: Span = Span::from_millis(100);
/// A process that so many looks in a row find stopped is ended: a second. Counted in looks and not in time, as this
/// process may have been stopped with it.
pub(super) const MOST_STOPPED: u32 = 10;

/// How long to wait before the next process, after so many in a row that were no good.
pub(super) fn pause(in_a_row: u32) -> Span {
    match in_a_row {
        0 | 1 => Span::ZERO,
        more => {
            let doubled = FIRST_WAIT.as_nanos() << (more - 2).min(16);
            Span::from_nanos(doubled).min(LONGEST_WAIT)
        }
    }
}

/// Looks now and then whether a process is stopped.
#[derive(Debug)]
pub(super) struct StopLooks {
    next: LocalTime,
    /// Looks in a row that found it stopped.
    stopped: u32,
}

impl StopLooks {
    pub(super) fn from(now: LocalTime) -> Self {
        Self { next: now + LOOK, stopped: 0 }
    }

    /// When the next look is due.
    pub(super) const fn next(&self) -> LocalTime {
        self.next
    }

    /// Looks if it is time. Returns whether the process stays stopped; `None` if it was not time.
    pub(super) fn look(&mut self, child: &ChildProcess, now: LocalTime) -> Option<bool> {
        if now < self.next {
            return None;
        }
        self.next = now + LOOK;
        self.stopped = if child.is_stopped() { self.stopped + 1 } else { 0 };
        Some(self.stopped >= MOST_STOPPED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_process_anew_is_started_at_once_and_the_next_ones_later_and_later() {
        let pauses: Vec<_> = (1..=10).map(|n| pause(n).as_nanos() / 1_000_000).collect();
        assert_eq!(pauses, [0, 50, 100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        assert_eq!(pause(u32::MAX), LONGEST_WAIT);
    }
}
