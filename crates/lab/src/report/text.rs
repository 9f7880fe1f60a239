use core::fmt;

use serde_json::Value;
use tautline_proto::time::Span;
use tautline_report::digits;
use tautline_report::distribution::Summary;

use super::{Events, Figure, HostDescription, LabReport, ReportRow};

impl fmt::Display for LabReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.experiment, self.question)?;
        self.answer.iter().try_for_each(|answer| writeln!(f, "answer: {answer}"))?;
        for (number, host) in self.hosts.iter().enumerate() {
            // A host with both ends appears once, with the greater number of stalls.
            let same = |other: &&HostDescription| is_same(host, other);
            if self.hosts[..number].iter().any(|other| same(&other)) {
                continue;
            }
            let stalls = self.hosts.iter().filter(same).filter_map(|other| other.stalls).max();
            write!(
                f,
                "{}: {} cores, {}, Linux {}",
                host.name, host.cpus, host.processor, host.kernel
            )?;
            match stalls {
                Some(stalls) => writeln!(f, ", {}", stalls_seen(stalls))?,
                None => writeln!(f)?,
            }
        }
        self.conditions().iter().try_for_each(|line| writeln!(f, "{line}"))?;
        writeln!(f)?;
        let many = self.rows.len() > 1;
        for (number, rows) in self.rows.chunk_by(alike).enumerate() {
            if number > 0 {
                writeln!(f)?;
            }
            table(f, rows, many)?;
        }
        self.rows.iter().try_for_each(|row| beyond(f, row, many))?;
        self.notes.iter().try_for_each(|note| writeln!(f, "note: {note}"))
    }
}

pub(crate) fn stalls_seen(count: u64) -> String {
    let stalls = if count == 1 { "stall" } else { "stalls" };
    format!("{count} {stalls} of all cores")
}

fn is_same(one: &HostDescription, other: &HostDescription) -> bool {
    let seen = |host: &HostDescription| HostDescription { stalls: None, ..host.clone() };
    seen(one) == seen(other)
}

/// All rows of a table measure time, or they share another figure.
fn alike(one: &ReportRow, other: &ReportRow) -> bool {
    let is_of_time = |row: &ReportRow| row.measured.is_some() || row.figures.is_empty();
    let shares = || {
        let mut figures = one.figures.iter();
        figures.any(|figure| other.figures.iter().any(|there| there.key == figure.key))
    };
    is_of_time(one) == is_of_time(other) && (is_of_time(one) || shares())
}

pub(crate) struct Column {
    pub(crate) head: String,
    pub(crate) cell: Cell,
}

pub(crate) type Cell = Box<dyn Fn(&ReportRow) -> Option<String>>;

fn column(head: &str, cell: impl Fn(&ReportRow) -> Option<String> + 'static) -> Column {
    Column { head: head.to_owned(), cell: Box::new(cell) }
}

pub(crate) fn nanos(nanos: i64) -> String {
    digits::nearest_thousandth(nanos).to_string()
}

fn of(pick: fn(&Summary) -> Option<i64>) -> impl Fn(&ReportRow) -> Option<String> {
    move |row| spread(row).and_then(pick).map(nanos)
}

fn spread(row: &ReportRow) -> Option<&Summary> {
    row.measured.as_ref().filter(|_| !row.of_rounds)
}

fn count(row: &ReportRow, of_rounds: bool) -> Option<String> {
    let measured = row.measured.as_ref().filter(|_| row.of_rounds == of_rounds);
    measured.map(|measured| measured.count.to_string())
}

pub(crate) fn measured(row: &ReportRow) -> Option<String> {
    let middle = row.measured.as_ref().and_then(|m| m.p50_ns.or(m.mean_ns))?;
    Some(within(middle, row.uncertainty.map(Span::as_nanos)))
}

pub(crate) fn within(middle: i64, error: Option<i64>) -> String {
    match error.filter(|error| *error > 0) {
        Some(error) => digits::with_error(middle, error),
        None => nanos(middle),
    }
}

/// Text of an unknown percentile, beyond which fewer than ten values lie.
const UNKNOWN: &str = "–";

pub(crate) fn columns(rows: &[ReportRow], many: bool) -> Vec<Column> {
    let summaries = || rows.iter().filter_map(|row| row.measured.as_ref());
    let statistic = if summaries().all(|m| m.p50_ns.is_some()) { "median" } else { "measured" };
    let mut all = vec![
        column("", |row| Some(row.name.clone())),
        column("configured", |row| row.configured.map(|span| span.to_string())),
        column(statistic, measured),
        column("min", of(|m| m.min_ns)),
        column("p99", |row| {
            let reported = |m: &Summary| m.p99_ns.map_or(UNKNOWN.to_owned(), nanos);
            spread(row).filter(|m| m.count > 0).map(reported)
        }),
        column("p99.9", of(|m| m.p999_ns)),
        column("max", of(|m| m.max_ns)),
        column("count", |row| count(row, false)),
        column("rounds", |row| count(row, true)),
        column("missed (95 % upper limit)", |row| {
            row.missed.map(|m| format!("{} of {} (≤ {})", m.missed, m.due, share(m.at_most)))
        }),
    ];
    for name in rows.iter().flat_map(|row| &row.published).map(|there| there.name) {
        if all.iter().all(|column| column.head != name) {
            all.push(column(name, move |row| {
                let there = row.published.iter().find(|there| there.name == name)?;
                Some(nanos(there.value_ns))
            }));
        }
    }
    if many {
        for &Figure { key, words, .. } in rows.iter().flat_map(|row| &row.figures) {
            if all.iter().all(|column| column.head != words) {
                all.push(column(words, move |row| {
                    row.figures.iter().find(|figure| figure.key == key).map(shown)
                }));
            }
        }
    }
    all.retain(|column| rows.iter().any(|row| (column.cell)(row).is_some()));
    all
}

