use serde::Serialize;

use super::{Compared, ComparedFigure, ComparedRow, ComparedStage, ComparedVerdict, counts};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ComparedOutcome {
    /// No difference beyond noise, not even in a stage's median.
    Same,
    /// Nothing is worse; an unjudged item differs.
    NoRegression,
    /// Like `NoRegression`, and a figure is better.
    Better,
    /// A figure is worse, or was not measured.
    Worse,
    /// No figure is known to be worse, but not all items could be compared.
    Undecided,
}

pub(super) fn is_worse(figure: &ComparedFigure) -> bool {
    figure.verdict == ComparedVerdict::More
}

pub(super) fn is_reported(figure: &ComparedFigure) -> bool {
    matches!(figure.verdict, ComparedVerdict::Less | ComparedVerdict::More)
}

pub(super) fn judge(compared: &mut Compared) {
    let mut worse: Vec<String> =
        compared.rows.iter().filter_map(|row| named(row, is_worse)).collect();
    worse.extend(
        compared
            .rows
            .iter()
            .filter(|row| row.gone)
            .map(|row| format!("{}: the first report measured it, the second did not", row.name)),
    );
    let open: Vec<String> = compared.rows.iter().filter_map(left_open).collect();
    let is_better = |figure: &ComparedFigure| figure.verdict == ComparedVerdict::Less;
    let better: Vec<String> =
        compared.rows.iter().filter_map(|row| named(row, is_better)).collect();
    let judged = |figure: &ComparedFigure| {
        !matches!(figure.verdict, ComparedVerdict::Unknown | ComparedVerdict::Follows)
    };
    let nothing = !compared.figures().any(judged);
    let (outcome, reasons) = match (worse.is_empty(), open.is_empty() && !nothing) {
        (false, _) => (ComparedOutcome::Worse, worse),
        (true, false) => (ComparedOutcome::Undecided, open),
        (true, true) if !better.is_empty() => (ComparedOutcome::Better, better),
        (true, true) => match compared.rows.iter().filter_map(differs_in).collect::<Vec<_>>() {
            none if none.is_empty() => (ComparedOutcome::Same, none),
            differs => (ComparedOutcome::NoRegression, differs),
        },
    };
    compared.outcome = outcome;
    compared.reasons.extend(reasons);
    if nothing && compared.reasons.is_empty() {
        compared.reasons.push("no row that both measured has anything to compare".to_owned());
    }
}

pub(super) fn differs_in(row: &ComparedRow) -> Option<String> {
    let differ = row.stages.iter().filter(|stage| stage.differs);
    let differ: Vec<String> = differ.filter_map(ComparedStage::reported).collect();
    (!differ.is_empty()).then(|| format!("{}: {}", row.title(), differ.join(", ")))
}

fn named(row: &ComparedRow, holds: fn(&ComparedFigure) -> bool) -> Option<String> {
    let those = row.figures.iter().filter(|figure| holds(figure));
    let figures: Vec<String> = those.map(|figure| row.words(figure)).collect();
    (!figures.is_empty()).then(|| format!("{}: {}", row.title(), figures.join(", ")))
}

fn left_open(row: &ComparedRow) -> Option<String> {
    let unknown = |figure: &ComparedFigure| figure.verdict == ComparedVerdict::Unknown;
    let figures: Vec<&ComparedFigure> = row.figures.iter().filter(|one| unknown(one)).collect();
    let mut why = row.lacks.clone();
    if let Some(first) = figures.first() {
        let named: Vec<String> = figures.iter().map(|figure| row.words(figure)).collect();
        let because = first.why.as_deref().unwrap_or("too little data");
        why.push(format!("{} unknown ({because})", some(&named)));
    }
    (!why.is_empty()).then(|| format!("{}: {}", row.title(), why.join("; ")))
}

pub(super) fn some(figures: &[String]) -> String {
    match figures {
        [first, _, _, more @ ..] if !more.is_empty() => {
            format!("{first} and {} more", more.len() + 2)
        }
        few => few.join(", "),
    }
}

pub(super) fn notes(rows: &[ComparedRow]) -> Vec<String> {
    let figures = || rows.iter().flat_map(|row| &row.figures).filter(|figure| is_reported(figure));
    let mut notes = Vec::new();
    if figures().any(|figure| figure.key == counts::MISSED && figure.counted.is_none()) {
        notes.push(
            "misses of rows without a stream are treated as independent; they come in bursts, so \
             check their times"
                .to_owned(),
        );
    }
    if figures().any(|figure| figure.counted.is_none()) {
        notes.push(
            "two reports do not show whether the program or the machine changed: repeat the first \
             measurement, and compare both"
                .to_owned(),
        );
    }
    notes
}
