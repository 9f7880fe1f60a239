//! Instants over daylight saving time, leap days, exceptions; decisions over restarts.

use super::player::Journal;
use super::*;
use crate::mistake::MistakeKind;

const BUILDING: &str = r#"epoch = 1
announcements = "239.255.77.1:5004"
timezone = "Europe/Berlin"
[priorities]
page = 100
[node.east]
host = "127.0.0.1"
[node.east.card.main]
device = "null:"
channels = 4
[zone.hall]
number = 1
node = "east"
card = "main"
channels = [1]
[zone.gym]
number = 2
node = "east"
card = "main"
channels = [2]
max-volume = "-6dB"
[group.all]
number = 3
members = ["hall", "gym"]
[station.bell]
node = "east"
priority = "page"
rank = 1
to = ["hall"]
[message.gong]
file = "gong.wav"
[preset.evening]
all = { volume = "-10dB" }
gym = { mute = true }
[schedule.rule]
"#;

const GONG: &str = "zones = [\"hall\"]\nstation = \"bell\"\nmessage = \"gong\"\n";

fn site(rule: &str) -> Site {
    Site::check(format!("{BUILDING}{rule}\n{GONG}").as_bytes()).unwrap()
}

fn schedule(rule: &str) -> Schedule {
    let (schedule, faults) = Schedule::load(&site(rule), Path::new(""));
    assert_eq!(faults, []);
    schedule
}

