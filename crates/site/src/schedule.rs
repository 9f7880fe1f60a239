//! The schedule: instants of each rule, and the decision to play or skip.
//!
//! Each node decides alone, from its copy of the file and its clock ([`Player`]).

mod calendar;
mod cron;
mod player;
#[cfg(test)]
mod tests;

use core::fmt;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp, ToSpan as _, ZonedDateTime};

pub use calendar::{Calendar, InvalidCalendar};
pub(crate) use cron::WEEKDAYS;
pub use cron::{Cron, InvalidCron};
pub(crate) use player::{Journal, Player, SkipReason, Step};

use crate::Site;

/// A rule of the schedule.
#[derive(Debug, Clone)]
pub struct ScheduleRule {
    /// Its times.
    pub times: RuleTimes,
    /// Days without it.
    pub except: BTreeSet<Date>,
    /// Calendar of days without it.
    pub holidays: Option<PathBuf>,
    /// Its action.
    pub action: RuleAction,
}

/// Times of a rule.
#[derive(Debug, Clone)]
pub enum RuleTimes {
    /// The rule plays at these times on these days of the week.
    Weekly {
        /// Times.
        at: Vec<Time>,
        /// Days of the week, from Sunday.
        days: [bool; 7],
    },
    /// By a cron expression.
    Cron(Cron),
    /// The rule plays at the events of this iCalendar file.
    Calendar(PathBuf),
}

/// Action of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleAction {
    /// Announces a message.
    Announce {
        /// Zones and groups.
        zones: Vec<String>,
        /// Station, for its priority and rank.
        station: String,
        /// Message; `None` for the message that the summary of the event names.
        message: Option<String>,
    },
    /// Applies a preset.
    Preset(String),
}

/// One time of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Play {
    /// Rule.
    pub rule: String,
    /// Nominal time.
    pub at: Timestamp,
    /// Action; an announcement has its message.
    pub action: RuleAction,
}

/// All rules with their calendars.
#[derive(Debug, Clone)]
pub struct Schedule {
    zone: TimeZone,
    rules: Vec<LoadedRule>,
}

#[derive(Debug, Clone)]
struct LoadedRule {
    name: String,
    rule: ScheduleRule,
    events: Calendar,
    holidays: Calendar,
}

/// Why a rule, or a part of it, does not play.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleFault {
    /// Rule.
    pub rule: String,
    /// Reason.
    pub reason: String,
}

impl fmt::Display for ScheduleFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, reason } = self;
        write!(f, "schedule {rule}: {reason}")
    }
}

/// Maximum days until the next time of a rule: eight years from one leap day to the next over 2100.
const HORIZON: i32 = 8 * 366;
/// Maximum size of a calendar.
const MAX_CALENDAR: u64 = 4 << 20;

impl Schedule {
    /// Reads the calendars, which are relative to `folder`. A rule with an unreadable calendar has
    /// no times, and a fault.
    pub fn load(site: &Site, folder: &Path) -> (Self, Vec<ScheduleFault>) {
        let (mut rules, mut faults) = (Vec::new(), Vec::new());
        for (name, rule) in &site.schedule {
            let mut read = |path: Option<&PathBuf>| match path.map(|path| calendar(folder, path)) {
                None => Some(Calendar::default()),
                Some(Ok(calendar)) => Some(calendar),
                Some(Err(why)) => {
                    let reason = format!("{why}; the rule does not play");
                    faults.push(ScheduleFault { rule: name.clone(), reason });
                    None
                }
            };
            let events = match &rule.times {
                RuleTimes::Calendar(path) => read(Some(path)),
                _ => read(None),
            };
            let holidays = read(rule.holidays.as_ref());
            let Some((events, holidays)) = events.zip(holidays) else { continue };
            if let RuleAction::Announce { message: None, .. } = rule.action {
                let unknown = events.summaries().into_iter();
                let unknown = unknown.filter(|name| !site.messages.contains_key(*name));
                faults.extend(unknown.map(|summary| ScheduleFault {
                    rule: name.clone(),
                    reason: format!("no message {summary:?}, the summary of an event; write [message.\"{summary}\"]"),
                }));
            }
            rules.push(LoadedRule { name: name.clone(), rule: rule.clone(), events, holidays });
        }
        let zone = site.timezone.clone().unwrap_or(TimeZone::UTC);
        (Self { zone, rules }, faults)
    }

    /// The next time of each rule after this one, the earliest first.
    pub fn next(&self, after: Timestamp) -> Vec<Play> {
        let next = self.rules.iter().filter_map(|rule| rule.next(after, &self.zone));
        let mut next: Vec<_> = next.collect();
        next.sort_by_key(|play| play.at);
        next
    }

    /// The next `count` times of all rules.
    pub fn plays(&self, after: Timestamp, count: usize) -> Vec<Play> {
        let mut next = self.next(after);
        let mut plays = Vec::new();
        while plays.len() < count && !next.is_empty() {
            let first = next.remove(0);
            if let Some(later) = self.next_of(&first.rule, first.at) {
                let at = next.partition_point(|play| play.at <= later.at);
                next.insert(at, later);
            }
            plays.push(first);
        }
        plays
    }

