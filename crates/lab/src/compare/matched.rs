use std::collections::{BTreeMap, VecDeque};

use super::read::{ReadReport, ReadRow};
use super::{CompareOptions, ComparedRow, counts, figures};

/// Name of the last row, the same for any latency.
pub const MIN: &str = "minimum";

/// Experiments whose rows depend on results. A missing row is not an omission.
const SEARCHES: [&str; 2] = ["load", "min-latency"];
/// Experiments with one value per frame of sound.
const IN_SOUND: [&str; 2] = ["delay", "align"];
/// Text after the result in the last row's name of `load`.
const HELD: &str = ", held";

/// Notes busier machines too.
pub(super) fn rows(
    first: &ReadReport,
    second: &ReadReport,
    options: CompareOptions,
) -> (Vec<ComparedRow>, Vec<String>) {
    let mut left: Vec<Option<&ReadRow>> = second.rows.iter().map(Some).collect();
    let mut named: BTreeMap<&str, VecDeque<usize>> = BTreeMap::new();
    for (at, row) in second.rows.iter().enumerate() {
        named.entry(&row.row.name).or_default().push_back(at);
    }
    let mut pairs: Vec<(&ReadRow, Option<&ReadRow>)> = Vec::new();
    for row in &first.rows {
        let other = named.get_mut(row.row.name.as_str()).and_then(VecDeque::pop_front);
        pairs.push((row, other.and_then(|at| left[at].take())));
    }
    pair_rest(&mut pairs, &mut left, first, second);
    let alone = only(&first.rows).zip(only(&second.rows));
    if let Some((_, other)) = alone.filter(|(one, other)| one.row.name != other.row.name) {
        let free = left.iter_mut().find(|row| row.is_some_and(|row| core::ptr::eq(row, other)));
        let pair = pairs.iter_mut().find(|(row, there)| row.is_stream() && there.is_none());
        if let Some((free, pair)) = free.zip(pair) {
            pair.1 = free.take();
        }
    }
    let searched = SEARCHES.contains(&first.experiment.as_str());
    let same = first.experiment == second.experiment;
    let in_sound = IN_SOUND.contains(&first.experiment.as_str());
    let mut rows: Vec<ComparedRow> = Vec::new();
    let busier = pairs.iter().filter_map(|(row, other)| row.busier((*other)?)).collect();
    for (row, other) in pairs {
        rows.push(match other {
            Some(other) => match freezes((first, row), (second, other)) {
                Some(freezes) => freezes,
                None => of(row, other, options, in_sound),
            },
            None => ComparedRow {
                gone: !searched && same && row.is_comparable(),
                ..ComparedRow::unknown(&row.row.name, "only the first report has it")
            },
        });
    }
    let only_second =
        |row: &ReadRow| ComparedRow::unknown(&row.row.name, "only the second report has it");
    rows.extend(left.into_iter().flatten().map(only_second));
    if searched {
        rows.extend(found(first, second));
    }
    (rows, busier)
}

/// Rows without a common name: streams of runs in order, or the only row of each report.
fn pair_rest<'a>(
    pairs: &mut [(&'a ReadRow, Option<&'a ReadRow>)],
    left: &mut [Option<&'a ReadRow>],
    first: &ReadReport,
    second: &ReadReport,
) {
    let of_runs = first.rows.iter().chain(&second.rows).all(|row| row.whole_run);
    let alone = first.rows.len() == 1 && second.rows.len() == 1;
    if !(of_runs || alone && first.experiment != second.experiment) {
        return;
    }
    let mut rest: Vec<_> = left.iter_mut().filter(|row| row.is_some()).collect();
    let without: Vec<_> = pairs.iter_mut().filter(|(_, there)| there.is_none()).collect();
    if rest.len() == without.len() {
        for (pair, free) in without.into_iter().zip(&mut rest) {
            pair.1 = free.take();
        }
    }
}

fn found(first: &ReadReport, second: &ReadReport) -> Option<ComparedRow> {
    let [a, b] = [first, second].map(|report| held(report).unwrap_or_else(|| "nothing".to_owned()));
    let lacks = vec![format!(
        "result of the search: {a} in the first and {b} in the second; one search each cannot \
         rule out chance, so repeat either"
    )];
    (a != b).then(|| ComparedRow { name: "the search".to_owned(), lacks, ..ComparedRow::default() })
}

fn held(report: &ReadReport) -> Option<String> {
    if report.experiment == "min-latency" {
        let minimum = report.rows.iter().find(|row| row.row.name == MIN)?;
        return Some(minimum.row.configured?.to_string());
    }
    let last = report.rows.iter().rev().find_map(|row| row.row.name.split_once(HELD));
    last.map(|(what, _)| what.to_owned())
}

/// Compares numbers of stalls, not lengths. Streams count stalls separately.
fn freezes(
    (first, one): (&ReadReport, &ReadRow),
    (second, other): (&ReadReport, &ReadRow),
) -> Option<ComparedRow> {
    if first.experiment != "stalls" {
        return None;
    }
    let (of_first, of_second) = (first.seconds(), second.seconds());
    let (a, b) = one.frozen(of_first).zip(other.frozen(of_second))?;
    let due = [of_first, of_second].map(u64::from);
    let figures = vec![counts::compare("stalls_per_s", (&a, due[0]), (&b, due[1]))];
    Some(ComparedRow { name: one.row.name.clone(), figures, ..ComparedRow::default() })
}

fn only(rows: &[ReadRow]) -> Option<&ReadRow> {
    let mut streams = rows.iter().filter(|row| row.is_stream());
    streams.next().filter(|_| streams.next().is_none())
}

impl ComparedRow {
    fn unknown(name: &str, why: impl Into<String>) -> Self {
        Self { name: name.to_owned(), unknown: Some(why.into()), ..Self::default() }
    }
}

fn of(first: &ReadRow, second: &ReadRow, options: CompareOptions, in_sound: bool) -> ComparedRow {
    let [one, other] = [&first.row, &second.row];
    let other_name = (one.name != other.name).then(|| other.name.clone());
    for (row, which) in [(one, "first"), (other, "second")] {
        if let Some(why) = &row.invalid {
            let why = format!("invalid in the {which} report: {why}");
            let gone = one.invalid.is_none();
            return ComparedRow { gone, other_name, ..ComparedRow::unknown(&one.name, why) };
        }
    }
    let mut row = ComparedRow { name: one.name.clone(), other_name, ..ComparedRow::default() };
    figures::add(&mut row, first, second, (options, in_sound));
    row.gone = !one.intervals.is_empty() && other.intervals.is_empty() && !second.whole_run;
    if row.figures.is_empty() && row.lacks.is_empty() {
        row.unknown = Some("nothing in it can be compared".to_owned());
    }
    row
}
