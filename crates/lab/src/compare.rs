//! Compares two reports: differences, differences beyond noise, and regressions.
//!
//! Playout keeps a stream's latency constant, so every part is compared. Times are compared by one
//! median and p99 per second (see [`crate::statistics`]), misses by seconds that have any.
//! Probabilities are corrected for their number (Holm, Scandinavian Journal of Statistics 6, 1979),
//! without figures that could not differ (Tarone, Biometrics 46, 1990).

mod counts;
mod figures;
mod matched;
mod outcome;
mod read;
mod stages;
#[cfg(test)]
mod tests;
mod text;

use serde::Serialize;
use tautline_proto::time::Span;

use crate::statistics::SeriesDifference;
pub use counts::SecondsCounted;
pub use matched::MIN;
pub use outcome::ComparedOutcome;
pub use read::{ReadError, ReadReport};
pub(crate) use stages::signed_ms;
pub use stages::{ComparedCount, ComparedStage};

/// Maximum probability of any difference between equal reports.
const CHANCE: f64 = 0.05;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    pub schema: u32,
    pub experiment: String,
    pub outcome: ComparedOutcome,
    pub reasons: Vec<String>,
    pub tested: usize,
    pub rows: Vec<ComparedRow>,
    pub notes: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ComparedRow {
    pub name: String,
    pub other_name: Option<String>,
    pub unknown: Option<String>,
    pub lacks: Vec<String>,
    pub gone: bool,
    pub figures: Vec<ComparedFigure>,
    pub stages: Vec<ComparedStage>,
    /// Present only in reports of one run.
    pub counters: Vec<ComparedCount>,
    pub only_first: Vec<String>,
    pub only_second: Vec<String>,
}

/// Times are in nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ComparedFigure {
    /// A stage, `sender_late` or `receiver_late`; absent for the row itself.
    pub part: Option<String>,
    /// `p50_ns`, `p99_ns`, `max_ns`, `missed_share`, `late_share`, `lost_share`,
    /// `underrun_discarded_share`, `sender_xruns_per_s`, `receiver_xruns_per_s` or `stalls_per_s`.
    pub key: &'static str,
    /// Value of the figure; for times the median of the seconds.
    pub first: f64,
    pub second: f64,
    /// 95 % bootstrap interval of second minus first; absent for counts and few values.
    pub interval: Option<[f64; 2]>,
    pub threshold_ns: Option<f64>,
    /// Probability that the second report's value is greater; ties count half (Vargha and Delaney
    /// 2000).
    pub a12: Option<f64>,
    pub counted: Option<[SecondsCounted; 2]>,
    pub p: f64,
    /// Probability corrected for all figures; absent if not judged or unable to differ.
    pub p_of_all: Option<f64>,
    pub verdict: ComparedVerdict,
    pub why: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ComparedVerdict {
    #[default]
    Unknown,
    Follows,
    None,
    Less,
    More,
}

impl From<SeriesDifference> for ComparedVerdict {
    fn from(difference: SeriesDifference) -> Self {
        match difference {
            SeriesDifference::Unknown => Self::Unknown,
            SeriesDifference::None => Self::None,
            SeriesDifference::Less => Self::Less,
            SeriesDifference::More => Self::More,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CompareOptions {
    /// Smaller time differences are ignored; default one frame.
    pub threshold: Option<Span>,
}

impl Compared {
    pub fn of(first: &ReadReport, second: &ReadReport, options: CompareOptions) -> Self {
        let mut compared = Self {
            schema: 2,
            experiment: first.experiment.clone(),
            outcome: ComparedOutcome::Undecided,
            reasons: Vec::new(),
            tested: 0,
            rows: Vec::new(),
            notes: Vec::new(),
        };
        let (rows, busier) = matched::rows(first, second, options);
        compared.rows = rows;
        compared.tested = discount(&mut compared.rows);
        compared.notes = first.notes_beside(second);
        compared.notes.extend(busier);
        compared.notes.extend(outcome::notes(&compared.rows));
        outcome::judge(&mut compared);
        compared
    }

    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }

    fn figures(&self) -> impl Iterator<Item = &ComparedFigure> {
        self.rows.iter().flat_map(|row| &row.figures)
    }
}

/// Holm's correction; returns the number of comparisons.
fn discount(rows: &mut [ComparedRow]) -> usize {
    let figures = rows.iter_mut().flat_map(|row| &mut row.figures);
    let mut judged: Vec<&mut ComparedFigure> =
        figures.filter(|figure| figure.p_of_all.is_some()).collect();
    judged.sort_by(|a, b| a.p.total_cmp(&b.p));
    let all = judged.len();
    let mut minimum = 0.0_f64;
    for (rank, figure) in judged.into_iter().enumerate() {
        minimum = minimum.max(figure.p * (all - rank) as f64).min(1.0);
        figure.p_of_all = Some(minimum);
        if minimum >= CHANCE {
            figure.verdict = ComparedVerdict::None;
        }
    }
    all
}
