//! Decides at each time whether a rule plays.

use std::collections::BTreeMap;

use jiff::{Timestamp, ToSpan as _};
use tautline_proto::time::Span;

use super::{Play, Schedule};

/// Decisions of a node. The driver calls [`Player::poll`] every 50 ms or so, stores
/// [`Player::journal`] and then plays: a time that is stored is never played again.
#[derive(Debug)]
pub(crate) struct Player {
    schedule: Schedule,
    next: Vec<Play>,
    journal: Journal,
    /// Newest time for which `next` is valid.
    seen: Timestamp,
}

/// Nominal time of the last decision for each rule, in Unix seconds.
pub(crate) type Journal = BTreeMap<String, i64>;

/// A decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Prepare to play at the nominal time, which is near.
    Play(Play),
    /// Not played.
    Skip(Play, SkipReason),
}

/// Why a time is not played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SkipReason {
    /// The node was not running or not awake at the time.
    Missed,
    /// The clock is not synchronized.
    Clock,
}

impl Player {
    /// Time before the nominal one in which a process starts.
    const LEAD: Span = Span::from_secs(3);
    /// Maximum delay of a play. More means that the node did not run.
    const GRACE: Span = Span::from_secs(5);
    /// Maximum correction of a clock, within which no time plays twice.
    const NEWEST: Span = Span::from_secs(25 * 3600);

    /// Starts at `now`. `journal` is the one of the last run.
    pub(crate) fn new(schedule: Schedule, journal: Journal, now: Timestamp) -> Self {
        let mut player = Self { schedule, next: Vec::new(), journal, seen: now };
        player.plan(now);
        player
    }

    /// What to store before the steps of [`Player::poll`] are carried out.
    pub(crate) const fn journal(&self) -> &Journal {
        &self.journal
    }

    #[cfg(test)]
    pub(crate) const fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// Decides. `is_synchronized` says whether the clock of `now` is.
    pub(crate) fn poll(&mut self, now: Timestamp, is_synchronized: bool) -> Vec<Step> {
        if now < earlier(self.seen, Self::GRACE) {
            // The clock was set back: nearer times can be next. The journal prevents repetition.
            self.plan(now);
        }
        self.seen = now;
        let due = self.next.partition_point(|play| earlier(play.at, Self::LEAD) <= now);
        let due: Vec<Play> = self.next.drain(..due).collect();
        let mut steps = Vec::new();
        for play in due {
            self.journal.insert(play.rule.clone(), play.at.as_second());
            let reason = if later(play.at, Self::GRACE) < now {
                Some(SkipReason::Missed)
            } else {
                (!is_synchronized).then_some(SkipReason::Clock)
            };
            steps.push(match reason {
                Some(reason) => Step::Skip(play, reason),
                None => Step::Play(play),
            });
        }
        if !steps.is_empty() {
            self.plan(now);
        }
        steps
    }

    fn plan(&mut self, now: Timestamp) {
        let from = earlier(now, Self::GRACE);
        // Later entries are those of a clock that was wrong.
        let newest = later(now, Self::NEWEST);
        let next = self.schedule.rules.iter().filter_map(|rule| {
            let last = self.journal.get(&rule.name).copied();
            let last = last.and_then(|last| Timestamp::from_second(last).ok());
            let last = last.filter(|last| *last <= newest);
            rule.next(last.map_or(from, |last| last.max(from)), &self.schedule.zone)
        });
        self.next = next.collect();
        self.next.sort_by_key(|play| play.at);
    }
}

fn earlier(at: Timestamp, by: Span) -> Timestamp {
    at.checked_sub(by.as_nanos().nanoseconds()).unwrap_or(Timestamp::MIN)
}

fn later(at: Timestamp, by: Span) -> Timestamp {
    at.checked_add(by.as_nanos().nanoseconds()).unwrap_or(Timestamp::MAX)
}
