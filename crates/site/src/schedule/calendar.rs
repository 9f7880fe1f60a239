//! iCalendar files (RFC 5545): events once, daily, weekly or yearly.

use std::collections::BTreeSet;

use jiff::civil::{Date, DateTime, Time, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};

use super::once;

/// Maximum number of events.
const MAX_EVENTS: usize = 10_000;

/// Events of a file.
#[derive(Debug, Clone, Default)]
pub struct Calendar {
    events: Vec<Event>,
}

#[derive(Debug, Clone)]
struct Event {
    summary: String,
    start: DateTime,
    /// Days of an event without a time.
    days: Option<i32>,
    /// Time zone of the event; `None` for the time zone of the building.
    zone: Option<TimeZone>,
    rule: Option<Recurrence>,
    except: BTreeSet<Date>,
}

#[derive(Debug, Clone)]
struct Recurrence {
    every: Every,
    interval: i32,
    until: Option<Date>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Every {
    Day,
    Week(BTreeSet<i8>),
    Year,
}

/// A line that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct InvalidCalendar {
    /// Line, from 1.
    pub line: usize,
    /// Reason.
    pub what: String,
}

/// A content line: name, parameters, value.
struct Line<'a> {
    number: usize,
    name: String,
    parameters: Vec<(String, &'a str)>,
    value: &'a str,
}