fn in_zone(rule: &str, zone: &str) -> Schedule {
    let text = format!("{BUILDING}{rule}\n{GONG}").replace("Europe/Berlin", zone);
    Schedule::load(&Site::check(text.as_bytes()).unwrap(), Path::new("")).0
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn times(schedule: &Schedule, after: &str, count: usize) -> Vec<String> {
    schedule.plays(at(after), count).iter().map(|play| play.at.to_string()).collect()
}

#[test]
fn weekly_rule_keeps_its_local_time_over_daylight_saving() {
    let rule = schedule("at = \"08:00\"\ndays = [\"mon\", \"fri\"]");
    // The clocks change on 29 March and on 25 October.
    let spring = ["2026-03-27T07:00:00Z", "2026-03-30T06:00:00Z", "2026-04-03T06:00:00Z"];
    assert_eq!(times(&rule, "2026-03-24T00:00:00Z", 3), spring);
    let autumn = ["2026-10-23T06:00:00Z", "2026-10-26T07:00:00Z"];
    assert_eq!(times(&rule, "2026-10-20T00:00:00Z", 2), autumn);
    let seconds = schedule("at = \"08:00:30\"");
    assert_eq!(times(&seconds, "2026-01-05T00:00:00Z", 1), ["2026-01-05T07:00:30Z"]);
}

#[test]
fn times_of_several_rules_are_in_order() {
    let second = format!("{GONG}[schedule.second]\nat = [\"07:00\", \"07:30\"]");
    let (schedule, _) = Schedule::load(&site(&format!("at = \"08:00\"\n{second}")), Path::new(""));
    let days = ["2026-01-05T06:00:00Z", "2026-01-05T06:30:00Z", "2026-01-05T07:00:00Z"];
    assert_eq!(times(&schedule, "2026-01-05T00:00:00Z", 3), days);
}

#[test]
fn exception_is_a_day_of_the_building() {
    // In UTC, the play of 5 January is on the day before.
    let rule = schedule("at = \"00:30\"\nexcept = [\"2026-01-05\"]");
    let days = ["2026-01-03T23:30:00Z", "2026-01-05T23:30:00Z"];
    assert_eq!(times(&rule, "2026-01-03T12:00:00Z", 2), days);
}

#[test]
fn time_in_the_gap_plays_at_its_end_once() {
    let rule = schedule("at = [\"02:10\", \"02:30\"]");
    let days = ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:10:00Z"];
    assert_eq!(times(&rule, "2026-03-28T01:20:00Z", 3), days);
    // New York: from 02:00 to 03:00 on 8 March.
    let rule = in_zone("at = \"02:30\"", "America/New_York");
    let days = ["2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"];
    assert_eq!(times(&rule, "2026-03-07T12:00:00Z", 2), days);
}

#[test]
fn time_that_exists_twice_plays_at_the_first_only() {
    let rule = schedule("at = \"02:30\"");
    let days = ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"];
    assert_eq!(times(&rule, "2026-10-24T12:00:00Z", 2), days);
    let rule = in_zone("cron = \"30 1 * * *\"", "America/New_York");
    let days = ["2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"];
    assert_eq!(times(&rule, "2026-10-31T12:00:00Z", 2), days);
}

#[test]
fn leap_day_is_found_years_ahead() {
    let rule = schedule("cron = \"0 12 29 2 *\"");
    let days = ["2096-02-29T11:00:00Z", "2104-02-29T11:00:00Z"];
    assert_eq!(times(&rule, "2092-03-01T00:00:00Z", 2), days);
    let never = schedule("cron = \"0 12 30 2 *\"");
    assert_eq!(times(&never, "2026-01-01T00:00:00Z", 1), [""; 0]);
}

#[test]
fn exceptions_and_holidays_have_no_plays() {
    let folder = tempfile::tempdir().unwrap();
    let holidays = "BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART;VALUE=DATE:20260102\n\
                    DTEND;VALUE=DATE:20260104\nSUMMARY:Holidays\nEND:VEVENT\n\
                    BEGIN:VEVENT\nDTSTART:20260106T090000\nSUMMARY:An hour\nEND:VEVENT\n\
                    END:VCALENDAR\n";
    std::fs::write(folder.path().join("h.ics"), holidays).unwrap();
    let site = site("at = \"12:00\"\nexcept = [\"2026-01-05\"]\nholidays = \"h.ics\"");
    let (schedule, faults) = Schedule::load(&site, folder.path());
    assert_eq!(faults, []);
    let days = ["2026-01-01T11:00:00Z", "2026-01-04T11:00:00Z", "2026-01-06T11:00:00Z"];
    assert_eq!(times(&schedule, "2026-01-01T00:00:00Z", 3), days);
    // Without its holidays, a rule would play on them.
    let (schedule, faults) = Schedule::load(&site, Path::new("/nowhere"));
    assert_eq!((faults.len(), schedule.next(at("2026-01-01T00:00:00Z"))), (1, Vec::new()));
}

#[test]
fn calendar_events_have_their_own_time_zone_and_message() {
    let folder = tempfile::tempdir().unwrap();
    let bells = "BEGIN:VCALENDAR\r\nBEGIN:VTIMEZONE\r\nTZID:x\r\nBEGIN:STANDARD\r\n\
        DTSTART:19701025T030000\r\nEND:STANDARD\r\nEND:VTIMEZONE\r\n\
        BEGIN:VEVENT\r\nDTSTART;TZID=America/New_York:20260302T080000\r\n\
        RRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE;UNTIL=20260318T235959Z\r\n\
        EXDATE;TZID=America/New_York:20260316T080000\r\nSUMMARY:go\r\n ng\r\n\
        BEGIN:VALARM\r\nSUMMARY:other\r\nEND:VALARM\r\nEND:VEVENT\r\n\
        BEGIN:VEVENT\r\nDTSTART:20260303T090000\r\nRRULE:FREQ=DAILY;COUNT=2\r\n\
        SUMMARY:bell\\, long\r\nEND:VEVENT\r\n\
        BEGIN:VEVENT\r\nDTSTART:20260301T090000Z\r\nSTATUS:CANCELLED\r\nEND:VEVENT\r\n\
        END:VCALENDAR\r\n";
    std::fs::write(folder.path().join("bells.ics"), bells).unwrap();
    let rule = "calendar = \"bells.ics\"\nzones = [\"hall\"]\nstation = \"bell\"";
    let site = Site::check(format!("{BUILDING}{rule}").as_bytes()).unwrap();
    let (schedule, faults) = Schedule::load(&site, folder.path());
    assert_eq!(faults.len(), 1, "no message 'bell, long': {faults:?}");
    let plays = schedule.plays(at("2026-02-01T00:00:00Z"), 9);
    let message = |play: &Play| match &play.action {
        RuleAction::Announce { message, .. } => message.clone().unwrap(),
        RuleAction::Preset(_) => panic!("{play:?}"),
    };
    let plays: Vec<_> = plays.iter().map(|play| (play.at.to_string(), message(play))).collect();
    let expected = [
        ("2026-03-02T13:00:00Z", "gong"),
        ("2026-03-03T08:00:00Z", "bell, long"),
        ("2026-03-04T08:00:00Z", "bell, long"),
        ("2026-03-04T13:00:00Z", "gong"),
        ("2026-03-18T12:00:00Z", "gong"),
    ];
    assert_eq!(plays, expected.map(|(at, name)| (at.to_owned(), name.to_owned())));
}

#[test]
fn first_of_events_in_other_time_zones_is_found() {
    let event = |start: &str| format!("BEGIN:VEVENT\nDTSTART{start}\nSUMMARY:gong\nEND:VEVENT\n");
    let new_york = event(";TZID=America/New_York:20260110T230000");
    let plays = |events: &[&str], after: &str| {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("bells.ics"), events.concat()).unwrap();
        let rule = "calendar = \"bells.ics\"\nzones = [\"hall\"]\nstation = \"bell\"";
        let site = Site::check(format!("{BUILDING}{rule}").as_bytes()).unwrap();
        times(&Schedule::load(&site, folder.path()).0, after, 3)
    };
    // It is the 11th already where the building is.
    let alone = plays(&[&new_york], "2026-01-11T00:30:00Z");
    assert_eq!(alone, ["2026-01-11T04:00:00Z"]);
    let (tokyo, utc) = (event(";TZID=Asia/Tokyo:20260111T080000"), event(":20260111T010000Z"));
    let all = plays(&[&new_york, &utc, &tokyo], "2026-01-10T00:00:00Z");
    assert_eq!(all, ["2026-01-10T23:00:00Z", "2026-01-11T01:00:00Z", "2026-01-11T04:00:00Z"]);
}

