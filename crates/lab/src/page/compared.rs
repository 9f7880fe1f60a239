//! Two reports against each other: the verdict, what is judged, and how much each stage differs.

use super::bars::differences;
use super::svg::standalone;
use super::words::{aside, cells, escaped, table};
use super::{charts_in_columns, document, header};
use crate::compare::{Compared, ComparedRow};

/// The page of a comparison.
pub fn compared(compared: &Compared) -> String {
    let mut out = header(&title(compared), &compared.verdict()) + "</header>";
    for row in &compared.rows {
        out += &format!("<section><h2>{}</h2>", escaped(&row.title()));
        row.sentences().iter().for_each(|sentence| out += &aside(sentence));
        let lines = row.table(|_| true);
        if let [heads, lines @ ..] = &lines[..]
            && !lines.is_empty()
        {
            out += &table(&cells("th", heads), lines.iter().map(|line| cells("td", line)));
        }
        out += &charts_in_columns(differences(row));
        out += "</section>";
    }
    out += "<section>";
    compared.notes.iter().for_each(|note| out += &aside(note));
    document(&title(compared), &(out + "</section>"))
}

/// The charts of a comparison alone.
pub fn compared_charts(compared: &Compared) -> String {
    let chart = |row: &ComparedRow| Some(differences(row)?.with_title(&row.title()));
    let charts: Vec<_> = compared.rows.iter().filter_map(chart).collect();
    standalone(&title(compared), &charts)
}

fn title(compared: &Compared) -> String {
    format!("{}: the second report against the first", compared.experiment)
}