/// Figures of a single row that its table does not show.
pub(crate) fn figures_of_single(row: &ReportRow) -> impl Iterator<Item = &Figure> {
    let columns = columns(core::slice::from_ref(row), false);
    let is_shown = move |figure: &&Figure| columns.iter().any(|column| column.head == figure.words);
    row.figures.iter().filter(move |figure| !is_shown(figure))
}

/// Maximum width of a table. A wider table is split.
const WIDE: usize = 110;

fn table(f: &mut fmt::Formatter<'_>, rows: &[ReportRow], many: bool) -> fmt::Result {
    let columns: Vec<Vec<String>> = columns(rows, many)
        .iter()
        .map(|column| {
            let cells = rows.iter().map(|row| (column.cell)(row).unwrap_or_default());
            std::iter::once(column.head.clone()).chain(cells).collect()
        })
        .collect();
    let Some((names, mut rest)) = columns.split_first() else { return Ok(()) };
    let width = |column: &Vec<String>| column.iter().map(|cell| cell.chars().count()).max();
    let mut first = true;
    while first || !rest.is_empty() {
        let mut wide = width(names).unwrap_or(0);
        let fits = rest.iter().take_while(|column| {
            wide += 2 + width(column).unwrap_or(0);
            wide <= WIDE
        });
        let (these, others) = rest.split_at(fits.count().max(1).min(rest.len()));
        rest = others;
        if !first {
            writeln!(f)?;
        }
        let cells = |line: usize| {
            std::iter::once(names).chain(these).map(|column| column[line].clone()).collect()
        };
        let lines: Vec<Vec<String>> = (0..names.len()).map(cells).collect();
        for (number, line) in aligned(&lines).iter().enumerate() {
            writeln!(f, "{line}")?;
            let why = number.checked_sub(1).and_then(|row| rows[row].invalid.as_ref());
            if let Some(why) = why.filter(|_| first) {
                writeln!(f, "  invalid: {why}")?;
            }
        }
        first = false;
    }
    let tells_none =
        |row: &ReportRow| spread(row).is_some_and(|m| m.count > 0 && m.p99_ns.is_none());
    if rows.iter().any(tells_none) {
        writeln!(f, "p99 {UNKNOWN}: needs at least 1000 values")?;
    }
    sources(rows).iter().try_for_each(|line| writeln!(f, "{line}"))
}

pub(crate) fn sources(rows: &[ReportRow]) -> Vec<String> {
    let mut sources: Vec<(&str, Vec<&str>)> = Vec::new();
    for there in rows.iter().flat_map(|row| &row.published) {
        let known = sources.iter().position(|(source, _)| *source == there.source);
        let at = known.unwrap_or_else(|| {
            sources.push((there.source, Vec::new()));
            sources.len() - 1
        });
        if !sources[at].1.contains(&there.name) {
            sources[at].1.push(there.name);
        }
    }
    sources.iter().map(|(source, names)| format!("{}: {source}", names.join(", "))).collect()
}

pub(crate) fn aligned(lines: &[Vec<String>]) -> Vec<String> {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let length =
        |line: &Vec<String>, at: usize| line.get(at).map_or(0, |cell| cell.chars().count());
    let width = |at: usize| lines.iter().map(|line| length(line, at)).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let put = |line: &Vec<String>| {
        let mut text = String::new();
        for (at, (cell, width)) in line.iter().zip(&widths).enumerate() {
            match at {
                0 => text += &format!("{cell:width$}"),
                _ => text += &format!("  {cell:>width$}"),
            }
        }
        text.trim_end().to_owned()
    };
    lines.iter().map(put).collect()
}