#[test]
fn parts_of_an_alarm_are_not_those_of_its_event() {
    let alarm = "BEGIN:VALARM\nSUMMARY:alarm\nEND:VALARM\n";
    let text = format!("BEGIN:VEVENT\n{alarm}DTSTART:20260301T090000\nSUMMARY:gong\nEND:VEVENT\n");
    let calendar = Calendar::read(&text).unwrap();
    assert_eq!(calendar.summaries().into_iter().collect::<Vec<_>>(), ["gong"]);
}

#[test]
fn too_many_events_are_refused() {
    let events = |count| "BEGIN:VEVENT\nDTSTART:20260301\nEND:VEVENT\n".repeat(count);
    assert!(Calendar::read(&events(10_000)).is_ok());
    assert_eq!(Calendar::read(&events(10_001)).unwrap_err().line, 30_003);
}

/// Days of a recurring day until 2033.
fn days(start: &str, rule: &str) -> Vec<String> {
    let event = format!("BEGIN:VEVENT\nDTSTART;VALUE=DATE:{start}\nRRULE:{rule}\nEND:VEVENT\n");
    let calendar = Calendar::read(&event).unwrap();
    let days = jiff::civil::date(2024, 1, 1).series(1.day()).take(3300);
    days.filter(|day| calendar.has_day(*day)).map(|day| day.to_string()).collect()
}

#[test]
fn rules_of_each_frequency_end_at_their_count_or_date() {
    // Weeks begin on Monday, so the Monday before the first Wednesday does not count.
    let weeks = ["2026-03-04", "2026-03-16", "2026-03-18"];
    assert_eq!(days("20260304", "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE;COUNT=3"), weeks);
    assert_eq!(days("20240229", "FREQ=YEARLY;COUNT=2"), ["2024-02-29", "2028-02-29"]);
    let years = ["2026-12-24", "2029-12-24", "2032-12-24"];
    assert_eq!(days("20261224", "FREQ=YEARLY;INTERVAL=3"), years);
    let third = ["2026-01-01", "2026-01-04", "2026-01-07"];
    assert_eq!(days("20260101", "FREQ=DAILY;INTERVAL=3;COUNT=3"), third);
    assert_eq!(days("20260101", "FREQ=DAILY;INTERVAL=3;UNTIL=20260107"), third);
    assert_eq!(days("20260101", "FREQ=DAILY;INTERVAL=3;COUNT=9;UNTIL=20260108"), third);
    assert_eq!(days("20260105", "FREQ=DAILY;BYDAY=MO,WE;COUNT=2"), ["2026-01-05", "2026-01-07"]);
    assert_eq!(days("20260101", "FREQ=DAILY;INTERVAL=1000;COUNT=1000").len(), 3);
}

