//! What was heard of an instance's sound: the damage ledger, and how much time was left.

use tautline_engine::offload::attendant::Slack;
use tautline_proto::offload::returns::Damage;
use tautline_proto::time::Span;

/// Lines that are kept; a host that plays for days beside an absent worker takes no more memory.
const MOST_LINES: usize = 4096;
/// Slacks that are kept: with more, every other is let go and every other that comes.
const MOST_SLACKS: usize = 1 << 16;

/// All of it.
#[derive(Debug, Default)]
pub(crate) struct RunRecord {
    pub(crate) damage: Vec<Damage>,
    /// Lines beyond those.
    pub(crate) unlisted: u64,
    left: Vec<Span>,
    /// Runs of which there is one slack in `left`, less one, and those that came since the last.
    passed: (u32, u32),
    /// Runs that had no answer when their turn came.
    pub(crate) unanswered: u64,
    pub(crate) answered: u64,
}

impl RunRecord {
    pub(crate) fn note(&mut self, damage: Damage) {
        if self.damage.len() < MOST_LINES {
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
        if self.left.len() == MOST_SLACKS {
            let mut keeps = false;
            self.left.retain(|_| {
                keeps = !keeps;
                keeps
            });
            *between = *between * 2 + 1;
        }
    }

    /// What was left in all but this share of the runs that were answered.
    pub(crate) fn left_but(&self, share: f64) -> Option<Span> {
        let mut left = self.left.clone();
        left.sort_unstable();
        let place = (left.len() as f64 * share) as usize;
        left.get(place.min(left.len().checked_sub(1)?)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slacks_of_days_take_no_more_room_and_keep_their_percentiles() {
        let mut record = RunRecord::default();
        for run in 0..1_000_000 {
            let left = Some(Span::from_micros(run % 1000));
            record.note_slack(Slack { position: 0, frames: 64, left });
        }
        assert!(record.left.len() < MOST_SLACKS);
        assert_eq!(record.answered, 1_000_000);
        let median = record.left_but(0.5).unwrap().as_micros_f64();
        assert!((450.0..550.0).contains(&median), "{median}");
        let least = record.left_but(0.01).unwrap().as_micros_f64();
        assert!((0.0..30.0).contains(&least), "{least}");
    }

    #[test]
    fn nothing_heard_is_no_figure() {
        assert_eq!(RunRecord::default().left_but(0.5), None);
    }
}
