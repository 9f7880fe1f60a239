use serde_json::json;
use tautline_report::snapshot::{Snapshot, StreamSnapshot};

use super::messages::{HEAD, SPARED, details, is_troubled, row};
use super::programs::Programs;
use super::worked;
use crate::failure::Failure;

const NO_STREAM: &str = "no stream runs here; start one, such as taut demo, or run taut top as the user who \
                      runs it";

const GAP: usize = 2;
const ADDRESS: usize = 36;

pub(super) fn nobody(programs: &Programs) -> Option<&'static str> {
    programs.is_empty().then_some(NO_STREAM)
}

pub(super) fn page(programs: &Programs) -> String {
    if let Some(nobody) = nobody(programs) {
        return format!("{nobody}\n");
    }
    let streams: Vec<_> = programs.streams().collect();
    let mut lines = if streams.is_empty() { Vec::new() } else { table(&streams, usize::MAX) };
    for (run, stream) in &streams {
        lines.push(String::new());
        lines.extend(details(run, stream));
    }
    let worked = worked::lines(programs);
    lines.extend((!lines.is_empty() && !worked.is_empty()).then(String::new));
    lines.extend(worked);
    lines.extend(unread(programs));
    lines.join("\n") + "\n"
}

pub(super) fn unread(programs: &Programs) -> impl Iterator<Item = String> {
    programs.unread().map(|(_, process, why)| format!("process {process}: {why}"))
}

pub(super) fn json(programs: &Programs) -> Result<String, Failure> {
    let unread = programs.unread().map(|(socket, _, why)| json!({"socket": socket, "reason": why}));
    let all = json!({
        "schema": 2,
        "programs": programs.values().collect::<Vec<_>>(),
        "unreadable": unread.collect::<Vec<_>>(),
    });
    let text = serde_json::to_string_pretty(&all);
    text.map(|text| text + "\n").map_err(|error| Failure::running(error.to_string()))
}

/// Header and one line per stream. The first character marks trouble.
pub(super) fn table(streams: &[(&Snapshot, &StreamSnapshot)], width: usize) -> Vec<String> {
    let mut rows = vec![HEAD.map(str::to_owned)];
    rows.extend(streams.iter().map(|(run, stream)| row(run, stream)));
    for row in &mut rows {
        if row[1].chars().count() > ADDRESS {
            row[1] = row[1].chars().take(ADDRESS - 1).chain(['…']).collect();
        }
    }
    let widest = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: [usize; HEAD.len()] = core::array::from_fn(|column| widest(column).unwrap_or(0));
    let mut shown = [true; HEAD.len()];
    let takes = |shown: &[bool]| {
        let widths = widths.iter().zip(shown).filter(|(_, shown)| **shown);
        widths.map(|(width, _)| width + GAP).sum::<usize>()
    };
    for spared in SPARED {
        if takes(&shown) > width {
            shown[spared] = false;
        }
    }
    let mark = |troubled: bool| if troubled { '!' } else { ' ' };
    let marks = streams.iter().map(|(run, stream)| mark(is_troubled(run, stream)));
    let line = |(mark, row): (char, &[String; HEAD.len()])| {
        let cells = row.iter().zip(widths).zip(shown).filter(|(_, shown)| *shown);
        let cells = cells.map(|((cell, width), _)| format!("{cell:<width$}"));
        let line = format!("{mark} {}", cells.collect::<Vec<_>>().join("  "));
        line.trim_end().to_owned()
    };
    [' '].into_iter().chain(marks).zip(&rows).map(line).collect()
}
