//! The schedule.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;

use super::Checker;
use crate::Site;
use crate::mistake::MistakeKind;
use crate::schedule::{Cron, RuleAction, RuleTimes, ScheduleRule, WEEKDAYS};
use crate::section::{At, Section};

const RULE: &[&str] = &[
    "at", "days", "cron", "calendar", "except", "holidays", "zones", "station", "message", "preset",
];

const ZONE: &str = "a name of the IANA time zone database, such as \"Europe/Berlin\"";
const CLOCK: &str = "\"synchronized\" or \"any\"";
const AT: &str = "a time of day, such as \"08:00\" or \"08:00:30\", or a list of them";
const DAYS: &str = "a list of days, such as [\"mon\", \"tue\"]";
const DATES: &str = "a list of dates, such as [\"2026-12-24\"]";
const CRON: &str = "five fields, such as \"0 8 * * mon-fri\"";
const CALENDAR: &str = "the path of an iCalendar file, such as \"bells.ics\"";
const ZONES: &str = "a list of zones and groups, such as [\"hall\"]";

impl<'a> Checker<'a> {
    /// The time zone, which a schedule needs.
    pub(super) fn timezone(&mut self, file: &Section<'a>) -> Option<TimeZone> {
        if file.has("schedule") {
            file.require("timezone", "\"Europe/Berlin\"", &mut self.mistakes);
        }
        let read = |name: &str| TimeZone::get(name).ok();
        file.read("timezone", ZONE, &mut self.mistakes, read).map(|zone| zone.value)
    }

    /// Whether the schedule plays with an unsynchronized clock.
    pub(super) fn any_clock(&mut self, file: &Section<'a>) -> bool {
        let read = |text: &str| match text {
            "synchronized" => Some(false),
            "any" => Some(true),
            _ => None,
        };
        let given = file.read("schedule-clock", CLOCK, &mut self.mistakes, read);
        given.is_some_and(|given| given.value)
    }

    pub(super) fn schedule(
        &mut self,
        file: &Section<'a>,
        site: &Site,
    ) -> BTreeMap<String, ScheduleRule> {
        let mut rules = BTreeMap::new();
        for (name, rule) in file.tables("schedule", RULE, &mut self.mistakes) {
            self.exactly_one(&rule, &["at", "cron", "calendar"], "at, cron and calendar");
            if rule.has("days") && !rule.has("at") {
                let kind = MistakeKind::NotApplicable { key: "days", what: "this rule" };
                self.mistakes.add(rule.at, kind);
            }
            let times = self.times(&rule);
            let except = self.dates(&rule);
            let holidays = rule.text("holidays", CALENDAR, &mut self.mistakes);
            let holidays = holidays.map(|path| PathBuf::from(path.value));
            let action = self.action(&rule, site);
            rules.insert(name.to_owned(), ScheduleRule { times, except, holidays, action });
        }
        rules
    }

    fn times(&mut self, rule: &Section<'a>) -> RuleTimes {
        if rule.has("cron") {
            let cron = rule.parse("cron", CRON, &mut self.mistakes, str::parse::<Cron>);
            // In place of an invalid value.
            return cron.map_or(RuleTimes::Calendar(PathBuf::new()), RuleTimes::Cron);
        }
        if rule.has("calendar") {
            let path = rule.text("calendar", CALENDAR, &mut self.mistakes);
            return RuleTimes::Calendar(path.map(|it| it.value.into()).unwrap_or_default());
        }
        let time = |text: &str| {
            let mut formats = ["%H:%M", "%H:%M:%S"].into_iter();
            formats.find_map(|format| Time::strptime(format, text).ok())
        };
        let given = rule.texts("at", AT, &mut self.mistakes).unwrap_or_default();
        let at = self.values("at", AT, given, time);
        let given = rule.list("days", DAYS, &mut self.mistakes);
        let day = |text: &str| WEEKDAYS.iter().position(|day| *day == text);
        let mut days = [given.is_none(); 7];
        for day in self.values("days", DAYS, given.unwrap_or_default(), day) {
            days[day] = true;
        }
        RuleTimes::Weekly { at, days }
    }

    fn dates(&mut self, rule: &Section<'a>) -> BTreeSet<Date> {
        let given = rule.list("except", DATES, &mut self.mistakes).unwrap_or_default();
        let date = |text: &str| Date::strptime("%Y-%m-%d", text).ok();
        self.values("except", DATES, given, date).into_iter().collect()
    }

    /// Valid values of a list. Reports the invalid values.
    fn values<T>(
        &mut self,
        key: &'static str,
        write: &'static str,
        given: Vec<At<&'a str>>,
        read: impl Fn(&str) -> Option<T>,
    ) -> Vec<T> {
        let mut values = Vec::new();
        for At { at, value } in given {
            match read(value) {
                Some(value) => values.push(value),
                None => {
                    let value = crate::mistake::shown(value);
                    self.mistakes.add(at, MistakeKind::Value { key: key.into(), value, write });
                }
            }
        }
        values
    }

    fn action(&mut self, rule: &Section<'a>, site: &Site) -> RuleAction {
        let preset = rule.text("preset", "the name of a preset", &mut self.mistakes);
        if let Some(preset) = preset {
            for key in ["message", "station", "zones"].into_iter().filter(|key| rule.has(key)) {
                let kind = MistakeKind::NotApplicable { key, what: "a rule with a preset" };
                self.mistakes.add(rule.at, kind);
            }
            let known = self.names.presets.contains(preset.value);
            self.known("preset", preset, known, |names| names.presets.iter().copied().collect());
            return RuleAction::Preset(preset.value.to_owned());
        }
        rule.require("zones", "[\"ZONE\"]", &mut self.mistakes);
        rule.require("station", "\"STATION\"", &mut self.mistakes);
        // The summary of an event names the message.
        if !rule.has("calendar") {
            self.exactly_one(rule, &["message", "preset"], "message and preset");
        }
        let message = rule.text("message", "the name of a message", &mut self.mistakes);
        if let Some(message) = message {
            let known = self.names.messages.contains(message.value);
            self.known("message", message, known, |names| names.messages.iter().copied().collect());
        }
        let zones = self.zones_and_groups(rule, "zones", ZONES);
        let station = rule.text("station", "the name of a station", &mut self.mistakes);
        if let Some(station) = station {
            let known = self.names.stations.contains(station.value);
            self.known("station", station, known, |names| names.stations.iter().copied().collect());
            self.permitted(station.value, &zones, site);
        }
        RuleAction::Announce {
            zones: zones.into_iter().map(|zone| zone.value.to_owned()).collect(),
            station: station.map(|station| station.value.to_owned()).unwrap_or_default(),
            message: message.map(|message| message.value.to_owned()),
        }
    }

    /// Reports zones that the station may not announce to.
    fn permitted(&mut self, station: &str, zones: &[At<&'a str>], site: &Site) {
        let Some(to) = site.stations.get(station).map(|station| &station.to) else { return };
        let permitted = site.zones_of(to.iter().map(String::as_str));
        for name in zones {
            let mut zones = site.zones_of([name.value]).into_iter();
            if let Some(zone) = zones.find(|zone| !permitted.contains(zone)) {
                let (station, zone) = (station.to_owned(), zone.to_owned());
                self.mistakes.add(name.at, MistakeKind::StationNotAllowed { station, zone });
            }
        }
    }
}