#[test]
fn invalid_calendars_are_reported_with_their_line() {
    let event = |line: &str| format!("BEGIN:VEVENT\nDTSTART:20260101T080000\n{line}\nEND:VEVENT\n");
    let at = |text: &str| Calendar::read(text).unwrap_err().line;
    assert_eq!(at(&event("RRULE:FREQ=MONTHLY")), 3);
    assert_eq!(at(&event("RRULE:FREQ=DAILY;INTERVAL=0")), 3);
    assert_eq!(at(&event("RRULE:FREQ=YEARLY;BYDAY=MO")), 3);
    assert_eq!(at(&event("EXDATE:yesterday")), 3);
    assert_eq!(at(&event("no colon")), 3);
    assert_eq!(at("BEGIN:VEVENT\nDTSTART;TZID=Nowhere:20260101T080000\nEND:VEVENT\n"), 2);
    assert_eq!(at("BEGIN:VEVENT\nSUMMARY:x\nEND:VEVENT\n"), 1);
    assert!(Calendar::read("\u{feff}BEGIN:VCALENDAR\n garbage: \n").is_ok());
}

#[test]
fn damaged_calendars_do_not_panic() {
    let text = "BEGIN:VEVENT\nDTSTART;TZID=Europe/Berlin:99991230T080000\n\
                RRULE:FREQ=WEEKLY;INTERVAL=3;COUNT=9;BYDAY=MO\nEXDATE:00010101T000000Z\nEND:VEVENT\n";
    let mut read = 0;
    for at in 0..text.len() {
        for other in ["", "9", ":", ";", "=", "\n", "ä", "\""] {
            let damaged = format!("{}{other}{}", &text[..at], &text[at + 1..]);
            let Ok(calendar) = Calendar::read(&damaged) else { continue };
            read += 1;
            for day in [Date::MIN, jiff::civil::date(2026, 3, 29), Date::MAX] {
                calendar.instants(day, &TimeZone::UTC);
                calendar.has_day(day);
            }
        }
    }
    assert!(read > 0);
}

#[test]
fn announcements_at_one_time_in_one_zone_conflict() {
    let second = |cron: &str, zone: &str| {
        let other = GONG.replace("hall", zone);
        let rule = format!("at = \"08:00\"\n{GONG}[schedule.second]\ncron = \"{cron}\"\n{other}");
        let text = format!("{BUILDING}{rule}").replace("to = [\"hall\"]", "to = [\"all\"]");
        let site = Site::check(text.as_bytes()).unwrap();
        let (schedule, _) = Schedule::load(&site, Path::new(""));
        let plays = schedule.plays(at("2026-01-01T00:00:00Z"), 100);
        schedule.conflicts(&site, &plays).len()
    };
    assert_eq!(second("0 8 1 * *", "all"), 1);
    assert_eq!(second("0 8 1 * *", "gym"), 0);
    assert_eq!(second("0 9 1 * *", "all"), 0);
}

fn daily() -> Schedule {
    schedule("at = \"08:00\"")
}

/// Names of the steps.
fn polled(player: &mut Player, now: &str, is_synchronized: bool) -> Vec<String> {
    let steps = player.poll(at(now), is_synchronized).into_iter();
    let named = steps.map(|step| match step {
        Step::Play(play) => format!("play {}", play.at),
        Step::Skip(play, reason) => format!("{reason:?} {}", play.at),
    });
    named.collect()
}

#[test]
fn each_time_plays_once_at_its_time() {
    let mut player = Player::new(daily(), Journal::new(), at("2026-01-05T06:00:00Z"));
    assert_eq!(polled(&mut player, "2026-01-05T06:59:56Z", true), [""; 0]);
    let play = "play 2026-01-05T07:00:00Z";
    assert_eq!(polled(&mut player, "2026-01-05T06:59:57Z", true), [play]);
    assert_eq!(polled(&mut player, "2026-01-05T07:00:00Z", true), [""; 0]);
    // Set back by an hour.
    assert_eq!(polled(&mut player, "2026-01-05T06:00:00Z", true), [""; 0]);
    assert_eq!(polled(&mut player, "2026-01-05T07:00:00Z", true), [""; 0]);
    let play = "play 2026-01-06T07:00:00Z";
    assert_eq!(polled(&mut player, "2026-01-06T06:59:59Z", true), [play]);
}

#[test]
fn clock_set_back_plays_what_it_had_passed() {
    let mut player = Player::new(daily(), Journal::new(), at("2026-01-05T12:00:00Z"));
    assert_eq!(polled(&mut player, "2026-01-05T06:30:00Z", true), [""; 0]);
    let play = "play 2026-01-05T07:00:00Z";
    assert_eq!(polled(&mut player, "2026-01-05T06:59:58Z", true), [play]);
}

