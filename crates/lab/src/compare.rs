//! Two reports of one experiment: in what they differ by more than noise.
//!
//! Rows are matched by name. Medians and 99th percentiles of a row's seconds are compared as
//! [`crate::statistics`] compares intervals, less what both rows say that they do not know; what was
//! missed by Fisher's exact test. Of many comparisons one in a hundred is bound to be told by chance:
//! what is left is held against all of them (Holm, Scandinavian Journal of Statistics 6, 1979).

mod missed;
mod read;
#[cfg(test)]
mod tests;
mod text;

use serde::Serialize;

use crate::statistics::{SeriesDifference, compare, median};
use read::ReadRow;

pub use read::{ReadError, ReadReport};

/// Of reports of the same, how many are told to differ anywhere, at most.
const CHANCE: f64 = 0.05;

/// What two reports say of each other.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    /// Version of these names.
    pub schema: u32,
    /// Of the first report.
    pub experiment: String,
    /// In the order of the first report; those that only the second has come last.
    pub rows: Vec<ComparedRow>,
    /// What a reader should know before believing the verdicts, a sentence each.
    pub notes: Vec<String>,
}

/// One row of both.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedRow {
    /// Its name in both.
    pub name: String,
    /// Why nothing is compared, in a sentence.
    pub unknown: Option<String>,
    /// Whether the first report measured it and the second did not.
    pub gone: bool,
    /// What is compared.
    pub figures: Vec<ComparedFigure>,
}

/// One figure of a row. Times are in nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedFigure {
    /// `p50_ns`, `p99_ns` or `missed_share`.
    pub key: &'static str,
    /// In the first report: of times the median of its seconds.
    pub first: f64,
    /// In the second.
    pub second: f64,
    /// Of the second less the first, 95 of 100 bootstrap samples lie within; absent of shares, and where
    /// there is too little to tell.
    pub interval: Option<[f64; 2]>,
    /// Of chance alone making them as different.
    pub p: f64,
    /// What that makes: more is slower, or more missed.
    pub verdict: SeriesDifference,
    /// Why it is unknown.
    pub why: Option<String>,
}

impl Compared {
    /// Of two reports, the older first.
    pub fn of(first: &ReadReport, second: &ReadReport) -> Self {
        let mut compared = Self {
            schema: 1,
            experiment: first.experiment.clone(),
            rows: Vec::new(),
            notes: Vec::new(),
        };
        if first.experiment != second.experiment {
            compared.notes.push(format!(
                "the first is a report of {}, the second of {}: nothing is compared",
                first.experiment, second.experiment
            ));
            return compared;
        }
        // Which numbers of streams are tried follows from what was found: another one is no row that is gone.
        let searched = first.experiment == "load";
        let mut left: Vec<&ReadRow> = second.rows.iter().collect();
        for row in &first.rows {
            // Rows of one name are matched in their order.
            let other = left.iter().position(|other| other.name == row.name);
            let other = other.map(|at| left.remove(at));
            compared.rows.push(match other {
                Some(other) => ComparedRow::of(row, other),
                None => ComparedRow {
                    gone: !searched && row.is_comparable(),
                    ..ComparedRow::unknown(&row.name, "only the first report has it")
                },
            });
        }
        let only =
            |row: &&ReadRow| ComparedRow::unknown(&row.name, "only the second report has it");
        compared.rows.extend(left.iter().map(only));
        compared.discount();
        if compared.figures().any(|figure| figure.key == MISSED && is_told(figure.verdict)) {
            compared.notes.push(
                "what was missed is taken as independent; misses come in bursts, so look at when"
                    .to_owned(),
            );
        }
        compared
    }

    /// Whether the second is worse than the first in anything.
    pub fn is_regression(&self) -> bool {
        self.figures().any(|figure| figure.verdict == SeriesDifference::More)
    }

    /// Whether anything of both was held against each other: where not, nothing says that the second is
    /// no worse.
    pub fn says_something(&self) -> bool {
        self.figures().any(|figure| figure.verdict != SeriesDifference::Unknown)
    }