impl Calendar {
    /// Reads a file.
    pub fn read(text: &str) -> Result<Self, InvalidCalendar> {
        let unfolded = unfolded(text);
        let lines = unfolded.iter().map(|(number, line)| Line::read(*number, line));
        let (mut events, mut open): (Vec<Event>, Option<(Vec<Line<'_>>, usize)>) =
            Default::default();
        // Alarms and other components inside of an event.
        let mut inner = 0;
        for line in lines {
            let line = line?;
            let is_event = line.value.eq_ignore_ascii_case("VEVENT");
            let name = line.name.clone();
            match (name.as_str(), &mut open) {
                ("BEGIN", None) if is_event => open = Some((Vec::new(), line.number)),
                ("BEGIN", Some(_)) => inner += 1,
                ("END", Some(_)) if inner > 0 => inner -= 1,
                ("END", Some((of_event, number))) => {
                    if events.len() == MAX_EVENTS {
                        let what = format!("more than {MAX_EVENTS} events");
                        return Err(InvalidCalendar { line: line.number, what });
                    }
                    events.extend(Event::of(of_event, *number)?);
                    open = None;
                }
                (_, Some((of_event, _))) if inner == 0 => of_event.push(line),
                _ => {}
            }
        }
        Ok(Self { events })
    }

    /// Start times and summaries of the timed events on `date`, in each event's time zone. Events
    /// without a time zone use `site`.
    pub fn instants(&self, date: Date, site: &TimeZone) -> Vec<(Timestamp, String)> {
        let begins = self.events.iter().filter(|event| event.days.is_none() && event.is_on(date));
        let instant = |event: &Event| {
            let zone = event.zone.as_ref().unwrap_or(site);
            once(zone, date.to_datetime(event.start.time()))
        };
        begins.filter_map(|event| Some((instant(event)?, event.summary.clone()))).collect()
    }

    /// Whether an event without a time includes this day.
    pub fn has_day(&self, date: Date) -> bool {
        self.events.iter().any(|event| {
            let days = event.days.unwrap_or(0).min(MAX_DAYS);
            (0..days).any(|back| date.checked_sub(back.days()).is_ok_and(|it| event.is_on(it)))
        })
    }

    /// Summaries of events with a time.
    pub(crate) fn summaries(&self) -> BTreeSet<&str> {
        let timed = self.events.iter().filter(|event| event.days.is_none());
        timed.map(|event| event.summary.as_str()).collect()
    }
}

/// Maximum days of an event: a year's holidays.
const MAX_DAYS: i32 = 400;

impl Event {
    /// `None` for a cancelled one.
    fn of(lines: &[Line<'_>], number: usize) -> Result<Option<Self>, InvalidCalendar> {
        let find = |name: &str| lines.iter().find(|line| line.name == name);
        if find("STATUS").is_some_and(|status| status.value == "CANCELLED") {
            return Ok(None);
        }
        let start = find("DTSTART");
        let start = start.ok_or_else(|| InvalidCalendar {
            line: number,
            what: "an event has no DTSTART".to_owned(),
        })?;
        let (begin, has_time, zone) = start.time()?;
        let end = find("DTEND").map(Line::time).transpose()?;
        let days = match (has_time, end) {
            (true, _) => None,
            (false, None) => Some(1),
            (false, Some((end, ..))) => {
                let until = begin.date().until(end.date()).map_or(1, |span| span.get_days());
                Some(until.max(1))
            }
        };
        let rule = find("RRULE").map(|line| Recurrence::read(line, begin)).transpose()?;
        let mut except = BTreeSet::new();
        for line in lines.iter().filter(|line| line.name == "EXDATE") {
            for value in line.value.split(',') {
                except.insert(line.with(value).time()?.0.date());
            }
        }
        let summary = find("SUMMARY").map_or(String::new(), |line| plain(line.value));
        Ok(Some(Self { summary, start: begin, days, zone, rule, except }))
    }

    fn is_on(&self, date: Date) -> bool {
        let first = self.start.date();
        if date < first || self.except.contains(&date) {
            return false;
        }
        let Some(rule) = &self.rule else { return date == first };
        rule.until.is_none_or(|until| date <= until) && rule.matches(first, date)
    }
}

impl Recurrence {
    fn read(line: &Line<'_>, start: DateTime) -> Result<Self, InvalidCalendar> {
        let (mut every, mut weekdays) = (None, BTreeSet::new());
        let (mut interval, mut count, mut until) = (1, None, None);
        let number = |text: &str| {
            let read = text.parse::<u16>().ok().filter(|number| (1..=1000).contains(number));
            read.ok_or_else(|| line.wrong(&format!("{text:?} is not a number from 1 to 1000")))
        };
        for part in line.value.split(';').filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').ok_or_else(|| line.wrong("invalid RRULE"))?;
            match (key.to_ascii_uppercase().as_str(), value) {
                ("FREQ", "DAILY") => every = Some(Every::Day),
                ("FREQ", "WEEKLY") => every = Some(Every::Week(BTreeSet::new())),
                ("FREQ", "YEARLY") => every = Some(Every::Year),
                ("INTERVAL", text) => interval = i32::from(number(text)?),
                ("COUNT", text) => count = Some(usize::from(number(text)?)),
                ("UNTIL", text) => until = Some(line.with(text).time()?.0.date()),
                ("WKST", "MO") => {}
                ("BYDAY", days) => {
                    for day in days.split(',') {
                        weekdays.insert(
                            weekday(day)
                                .ok_or_else(|| line.wrong("BYDAY must have days such as MO,TU"))?,
                        );
                    }
                }
                _ => {
                    return Err(line.wrong(&format!(
                        "unsupported {part}; use FREQ=DAILY, WEEKLY or YEARLY with INTERVAL, COUNT, UNTIL, BYDAY"
                    )));
                }
            }
        }
        let every = match every.ok_or_else(|| line.wrong("RRULE has no FREQ"))? {
            Every::Week(_) if weekdays.is_empty() => {
                Every::Week(BTreeSet::from([start.weekday().to_monday_zero_offset()]))
            }
            Every::Week(_) => Every::Week(weekdays),
            // RFC 5545 §3.3.10: BYDAY limits days.
            Every::Day if !weekdays.is_empty() && interval == 1 => Every::Week(weekdays),
            _ if !weekdays.is_empty() => return Err(line.wrong("BYDAY needs FREQ=WEEKLY")),
            other => other,
        };
        let mut rule = Self { every, interval, until };
        if let Some(count) = count {
            rule.until = rule.last_of(start.date(), count).min(until.or(Some(Date::MAX)));
        }
        Ok(rule)
    }

    /// The last of `count` days. Steps by the interval: day after day would take seconds.
    fn last_of(&self, first: Date, count: usize) -> Option<Date> {
        let is_day = |day: &Date| *day >= first && self.matches(first, *day);
        match &self.every {
            Every::Day => first.series(self.interval.days()).take(count).last(),
            Every::Year => first.series(self.interval.years()).filter(is_day).take(count).last(),
            Every::Week(_) => {
                let weeks = monday(first).series(self.interval.weeks());
                let days = weeks.flat_map(|monday| monday.series(1.day()).take(7));
                days.filter(is_day).take(count).last()
            }
        }
    }

    fn matches(&self, first: Date, date: Date) -> bool {
        let days = |from: Date| from.until(date).map_or(0, |span| span.get_days());
        match &self.every {
            Every::Day => days(first) % self.interval == 0,
            Every::Week(weekdays) => {
                let weekday = date.weekday().to_monday_zero_offset();
                weekdays.contains(&weekday) && days(monday(first)) / 7 % self.interval == 0
            }
            Every::Year => {
                let same = (date.month(), date.day()) == (first.month(), first.day());
                same && i32::from(date.year() - first.year()) % self.interval == 0
            }
        }
    }
}

/// Begin of the week.
fn monday(date: Date) -> Date {
    let weekday = i32::from(date.weekday().to_monday_zero_offset());
    date.checked_sub(weekday.days()).unwrap_or(date)
}

impl<'a> Line<'a> {
    fn read(number: usize, text: &'a str) -> Result<Self, InvalidCalendar> {
        let invalid = || InvalidCalendar { line: number, what: "not NAME:VALUE".to_owned() };
        // Parameters can have colons in quotes.
        let mut quoted = false;
        let colon = text.char_indices().find(|(_, c)| {
            quoted ^= *c == '"';
            *c == ':' && !quoted
        });
        let (at, _) = colon.ok_or_else(invalid)?;
        let mut parts = text[..at].split(';');
        let name = parts.next().unwrap_or_default().to_ascii_uppercase();
        let parameters = parts.filter_map(|part| part.split_once('='));
        let parameters = parameters
            .map(|(key, value)| (key.to_ascii_uppercase(), value.trim_matches('"')))
            .collect();
        Ok(Self { number, name, parameters, value: &text[at + 1..] })
    }

    /// One of several values.
    fn with<'b>(&self, value: &'b str) -> Line<'b>
    where
        'a: 'b,
    {
        let (number, name, parameters) = (self.number, self.name.clone(), self.parameters.clone());
        Line { number, name, parameters, value }
    }

    fn wrong(&self, what: &str) -> InvalidCalendar {
        InvalidCalendar { line: self.number, what: format!("{}: {what}", self.name) }
    }

    /// A date or a time, whether it is a time, and its time zone.
    fn time(&self) -> Result<(DateTime, bool, Option<TimeZone>), InvalidCalendar> {
        let wrong =
            || self.wrong("write a time such as 20260105T080000, or a date such as 20260105");
        let (text, is_utc) = match self.value.strip_suffix('Z') {
            Some(text) => (text, true),
            None => (self.value, false),
        };
        let (day, time) = match text.split_once('T') {
            Some((day, time)) => (day, Some(time)),
            None => (text, None),
        };
        let day = Date::strptime("%Y%m%d", day).map_err(|_| wrong())?;
        let parsed = time.map(|time| Time::strptime("%H%M%S", time)).transpose();
        let parsed = parsed.map_err(|_| wrong())?;
        let named = self.parameters.iter().find(|(key, _)| key == "TZID");
        let zone = match (is_utc, named) {
            (true, _) => Some(TimeZone::UTC),
            (false, Some((_, name))) => {
                let unknown = |_| self.wrong(&format!("unknown time zone {name:?}"));
                Some(TimeZone::get(name).map_err(unknown)?)
            }
            (false, None) => None,
        };
        Ok((day.to_datetime(parsed.unwrap_or(Time::midnight())), parsed.is_some(), zone))
    }
}

/// Lines with their numbers; a line that begins with a space continues the previous line.
fn unfolded(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        match (line.strip_prefix([' ', '\t']), lines.last_mut()) {
            (Some(more), Some((_, last))) => last.push_str(more),
            _ if line.trim().is_empty() => {}
            _ => lines.push((at + 1, line.to_owned())),
        }
    }
    lines
}

/// Text without the escapes of RFC 5545 §3.3.11.
fn plain(text: &str) -> String {
    let text = text.replace("\\n", " ").replace("\\N", " ");
    let text = text.replace("\\,", ",").replace("\\;", ";").replace("\\\\", "\\");
    text.trim().to_owned()
}

fn weekday(text: &str) -> Option<i8> {
    let day = match text {
        "MO" => Weekday::Monday,
        "TU" => Weekday::Tuesday,
        "WE" => Weekday::Wednesday,
        "TH" => Weekday::Thursday,
        "FR" => Weekday::Friday,
        "SA" => Weekday::Saturday,
        "SU" => Weekday::Sunday,
        _ => return None,
    };
    Some(day.to_monday_zero_offset())
}
