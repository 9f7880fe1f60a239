//! Decides at each time whether a rule plays.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};
use tautline_proto::time::Span;

use super::{LoadedRule, Play, RuleAction, Schedule};

/// Decisions of a node. The driver calls [`Player::poll`] every 50 ms or so, stores
/// [`Player::journal`] and then plays: a time that is stored is never played again.
#[derive(Debug)]
pub(crate) struct Player {
    schedule: Schedule,
    next: Vec<Play>,
    /// Presets whose time passed while the node or its clock was not ready, the earliest first.
    late: Vec<Play>,
    journal: Journal,
    /// Newest time for which `next` is valid.
    seen: Timestamp,
}

/// Nominal time of the last decision for each rule, in Unix seconds.
pub(crate) type Journal = BTreeMap<String, i64>;

/// A decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Prepare to play at the nominal time, a few seconds from now.
    Play(Play),
    /// Not played.
    Skip(Play, SkipReason),
}

/// Why the player skips a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SkipReason {
    /// The node did not run at the time.
    Missed,
    /// The clock is not synchronized.
    Clock,
}

impl Player {
    /// A process starts this long before the nominal time.
    const LEAD: Span = Span::from_secs(3);
    /// Maximum delay of a play. More means that the node did not run.
    const GRACE: Span = Span::from_secs(5);
    /// Maximum correction of a clock, within which no time plays twice.
    const NEWEST: Span = Span::from_secs(25 * 3600);

    /// Starts at `now`. `journal` is the last run's journal. The last missed time of a preset is
    /// played late, because its volumes hold until the next preset; the last missed time of an
    /// announcement is skipped.
    pub(crate) fn new(schedule: Schedule, journal: Journal, now: Timestamp) -> Self {
        let missed = schedule.rules.iter().filter_map(|rule| {
            let last = Timestamp::from_second(*journal.get(&rule.name)?).ok()?;
            missed(rule, &schedule.zone, last, earlier(now, Self::GRACE))
        });
        let mut missed: Vec<Play> = missed.collect();
        missed.sort_by_key(|play| play.at);
        let mut player = Self { schedule, next: Vec::new(), late: Vec::new(), journal, seen: now };
        player.plan(now);
        player.next.splice(0..0, missed);
        player
    }

    /// Journal to store before the steps of [`Player::poll`] are carried out.
    pub(crate) const fn journal(&self) -> &Journal {
        &self.journal
    }

    #[cfg(test)]
    pub(crate) const fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// Returns the due steps. `is_synchronized`: whether the clock of `now` is synchronized.
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
            if matches!(play.action, RuleAction::Preset(_)) {
                self.late.retain(|it| it.rule != play.rule);
                self.late.push(play);
                continue;
            }
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
        if is_synchronized {
            let due = self.late.partition_point(|play| play.at <= now);
            for play in self.late.drain(..due) {
                self.journal.insert(play.rule.clone(), play.at.as_second());
                steps.push(Step::Play(play));
            }
        }
        if !steps.is_empty() {
            self.plan(now);
        }
        steps
    }

    fn plan(&mut self, now: Timestamp) {
        let from = earlier(now, Self::GRACE);
        // Later entries are due to a clock that was wrong.
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

/// The last time of a rule after `last` and until `now`, at most eight days before.
fn missed(rule: &LoadedRule, zone: &TimeZone, last: Timestamp, now: Timestamp) -> Option<Play> {
    // A rule of each minute needs no search of days.
    let hours = [1, 25, 8 * 24].map(|hours| earlier(now, Span::from_secs(hours * 3600)));
    hours.into_iter().find_map(|from| {
        let next = |after| rule.next(after, zone).filter(|play| play.at <= now);
        std::iter::successors(next(from.max(last)), |play| next(play.at)).last()
    })
}

fn earlier(at: Timestamp, by: Span) -> Timestamp {
    at.checked_sub(by.as_nanos().nanoseconds()).unwrap_or(Timestamp::MIN)
}

fn later(at: Timestamp, by: Span) -> Timestamp {
    at.checked_add(by.as_nanos().nanoseconds()).unwrap_or(Timestamp::MAX)
}