    /// Names of the rows that the first report measured and the second did not.
    pub fn gone(&self) -> Vec<&str> {
        self.rows.iter().filter(|row| row.gone).map(|row| row.name.as_str()).collect()
    }

    /// Names of the rows in which the second is worse.
    pub fn worse(&self) -> Vec<&str> {
        let is_worse = |row: &&ComparedRow| {
            row.figures.iter().any(|figure| figure.verdict == SeriesDifference::More)
        };
        self.rows.iter().filter(is_worse).map(|row| row.name.as_str()).collect()
    }

    /// The verdicts for programs.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }

    fn figures(&self) -> impl Iterator<Item = &ComparedFigure> {
        self.rows.iter().flat_map(|row| &row.figures)
    }

    /// Takes back what so many comparisons would bring by chance: the least likely is held against all of
    /// them, the next against one fewer, until one is likely.
    fn discount(&mut self) {
        let figures = self.rows.iter_mut().flat_map(|row| &mut row.figures);
        let mut judged: Vec<&mut ComparedFigure> =
            figures.filter(|figure| figure.verdict != SeriesDifference::Unknown).collect();
        judged.sort_by(|a, b| a.p.total_cmp(&b.p));
        let all = judged.len();
        let mut chance = false;
        for (rank, figure) in judged.into_iter().enumerate() {
            chance |= figure.p * (all - rank) as f64 >= CHANCE;
            if chance {
                figure.verdict = SeriesDifference::None;
            }
        }
    }
}

const MISSED: &str = "missed_share";

fn is_told(verdict: SeriesDifference) -> bool {
    matches!(verdict, SeriesDifference::Less | SeriesDifference::More)
}

impl ComparedRow {
    fn unknown(name: &str, why: impl Into<String>) -> Self {
        let unknown = Some(why.into());
        Self { name: name.to_owned(), unknown, gone: false, figures: Vec::new() }
    }

    fn of(first: &ReadRow, second: &ReadRow) -> Self {
        for (row, which) in [(first, "first"), (second, "second")] {
            if let Some(why) = &row.void {
                let why = format!("void in the {which} report: {why}");
                let gone = first.void.is_none();
                return Self { gone, ..Self::unknown(&row.name, why) };
            }
        }
        if first.configured_ns != second.configured_ns {
            return Self::unknown(&first.name, "configured otherwise in the second report");
        }
        let name = first.name.clone();
        let mut row = Self { name, unknown: None, gone: false, figures: Vec::new() };
        row.figures.extend(times("p50_ns", first, second, |interval| Some(interval.p50_ns)));
        row.figures.extend(times("p99_ns", first, second, |interval| interval.p99_ns));
        if let Some((first, second)) = first.missed.zip(second.missed) {
            row.figures.push(missed::compare(first, second));
        }
        row.gone = !first.intervals.is_empty() && second.intervals.is_empty();
        if row.figures.is_empty() {
            row.unknown = Some("there is nothing in it that can be compared".to_owned());
        }
        row
    }
}

/// Compares one time of each second; nothing where a report has none.
fn times(
    key: &'static str,
    first: &ReadRow,
    second: &ReadRow,
    of: impl Fn(&read::ReadInterval) -> Option<i64>,
) -> Option<ComparedFigure> {
    let [a, b] = [first, second].map(|row| -> Vec<f64> {
        row.intervals.iter().filter_map(|one| of(one).map(|nanos| nanos as f64)).collect()
    });
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let uncertainty = [first, second].iter().filter_map(|row| row.uncertainty_ns).sum::<i64>();
    let found = compare(&a, &b, uncertainty as f64);
    let why = (found.verdict == SeriesDifference::Unknown).then(|| {
        let [a, b] = [a.len(), b.len()];
        format!("too short: {a} and {b} seconds in which it is known, and 8 are the least")
    });
    let middle = median(&a);
    Some(ComparedFigure {
        key,
        first: middle,
        second: middle + found.difference,
        interval: why.is_none().then_some(found.interval),
        p: found.p,
        verdict: found.verdict,
        why,
    })
}