#[test]
fn restart_in_the_second_of_a_play_repeats_nothing() {
    let mut player = Player::new(daily(), Journal::new(), at("2026-01-05T06:59:00Z"));
    assert_eq!(polled(&mut player, "2026-01-05T06:59:58Z", true).len(), 1);
    let journal = player.journal().clone();
    let mut again = Player::new(daily(), journal, at("2026-01-05T07:00:01Z"));
    assert_eq!(polled(&mut again, "2026-01-05T07:00:01Z", true), [""; 0]);
    // A crash before the journal was stored.
    let mut again = Player::new(daily(), Journal::new(), at("2026-01-05T07:00:01Z"));
    let play = "play 2026-01-05T07:00:00Z";
    assert_eq!(polled(&mut again, "2026-01-05T07:00:01Z", true), [play]);
}

#[test]
fn missed_time_is_skipped() {
    let mut player = Player::new(daily(), Journal::new(), at("2026-01-05T06:00:00Z"));
    // Suspended for three days.
    let missed = "Missed 2026-01-05T07:00:00Z";
    assert_eq!(polled(&mut player, "2026-01-08T07:00:06Z", true), [missed]);
    assert_eq!(polled(&mut player, "2026-01-08T07:00:07Z", true), [""; 0]);
    let play = "play 2026-01-09T07:00:00Z";
    assert_eq!(polled(&mut player, "2026-01-09T07:00:04Z", true), [play]);
}

#[test]
fn time_missed_before_a_start_is_reported_once() {
    let journal = Journal::from([("rule".to_owned(), at("2026-01-03T07:00:00Z").as_second())]);
    let now = "2026-01-05T08:00:00Z";
    let mut player = Player::new(daily(), journal, at(now));
    assert_eq!(polled(&mut player, now, true), ["Missed 2026-01-05T07:00:00Z"]);
    let mut again = Player::new(daily(), player.journal().clone(), at(now));
    assert_eq!(polled(&mut again, now, true), [""; 0]);
}

fn nightly() -> Schedule {
    let text = format!("{BUILDING}at = \"22:00\"\npreset = \"evening\"\n");
    Schedule::load(&Site::check(text.as_bytes()).unwrap(), Path::new("")).0
}

#[test]
fn preset_that_was_missed_applies_late_once() {
    let journal = Journal::from([("rule".to_owned(), at("2026-01-03T21:00:00Z").as_second())]);
    let now = "2026-01-05T23:00:00Z";
    let mut player = Player::new(nightly(), journal, at(now));
    // Without a network, the clock of a machine that starts is not synchronized.
    assert_eq!(polled(&mut player, now, false), [""; 0]);
    assert_eq!(polled(&mut player, "2026-01-05T23:01:00Z", true), ["play 2026-01-05T21:00:00Z"]);
    assert_eq!(polled(&mut player, "2026-01-05T23:01:01Z", true), [""; 0]);
    let mut again = Player::new(nightly(), player.journal().clone(), at(now));
    assert_eq!(polled(&mut again, now, true), [""; 0]);
    let mut first = Player::new(nightly(), Journal::new(), at(now));
    assert_eq!(polled(&mut first, now, true), [""; 0]);
}

#[test]
fn preset_applies_at_its_time_and_after_a_suspension() {
    let mut player = Player::new(nightly(), Journal::new(), at("2026-01-05T20:00:00Z"));
    assert_eq!(polled(&mut player, "2026-01-05T20:59:58Z", true), [""; 0]);
    assert_eq!(polled(&mut player, "2026-01-05T21:00:00Z", true), ["play 2026-01-05T21:00:00Z"]);
    assert_eq!(polled(&mut player, "2026-01-07T09:00:00Z", true), ["play 2026-01-06T21:00:00Z"]);
}

#[test]
fn unsynchronized_clock_plays_nothing() {
    let mut player = Player::new(daily(), Journal::new(), at("1970-01-01T00:00:00Z"));
    assert_eq!(polled(&mut player, "1970-01-01T07:00:00Z", false), ["Clock 1970-01-01T07:00:00Z"]);
    assert_eq!(polled(&mut player, "2026-01-05T06:59:58Z", true), ["Missed 1970-01-02T07:00:00Z"]);
    assert_eq!(polled(&mut player, "2026-01-05T06:59:59Z", true), ["play 2026-01-05T07:00:00Z"]);
}

#[test]
fn journal_of_a_wrong_clock_blocks_nothing() {
    let journal = Journal::from([("rule".to_owned(), at("2030-01-01T07:00:00Z").as_second())]);
    let mut player = Player::new(daily(), journal, at("2026-01-05T06:59:00Z"));
    assert_eq!(polled(&mut player, "2026-01-05T06:59:59Z", true), ["play 2026-01-05T07:00:00Z"]);
}

