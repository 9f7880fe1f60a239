//! Cron expressions of five fields: minute, hour, day of the month, month, day of the week.

use jiff::civil::{Date, Time};

/// A cron expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cron {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    /// Bit 0 is Sunday.
    weekdays: u64,
    /// Whether a day matches either field of days, as both are restricted (POSIX crontab).
    is_either: bool,
}

/// An invalid field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCron {
    /// Not five fields.
    #[error(
        "it has {0} fields, not 5\nhint: write minute, hour, day of the month, month and day of the week, such as 0 8 * * mon-fri"
    )]
    Fields(usize),
    /// A field with an invalid part.
    #[error(
        "invalid {part:?} in field {number}, {name}\nhint: write {min} to {max}, a list {min},{max}, a range {min}-{max} or a step */2"
    )]
    Part {
        /// Number of the field, from 1.
        number: usize,
        /// Its name.
        name: &'static str,
        /// The part.
        part: String,
        /// Minimum.
        min: u8,
        /// Maximum.
        max: u8,
    },
}

const FIELDS: [(&str, u8, u8); 5] = [
    ("minute", 0, 59),
    ("hour", 0, 23),
    ("day of the month", 1, 31),
    ("month", 1, 12),
    ("day of the week", 0, 7),
];
const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
/// Days of the week in the order of cron.
pub(crate) const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

impl core::str::FromStr for Cron {
    type Err = InvalidCron;

    fn from_str(text: &str) -> Result<Self, InvalidCron> {
        let fields: Vec<&str> = text.split_whitespace().collect();
        let Ok(given) = <[&str; 5]>::try_from(fields.as_slice()) else {
            return Err(InvalidCron::Fields(fields.len()));
        };
        let mut sets = [0; 5];
        for (at, set) in sets.iter_mut().enumerate() {
            *set = field(at, given[at])?;
        }
        let [minutes, hours, days, months, weekdays] = sets;
        // Sunday is 0 and 7.
        let weekdays = (weekdays | weekdays >> 7) & 0x7f;
        let is_either = !given[2].starts_with('*') && !given[4].starts_with('*');
        Ok(Self { minutes, hours, days, months, weekdays, is_either })
    }
}

impl Cron {
    /// Times of this day, in order.
    pub fn times(&self, date: Date) -> Vec<Time> {
        let has = |set: u64, value: i8| set >> value & 1 == 1;
        let day = has(self.days, date.day());
        let weekday = has(self.weekdays, date.weekday().to_sunday_zero_offset());
        let is_day = if self.is_either { day || weekday } else { day && weekday };
        if !is_day || !has(self.months, date.month()) {
            return Vec::new();
        }
        let hours = (0..24).filter(|hour| has(self.hours, *hour));
        hours
            .flat_map(|hour| {
                let minutes = (0..60).filter(|minute| has(self.minutes, *minute));
                minutes.map(move |minute| Time::constant(hour, minute, 0, 0))
            })
            .collect()
    }
}

/// Values of a field, as bits.
fn field(at: usize, text: &str) -> Result<u64, InvalidCron> {
    let (name, min, max) = FIELDS[at];
    let value = |text: &str| {
        let names: &[&str] = match at {
            3 => &MONTHS,
            4 => &WEEKDAYS,
            _ => &[],
        };
        let named = names.iter().position(|name| text.eq_ignore_ascii_case(name));
        let named = named.and_then(|at| u8::try_from(at).ok()).map(|at| at + min);
        // `parse` would take a sign.
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        let number = if is_number { text.parse().ok() } else { named };
        number.filter(|value| (min..=max).contains(value))
    };
    let part = |part: &str| {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(step.parse().ok().filter(|step| *step > 0)?)),
            None => (part, None),
        };
        let (from, until) = match (range, range.split_once('-')) {
            ("*", _) => (min, max),
            (_, Some((from, until))) => (value(from)?, value(until)?),
            // "5/15" is "5-59/15".
            (one, None) => (value(one)?, if step.is_some() { max } else { value(one)? }),
        };
        let values = (from..=until).step_by(step.unwrap_or(1_usize));
        let set = values.fold(0, |set, value| set | 1_u64 << value);
        (set != 0).then_some(set)
    };
    text.split(',').try_fold(0, |set, text| {
        let invalid =
            || InvalidCron::Part { number: at + 1, name, part: text.to_owned(), min, max };
        part(text).map(|values| set | values).ok_or_else(invalid)
    })
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;

    use super::*;

    fn times(cron: &str, day: Date) -> Vec<String> {
        let times = cron.parse::<Cron>().unwrap().times(day);
        times.iter().map(|time| time.strftime("%H:%M").to_string()).collect()
    }

    #[test]
    fn fields_have_lists_ranges_steps_and_names() {
        // A Monday.
        let day = date(2026, 3, 2);
        assert_eq!(times("15,45 8-9 * * *", day), ["08:15", "08:45", "09:15", "09:45"]);
        assert_eq!(times("*/20 12 * * mon-fri", day), ["12:00", "12:20", "12:40"]);
        assert_eq!(times("30/15 7 * MAR *", day), ["07:30", "07:45"]);
        assert_eq!(times("0 8 * * 0", day), [""; 0]);
        assert_eq!(times("0 8 1 3 *", day), [""; 0]);
    }

    #[test]
    fn sunday_is_0_and_7() {
        let sunday = date(2026, 3, 1);
        for day in ["0", "7", "sun", "5-7"] {
            assert_eq!(times(&format!("0 8 * * {day}"), sunday), ["08:00"], "{day}");
        }
    }

    #[test]
    fn restricted_days_of_both_kinds_are_alternatives() {
        let (monday, first, other) = (date(2026, 3, 2), date(2026, 3, 1), date(2026, 3, 3));
        let on = |day| times("0 8 1 * mon", day).len();
        assert_eq!([monday, first, other].map(on), [1, 1, 0]);
        // A step of all days restricts nothing.
        let on = |day| times("0 8 */2 * mon", day).len();
        assert_eq!([monday, first, date(2026, 3, 9)].map(on), [0, 0, 1]);
    }

    #[test]
    fn leap_day_is_a_day() {
        assert_eq!(times("0 8 29 2 *", date(2028, 2, 29)), ["08:00"]);
    }

    #[test]
    fn invalid_parts_are_reported_with_their_field() {
        let invalid = |cron: &str| match cron.parse::<Cron>() {
            Err(InvalidCron::Part { number, part, .. }) => (number, part),
            other => panic!("{cron}: {other:?}"),
        };
        assert_eq!(invalid("60 8 * * *"), (1, "60".to_owned()));
        assert_eq!(invalid("0 8,x * * *"), (2, "x".to_owned()));
        assert_eq!(invalid("0 8 0 * *"), (3, "0".to_owned()));
        assert_eq!(invalid("0 8 * 13 *"), (4, "13".to_owned()));
        assert_eq!(invalid("0 8 * * fri-mon"), (5, "fri-mon".to_owned()));
        assert_eq!(invalid("*/0 8 * * *"), (1, "*/0".to_owned()));
        assert_eq!(invalid("+5 8 * * *"), (1, "+5".to_owned()));
        assert_eq!("0 8 * *".parse::<Cron>(), Err(InvalidCron::Fields(4)));
    }
}
