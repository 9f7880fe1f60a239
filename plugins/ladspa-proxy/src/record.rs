//! The damage ledger of an instance, and the remaining time of each run.

use std::collections::VecDeque;

use tautline_engine::offload::attendant::Slack;
use tautline_proto::offload::returns::Damage;
use tautline_proto::time::Span;

use crate::twin::{TwinSpan, TwinVerdict};

/// Maximum lines. This limits memory if the worker is absent for days.
const MAX_LINES: usize = 4096;
/// Number of slacks at which every second slack is dropped.
const MAX_SLACKS: usize = 1 << 16;

#[derive(Debug, Default)]
pub(crate) struct RunRecord {
    pub(crate) damage: Vec<Damage>,
    pub(crate) unlisted: u64,
    left: Vec<Span>,
    /// Runs between two entries of `left`, and since the last.
    passed: (u32, u32),
    pub(crate) unanswered: u64,
    pub(crate) answered: u64,
    pub(crate) spans: Vec<TwinSpan>,
    news: VecDeque<TwinSpan>,
    last: Option<SpanKind>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SpanKind {
    Equal,
    Differs,
    NotCompared,
}

impl SpanKind {
    const fn of(verdict: &TwinVerdict) -> Self {
        match (verdict.compared, verdict.equal) {
            (0, _) => Self::NotCompared,
            (compared, equal) if compared == equal => Self::Equal,
            _ => Self::Differs,
        }
    }
}

impl RunRecord {
    pub(crate) fn note(&mut self, damage: Damage) {
        if let Some(last) = self.damage.last_mut()
            && (last.epoch, last.cause, last.replacement)
                == (damage.epoch, damage.cause, damage.replacement)
            && last.from + u64::from(last.frames) == damage.from
            && let Some(frames) = last.frames.checked_add(damage.frames)
        {
            last.frames = frames;
            return;
        }
        if self.damage.len() < MAX_LINES {
            self.damage.push(damage);
        } else {
            self.unlisted += 1;
        }
    }

    pub(crate) fn note_slack(&mut self, slack: Slack) {
        let Some(left) = slack.left else {
            self.unanswered += 1;
            return;
        };
        self.answered += 1;
        let (between, passed) = &mut self.passed;
        if *passed < *between {
            *passed += 1;
            return;
        }
        *passed = 0;
        self.left.push(left);
        if self.left.len() == MAX_SLACKS {
            let mut keeps = false;
            self.left.retain(|_| {
                keeps = !keeps;
                keeps
            });
            *between = *between * 2 + 1;
        }
    }

    pub(crate) fn note_span(&mut self, span: TwinSpan) {
        if self.spans.len() < MAX_LINES {
            self.spans.push(span);
        }
        let kind = SpanKind::of(&span.verdict);
        // A repeated state is reported only if it needs a fix.
        let is_known = self.last.replace(kind) == Some(kind) && kind != SpanKind::Differs;
        if !is_known && self.news.len() < MAX_LINES {
            self.news.push_back(span);
        }
    }

    pub(crate) fn take_news(&mut self) -> Option<TwinSpan> {
        self.news.pop_front()
    }

    /// Time left in all but `share` of the answered runs.
    pub(crate) fn left_but(&self, share: f64) -> Option<Span> {
        let mut left = self.left.clone();
        left.sort_unstable();
        let place = (left.len() as f64 * share) as usize;
        left.get(place.min(left.len().checked_sub(1)?)).copied()
    }
}

#[cfg(test)]
mod tests {
    use tautline_proto::offload::returns::{Cause, Replacement};

    use super::*;

    #[test]
    fn slacks_of_days_take_no_more_room_and_keep_their_percentiles() {
        let mut record = RunRecord::default();
        for run in 0..1_000_000 {
            let left = Some(Span::from_micros(run % 1000));
            record.note_slack(Slack { position: 0, frames: 64, left });
        }
        assert!(record.left.len() < MAX_SLACKS);
        assert_eq!(record.answered, 1_000_000);
        let median = record.left_but(0.5).unwrap().as_micros_f64();
        assert!((450.0..550.0).contains(&median), "{median}");
        let minimum = record.left_but(0.01).unwrap().as_micros_f64();
        assert!((0.0..30.0).contains(&minimum), "{minimum}");
    }

    #[test]
    fn damage_of_one_kind_is_one_line_however_long_it_lasts() {
        let mut record = RunRecord::default();
        let of = |epoch, from, frames, cause| Damage {
            epoch,
            from,
            frames,
            cause,
            replacement: Replacement::Dry,
        };
        let long = u32::MAX - 10;
        for damage in [
            of(1, 0, 100, Cause::Lost),
            of(1, 100, 50, Cause::Lost),
            of(1, 150, 50, Cause::Late),
            of(1, 201, 50, Cause::Late),
            of(2, 251, long, Cause::Late),
            // An overflow of the frame count starts another line.
            of(2, 251 + u64::from(long), 20, Cause::Late),
        ] {
            record.note(damage);
        }
        let reported: Vec<_> =
            record.damage.iter().map(|one| (one.epoch, one.from, one.frames)).collect();
        let last = (2, 251 + u64::from(long), 20);
        assert_eq!(reported, [(1, 0, 150), (1, 150, 50), (1, 201, 50), (2, 251, long), last]);
    }

    #[test]
    fn differing_and_changed_spans_are_reported() {
        let mut record = RunRecord::default();
        let span = |number: u64, compared, equal| TwinSpan {
            frames: (10 * number, 10 * (number + 1)),
            verdict: TwinVerdict { compared, equal, ..TwinVerdict::default() },
        };
        let kinds = [(9, 9), (9, 9), (9, 8), (9, 7), (0, 0), (0, 0), (5, 5), (9, 9), (9, 9)];
        for (number, (compared, equal)) in (0..).zip(kinds) {
            record.note_span(span(number, compared, equal));
        }
        let news: Vec<u64> =
            core::iter::from_fn(|| record.take_news()).map(|span| span.frames.0 / 10).collect();
        assert_eq!(news, [0, 2, 3, 4, 6]);
        assert_eq!(record.spans.len(), kinds.len(), "the report has them all");
    }

    #[test]
    fn nothing_received_gives_no_figure() {
        assert_eq!(RunRecord::default().left_but(0.5), None);
    }
}
