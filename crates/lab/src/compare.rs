//! Two reports: in what they differ, in what by more than noise, and whether that is for the worse.
//!
//! What differs is listed for each stage, whether it is judged or not. Reports of one run, as `taut recv` writes
//! them, have no seconds: of them what was missed is judged, and the latency by its median. What only one report has
//! is listed as such.
//!
//! Rows are matched by name. A playout holds the latency of a stream, so of a stream every part is compared: each
//! stage, how late the threads of both devices woke, what was missed and the xruns of both ends. Times are
//! compared by one median and one 99th percentile a second, as [`crate::statistics`] compares them; what was
//! missed by the seconds that missed it, since misses come in bursts. Of many comparisons one in a hundred is
//! bound to be told by chance: what is left is held against all of them (Holm, Scandinavian Journal of
//! Statistics 6, 1979), but for those that no seconds of these values could have told apart (Tarone, Biometrics
//! 46, 1990).

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
pub use matched::LEAST;
pub use outcome::ComparedOutcome;
pub use read::{ReadError, ReadReport};
pub(crate) use stages::signed_ms;
pub use stages::{ComparedCount, ComparedStage};

/// Of reports of the same, how many are told to differ anywhere, at most.
const CHANCE: f64 = 0.05;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    pub schema: u32,
    pub experiment: String,
    pub outcome: ComparedOutcome,
    /// Why that, a sentence each: what is worse, or what could not be compared.
    pub because: Vec<String>,
    /// How many figures were held against each other that could have been told to differ.
    pub tested: usize,
    /// In the order of the first report; those that only the second has come last.
    pub rows: Vec<ComparedRow>,
    pub notes: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ComparedRow {
    /// Its name in the first, or in the second where only that has it.
    pub name: String,
    pub other_name: Option<String>,
    /// Why nothing is compared, in a sentence.
    pub unknown: Option<String>,
    /// What both have and cannot be compared, a sentence each.
    pub lacks: Vec<String>,
    /// Whether the first report measured it and the second did not.
    pub gone: bool,
    pub figures: Vec<ComparedFigure>,
    pub stages: Vec<ComparedStage>,
    /// Counters that differ; of reports of one run alone.
    pub counters: Vec<ComparedCount>,
    pub only_first: Vec<String>,
    pub only_second: Vec<String>,
}

/// One figure of a row. Times are in nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ComparedFigure {
    /// Of which stage, or `sender_late`, `receiver_late`; absent of the row itself.
    pub part: Option<String>,
    /// `p50_ns`, `p99_ns`, `max_ns`, `missed_share`, `late_share`, `lost_share`, `unheard_share`,
    /// `sender_xruns_per_s`, `receiver_xruns_per_s` or `freezes_per_s`.
    pub key: &'static str,
    /// In the first report: of times the median of its seconds.
    pub first: f64,
    pub second: f64,
    /// Of the second less the first, 95 of 100 bootstrap samples lie within; absent of what is counted, and
    /// where there is too little to tell.
    pub interval: Option<[f64; 2]>,
    /// Differences of times up to this are none.
    pub threshold_ns: Option<f64>,
    /// How often a second of the second report has more than one of the first; half of those that are equal
    /// count (Vargha and Delaney 2000).
    pub a12: Option<f64>,
    pub counted: Option<[SecondsCounted; 2]>,
    /// Of chance alone making them as different.
    pub p: f64,
    /// The same of any of all figures; absent of what is not judged, or could not have differed.
    pub p_of_all: Option<f64>,
    /// What that makes: more is slower, or more missed.
    pub verdict: ComparedVerdict,
    pub why: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ComparedVerdict {
    /// Too few seconds to tell.
    #[default]
    Unknown,
    /// Told and not judged: it follows from how the streams were set up, or from the other parts.
    Follows,
    /// No difference beyond noise and threshold.
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
    /// Differences of times up to this are none; a frame of the row's rate where it is not said.
    pub threshold: Option<Span>,
}

impl Compared {
    /// Of two reports, the older first.
    pub fn of(first: &ReadReport, second: &ReadReport, options: CompareOptions) -> Self {
        let mut compared = Self {
            schema: 1,
            experiment: first.experiment.clone(),
            outcome: ComparedOutcome::Undecided,
            because: Vec::new(),
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

/// Takes back what so many comparisons would bring by chance: the least likely is held against all of
/// them, the next against one fewer, until one is likely. How many they are.
fn discount(rows: &mut [ComparedRow]) -> usize {
    let figures = rows.iter_mut().flat_map(|row| &mut row.figures);
    let mut judged: Vec<&mut ComparedFigure> =
        figures.filter(|figure| figure.p_of_all.is_some()).collect();
    judged.sort_by(|a, b| a.p.total_cmp(&b.p));
    let all = judged.len();
    let mut least = 0.0_f64;
    for (rank, figure) in judged.into_iter().enumerate() {
        least = least.max(figure.p * (all - rank) as f64).min(1.0);
        figure.p_of_all = Some(least);
        if least >= CHANCE {
            figure.verdict = ComparedVerdict::None;
        }
    }
    all
}
