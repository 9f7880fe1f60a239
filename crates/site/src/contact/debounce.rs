//! Removes bounces and glitches from the edges of a contact.

use tautline_proto::time::{LocalTime, Span};

/// A contact changes once its level has been stable for [`Debouncer::STABLE`]. Takes the time as an
/// argument.
#[derive(Debug, Clone)]
pub(super) struct Debouncer {
    is_closed: bool,
    /// Level after the newest edge.
    level: bool,
    /// Time of the newest edge.
    edge: LocalTime,
}

impl Debouncer {
    /// Switches bounce for 6 ms at most, and on average for 1.6 ms (Ganssle, *A Guide to
    /// Debouncing*, 18 types).
    pub(super) const STABLE: Span = Span::from_millis(10);

    /// A contact with its level at the start, which is not a change.
    pub(super) const fn new(is_closed: bool) -> Self {
        Self { is_closed, level: is_closed, edge: LocalTime::ZERO }
    }

    /// Handles an edge to closed or open. Returns a change before the edge, as [`Self::poll`] does.
    pub(super) fn handle_edge(&mut self, is_closed: bool, at: LocalTime) -> Option<bool> {
        let before = self.poll(at);
        // The kernel drops the oldest edges of a full queue, so two edges to the same level are a
        // bounce, too.
        (self.level, self.edge) = (is_closed, at.max(self.edge));
        before
    }

    /// Returns a change to closed (`true`) or open until `now`.
    pub(super) fn poll(&mut self, now: LocalTime) -> Option<bool> {
        let changes = self.due().is_some_and(|due| due <= now);
        changes.then(|| {
            self.is_closed = self.level;
            self.is_closed
        })
    }

    /// Time of the next change, if no edge precedes it.
    pub(super) fn due(&self) -> Option<LocalTime> {
        (self.level != self.is_closed).then(|| self.edge + Self::STABLE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> LocalTime {
        LocalTime::ZERO + Span::from_millis(millis)
    }

    const NONE: [bool; 0] = [];

    /// Changes by these edges, and then by 1000 ms.
    fn changes(is_closed: bool, edges: &[(i64, bool)]) -> Vec<bool> {
        let mut contact = Debouncer::new(is_closed);
        let mut changes: Vec<_> = edges
            .iter()
            .filter_map(|(time, level)| contact.handle_edge(*level, at(*time)))
            .collect();
        changes.extend(contact.poll(at(1000)));
        changes
    }

    #[test]
    fn bounces_are_one_change() {
        let bouncing = [(0, true), (2, false), (3, true), (9, false), (10, true)];
        assert_eq!(changes(false, &bouncing), [true]);
        let mut contact = Debouncer::new(false);
        for (time, level) in bouncing {
            assert_eq!(contact.handle_edge(level, at(time)), None);
        }
        assert_eq!(contact.due(), Some(at(20)));
        assert_eq!(contact.poll(at(19)), None);
        assert_eq!((contact.poll(at(20)), contact.poll(at(21))), (Some(true), None));
        assert_eq!(contact.due(), None);
    }

    #[test]
    fn glitch_shorter_than_the_stable_time_is_ignored() {
        assert_eq!(changes(false, &[(0, true), (9, false)]), NONE);
        assert_eq!(changes(true, &[(0, false), (9, true)]), NONE);
    }

    #[test]
    fn closure_between_two_polls_is_not_lost() {
        assert_eq!(changes(false, &[(0, true), (10, false)]), [true, false]);
        assert_eq!(changes(false, &[(0, true), (60, false), (90, true)]), [true, false, true]);
    }

    #[test]
    fn contact_that_is_closed_at_the_start_must_open_first() {
        assert_eq!(changes(true, &[]), NONE);
        assert_eq!(changes(true, &[(0, true)]), NONE);
        assert_eq!(changes(true, &[(0, false), (50, true)]), [false, true]);
    }

    #[test]
    fn lost_edges_leave_the_newest_level() {
        assert_eq!(changes(false, &[(0, true), (5, true), (14, false)]), NONE);
        assert_eq!(changes(false, &[(0, true), (5, true), (15, false)]), [true, false]);
    }
}
