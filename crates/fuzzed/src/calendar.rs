use jiff::ToSpan as _;
use jiff::civil::{Date, date};
use jiff::tz::TimeZone;
use tautline_site::Calendar;

/// An error has a line of the file. Events of a day begin on it, within the largest difference of
/// time zones.
pub fn calendar(bytes: &[u8]) {
    let Ok(text) = core::str::from_utf8(bytes) else { return };
    let calendar = match Calendar::read(text) {
        Ok(calendar) => calendar,
        Err(invalid) => {
            assert!((1..=text.lines().count()).contains(&invalid.line), "{invalid:?}");
            return;
        }
    };
    // Days at which the clocks of some zones change, and others.
    for day in [Date::MIN, date(2026, 3, 29), date(2026, 10, 25), date(2028, 2, 29), Date::MAX] {
        for (at, _) in calendar.instants(day, &TimeZone::UTC) {
            let begins = TimeZone::UTC.to_datetime(at).date();
            let nearby = day.saturating_sub(1.day())..=day.saturating_add(1.day());
            assert!(nearby.contains(&begins), "{at} is not on {day}");
        }
        let _ = calendar.has_day(day);
    }
}