fn beyond(f: &mut fmt::Formatter<'_>, row: &ReportRow, many: bool) -> fmt::Result {
    if !many {
        for figure in figures_of_single(row) {
            writeln!(f, "{}: {}", figure.words, shown(figure))?;
        }
    }
    for events in &row.events {
        let whose = if many { format!("{}: ", row.name) } else { String::new() };
        writeln!(f, "{whose}{}", happened(events))?;
    }
    // Too long for many rows; JSON and page have them.
    if many || row.stages.is_empty() {
        return Ok(());
    }
    writeln!(f, "\nstage by stage (median, p99, max), its cause and the options that change it:")?;
    let reported = |error| format!(" ± {}", digits::bound(error));
    for stage in &row.stages {
        let error = stage.uncertainty_ns.filter(|error| *error > 0);
        let all = [stage.summary.p50_ns, stage.summary.p99_ns, stage.summary.max_ns];
        let notify = |value| error.map_or_else(|| nanos(value), |by| digits::by_error(value, by));
        let [middle, maximum, max] = all.map(|value| value.map_or("–".to_owned(), notify));
        let error = error.map_or(String::new(), reported);
        let figures = format!("{middle:>12} {maximum:>12} {max:>12}{error}");
        let cause = CAUSES.iter().find(|(name, _)| *name == stage.name);
        let cause = cause.map_or("", |(_, cause)| cause);
        writeln!(f, "{}", format!("  {:10} {figures:49} {cause}", stage.name).trim_end())?;
    }
    if row.stages.iter().any(|stage| stage.uncertainty_ns.is_some_and(|error| error > 0)) {
        writeln!(f, "±: uncertainty between the clocks of both ends")?;
    }
    writeln!(f, "more: docs/reference/stages.md")
}

/// Cause of each stage, and the options that change it (`docs/reference/stages.md`).
const CAUSES: [(&str, &str); 11] = [
    ("capture", "sender's card: send --period"),
    ("pack", "sender: send --ptime, --format"),
    ("send", "sender: send --io-thread, --pacing"),
    ("launch", "sender's queue: send --pacing"),
    ("wire", "network"),
    ("sender", "sender and network"),
    ("wakeup", "receiver: recv --period, --scheduler"),
    ("buffer", "rest of --latency"),
    ("render", "receiver: send --format"),
    ("resample", "receiver: recv --resampler"),
    ("device", "receiver's card: recv --period, --periods"),
];

const TOLD: usize = 8;

fn happened(events: &Events) -> String {
    let reported: u64 = events.values.iter().map(|(_, count)| u64::from(*count)).sum();
    let at = |(at, count): &(i64, u32)| {
        let times = if *count > 1 { format!(" ({count} times)") } else { String::new() };
        format!("{:.3} s{times}", *at as f64 / 1e9)
    };
    let mut parts: Vec<_> = events.values.iter().take(TOLD).map(at).collect();
    if let Some(more) = events.values.len().checked_sub(TOLD).filter(|more| *more > 0) {
        parts.push(format!("and {more} more"));
    }
    let before = events.values.iter().filter(|(at, _)| *at < 0);
    let before: u64 = before.map(|(_, count)| u64::from(*count)).sum();
    let mut line = format!("{}: {}", events.words, reported + events.without_time);
    if before > 0 {
        line += &format!(" ({before} of them before the first packet that counts)");
    }
    if !parts.is_empty() {
        line += &format!(", at {}", parts.join(", "));
    }
    if events.without_time > 0 {
        line += &format!("; {} at unknown times", events.without_time);
    }
    line
}

pub(crate) fn share(share: f64) -> String {
    match share * 100.0 {
        percent if percent < 0.0 => format!("{percent:.1} %"),
        percent if percent >= 10.0 => format!("{percent:.0} %"),
        percent if percent >= 0.95 => format!("{percent:.1} %"),
        percent if percent >= 0.0095 => format!("{percent:.2} %"),
        percent => format!("{percent:.1e} %"),
    }
}

/// Keys that end in `_ns` are durations.
pub(crate) fn shown(figure: &Figure) -> String {
    match &figure.value {
        Value::Null => "–".to_owned(),
        Value::Number(number) if figure.key.ends_with("_ns") => {
            let reported = |value| match figure.error.map(|error| error.ceil() as i64) {
                Some(error) => digits::by_error(value, error),
                None => nanos(value),
            };
            number.as_i64().map_or_else(|| number.to_string(), reported)
        }
        Value::Number(number) if figure.key.ends_with("_share") => match number.as_f64() {
            Some(0.0) => "0 %".to_owned(),
            Some(of_all) => share(of_all),
            None => number.to_string(),
        },
        Value::Number(number) => match (number.as_f64(), figure.error) {
            (Some(value), Some(error)) if number.is_f64() => digits::number_by_error(value, error),
            (Some(value), None) if number.is_f64() => significant(value),
            _ => number.to_string(),
        },
        Value::String(text) => text.clone(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Array(values) => {
            let values: Vec<String> = values.iter().map(Value::to_string).collect();
            values.join(", ")
        }
        other => other.to_string(),
    }
}

fn significant(value: f64) -> String {
    let before = value.abs().max(1e-9).log10().floor() as i32;
    let reported = format!("{value:.*}", (3 - before).clamp(0, 6) as usize);
    // A rounded zero has no sign.
    if reported.contains(|digit: char| ('1'..='9').contains(&digit)) {
        reported
    } else {
        "0".to_owned()
    }
}