#[test]
fn preset_has_a_change_for_each_zone() {
    let site = site("at = \"08:00\"");
    let evening = &site.presets["evening"];
    let change = |zone: &str, muted| tautline_api::v1::ZoneChange {
        zone: zone.to_owned(),
        volume: Some("-10dB".to_owned()),
        muted,
        ..Default::default()
    };
    assert_eq!(*evening, [change("gym", Some(true)), change("hall", None)]);
    let text = "[source.radio]\nstream = \"rtp://239.1.2.3:5004\"\n[preset.evening]\nhall = { source \
                = \"radio\", mute = false, page-volume = \"-9dB\" }\n";
    let text = BUILDING.split("[preset.evening]").next().unwrap().to_owned() + text;
    let [hall] = &Site::check(text.as_bytes()).unwrap().presets["evening"][..] else { panic!() };
    assert_eq!((hall.source.as_deref(), hall.muted), (Some("radio"), Some(false)));
    assert_eq!((hall.page_volume.as_deref(), hall.volume.as_deref()), (Some("-9dB"), None));
}

#[track_caller]
fn mistakes(text: &str) -> Vec<MistakeKind> {
    let mistakes = Site::check(text.as_bytes()).unwrap_err();
    mistakes.into_iter().map(|mistake| mistake.kind).collect()
}

#[test]
fn mistakes_of_rules_and_presets_are_reported() {
    let rule = |text: &str| mistakes(&format!("{BUILDING}{text}"));
    let of_kind = |found: &[MistakeKind], is: fn(&MistakeKind) -> bool| {
        assert!(found.len() == 1 && is(&found[0]), "{found:?}");
    };
    let gong = |times: &str| rule(&format!("{times}\n{GONG}"));
    let is_value = |kind: &MistakeKind| matches!(kind, MistakeKind::Value { .. });
    for times in [
        "at = \"8 o'clock\"",
        "at = \"24:00\"",
        "at = \"08:00\"\ndays = [\"monday\"]",
        "at = \"08:00\"\nexcept = [\"2026-02-29\"]",
    ] {
        of_kind(&gong(times), is_value);
    }
    of_kind(
        &gong("cron = \"0 25 * * *\""),
        |kind| matches!(kind, MistakeKind::Rejected { why, .. } if why.contains("field 2")),
    );
    of_kind(&gong(""), |kind| matches!(kind, MistakeKind::ExactlyOne { found: 0, .. }));
    of_kind(&gong("cron = \"0 8 * * *\"\ndays = [\"mon\"]"), |kind| {
        matches!(kind, MistakeKind::NotApplicable { key: "days", .. })
    });
    let at = "at = \"08:00\"\n";
    for (from, to) in [("gong", "going"), ("\"bell\"", "\"ball\""), ("\"hall\"", "\"hull\"")] {
        of_kind(&rule(&format!("{at}{}", GONG.replace(from, to))), |kind| {
            matches!(kind, MistakeKind::Unknown { .. })
        });
    }
    of_kind(
        &rule(&format!("{at}{}", GONG.replace("hall", "all"))),
        |kind| matches!(kind, MistakeKind::StationNotAllowed { zone, .. } if zone == "gym"),
    );
    of_kind(&rule(&format!("{at}preset = \"morning\"")), |kind| {
        matches!(kind, MistakeKind::Unknown { .. })
    });
    let preset =
        |old: &str, new: &str| mistakes(&format!("{}{at}{GONG}", BUILDING.replace(old, new)));
    for loud in ["\"-3dB\"", "\"-10dB\", page-volume = \"-3dB\""] {
        of_kind(&preset("\"-10dB\"", loud), |kind| {
            matches!(kind, MistakeKind::VolumeOutsideLimits { .. })
        });
    }
    of_kind(&preset("mute = true", "source = \"radio\""), |kind| {
        matches!(kind, MistakeKind::Unknown { .. })
    });
    of_kind(&preset("gym = {", "gim = {"), |kind| matches!(kind, MistakeKind::UnknownKey { .. }));
    of_kind(&preset("timezone = \"Europe/Berlin\"", ""), |kind| {
        matches!(kind, MistakeKind::Missing { key: "timezone", .. })
    });
    of_kind(&preset("Europe/Berlin", "Europe/Atlantis"), is_value);
}