    /// Rules that announce at the same time in the same zone. The zone can play only one of these
    /// announcements.
    pub fn conflicts(&self, site: &Site, plays: &[Play]) -> BTreeSet<String> {
        let zones = |play: &Play| match &play.action {
            RuleAction::Announce { zones, .. } => {
                let zones = site.zones_of(zones.iter().map(String::as_str)).into_iter();
                zones.map(str::to_owned).collect::<BTreeSet<String>>()
            }
            RuleAction::Preset(_) => BTreeSet::new(),
        };
        let mut found = BTreeMap::new();
        for (at, play) in plays.iter().enumerate() {
            for other in plays[at + 1..].iter().take_while(|other| other.at == play.at) {
                if let Some(zone) = zones(play).intersection(&zones(other)).next() {
                    let time = self.local(play.at).strftime("%Y-%m-%d %H:%M:%S");
                    let (first, second) =
                        (play.rule.as_str().min(&other.rule), play.rule.as_str().max(&other.rule));
                    found.entry((first, second)).or_insert_with(|| {
                        format!(
                            "schedule {first} and {second} both announce in zone {zone} at {time}"
                        )
                    });
                }
            }
        }
        found.into_values().collect()
    }

    /// The next `count` times from now.
    pub fn upcoming(&self, count: usize) -> Vec<Play> {
        self.plays(Timestamp::now(), count)
    }

    /// A time on the clocks of the building.
    pub fn local(&self, at: Timestamp) -> ZonedDateTime {
        at.to_zoned_datetime(self.zone.clone())
    }

    fn next_of(&self, rule: &str, after: Timestamp) -> Option<Play> {
        self.rules.iter().find(|it| it.name == rule)?.next(after, &self.zone)
    }
}

impl LoadedRule {
    fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Play> {
        // A day in another time zone begins up to a day earlier than here.
        let first = zone.to_datetime(after).date().checked_sub(1.day()).ok()?;
        let days = first.series(1.day()).take(HORIZON as usize);
        let mut candidates: Vec<(Timestamp, Option<String>)> = Vec::new();
        for day in days {
            // The day after can have an earlier event of another time zone.
            let is_complete = !candidates.is_empty();
            let of_day = self.instants(day, zone).into_iter();
            candidates.extend(of_day.filter(|(at, _)| *at > after && self.permits(*at, zone)));
            if is_complete {
                break;
            }
        }
        let (at, summary) = candidates.into_iter().min()?;
        let mut action = self.rule.action.clone();
        if let RuleAction::Announce { message: message @ None, .. } = &mut action {
            *message = summary;
        }
        Some(Play { rule: self.name.clone(), at, action })
    }

    fn instants(&self, day: Date, zone: &TimeZone) -> Vec<(Timestamp, Option<String>)> {
        let times = match &self.rule.times {
            RuleTimes::Weekly { at, days } => {
                let weekday = day.weekday().to_sunday_zero_offset();
                let is_on = usize::try_from(weekday).is_ok_and(|weekday| days[weekday]);
                if is_on { at.clone() } else { Vec::new() }
            }
            RuleTimes::Cron(cron) => cron.times(day),
            RuleTimes::Calendar(_) => {
                let events = self.events.instants(day, zone).into_iter();
                return events.map(|(at, summary)| (at, Some(summary))).collect();
            }
        };
        let instants = times.into_iter().filter_map(|time| once(zone, day.to_datetime(time)));
        instants.map(|at| (at, None)).collect()
    }

    /// Whether the day of this time is neither an exception nor a holiday.
    fn permits(&self, at: Timestamp, zone: &TimeZone) -> bool {
        let day = zone.to_datetime(at).date();
        !self.rule.except.contains(&day) && !self.holidays.has_day(day)
    }
}

/// The instant of a local time: the first, if the time exists twice; the end of the gap, if it does
/// not exist.
pub(crate) fn once(zone: &TimeZone, time: DateTime) -> Option<Timestamp> {
    match zone.to_ambiguous_timestamp(time).offset() {
        AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(time).ok(),
        AmbiguousOffset::Fold { before, .. } => before.to_timestamp(time).ok(),
        AmbiguousOffset::Gap { before, .. } => {
            let beyond = before.to_timestamp(time).ok()?;
            // The gap ended at the last transition until then.
            let later = beyond.checked_add(1.nanosecond()).ok()?;
            zone.preceding(later).next().map(|transition| transition.timestamp())
        }
    }
}

fn calendar(folder: &Path, path: &Path) -> Result<Calendar, String> {
    use std::io::Read as _;
    let path = folder.join(path);
    let shown = path.display();
    let mut text = String::new();
    let read = std::fs::File::open(&path)
        .and_then(|file| file.take(MAX_CALENDAR).read_to_string(&mut text));
    read.map_err(|error| format!("reading {shown}: {error}"))?;
    Calendar::read(&text).map_err(|why| format!("{shown}: {why}"))
}
