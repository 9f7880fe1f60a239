//! Whether the delay is too short for the way to the worker and back.

use tautline_proto::time::{LocalTime, Span};

/// A shorter disturbance of the network is left to the damage ledger.
const SPAN: Span = Span::from_secs(2);
/// Of each so many runs one at most is answered in time.
const MOST: u64 = 10;
/// Fewer runs prove nothing.
const MIN_RUNS: u64 = 20;

/// What is counted at a look. All are totals.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LateCounts {
    /// Runs with an answer at their turn, and runs without.
    pub(super) answered: u64,
    pub(super) unanswered: u64,
    /// Answers that arrived at any time.
    pub(super) answers: u64,
}

/// Notices once that almost all answers arrive after their turn.
#[derive(Debug, Default)]
pub(super) struct LateWatch {
    since: Option<(LocalTime, LateCounts)>,
    is_told: bool,
}

impl LateWatch {
    /// Takes the counts of a look; whether it is time to report.
    pub(super) fn look(&mut self, counts: LateCounts, now: LocalTime) -> bool {
        let (since, before) = *self.since.get_or_insert((now, counts));
        if self.is_told || now - since < SPAN {
            return false;
        }
        self.since = Some((now, counts));
        let unanswered = counts.unanswered - before.unanswered;
        let runs = unanswered + counts.answered - before.answered;
        // A stream that is opened again counts from 0.
        let answers = counts.answers.saturating_sub(before.answers);
        self.is_told =
            runs >= MIN_RUNS && unanswered * MOST >= runs * (MOST - 1) && answers * 2 >= runs;
        self.is_told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In which of so many looks it is reported, if of ten runs between two looks these are answered in time, and these
    /// at any time.
    fn told(looks: i64, answered: u64, answers: u64) -> Vec<i64> {
        let (mut watch, mut counts) = (LateWatch::default(), LateCounts::default());
        let is_told = |look: &i64| {
            counts.answered += answered;
            counts.unanswered += 10 - answered;
            counts.answers += answers;
            watch.look(counts, LocalTime::ZERO + Span::from_millis(20 * look))
        };
        (0..looks).filter(is_told).collect()
    }

    #[test]
    fn late_answers_are_reported_once_after_two_seconds() {
        assert_eq!(told(1000, 0, 10), [100]);
        assert_eq!(told(1000, 1, 10), [100]);
    }

    #[test]
    fn losses_absent_workers_and_a_few_late_answers_are_not_reported() {
        assert!(told(1000, 2, 10).is_empty());
        assert!(told(1000, 0, 0).is_empty());
        assert!(told(1000, 10, 10).is_empty());
    }
}
