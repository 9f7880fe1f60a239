//! The verdicts for people.

use core::fmt;

use tautline_proto::time::Span;

use super::{Compared, ComparedFigure, MISSED};
use crate::report::text::{aligned, share};
use crate::statistics::SeriesDifference;

impl fmt::Display for Compared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: the second report against the first\n", self.experiment)?;
        let heads = ["", "figure", "first", "second", "difference", "chance", "verdict"];
        let mut lines = vec![heads.map(str::to_owned).to_vec()];
        for row in &self.rows {
            if let Some(why) = &row.unknown {
                lines.push(vec![row.name.clone(), format!("unknown: {why}")]);
            }
            lines.extend(row.figures.iter().map(|figure| cells(&row.name, figure)));
        }
        // What is unknown has words and no cells.
        let table: Vec<Vec<String>> = lines.iter().filter(|line| line.len() > 2).cloned().collect();
        let mut table = aligned(&table).into_iter();
        for line in lines {
            match &line[..] {
                [name, why] => writeln!(f, "{name}  {why}")?,
                _ => writeln!(f, "{}", table.next().unwrap_or_default())?,
            }
        }
        if self.figures().next().is_some() {
            let chance = "of 20 pairs of runs that do not differ, one is told to, at most";
            writeln!(f, "\nnote: {chance}")?;
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "note: {note}"))
    }
}

fn cells(name: &str, figure: &ComparedFigure) -> Vec<String> {
    let nanos = |nanos: f64| Span::from_nanos(nanos.round() as i64).to_string();
    let signed = |value: f64| if value > 0.0 { format!("+{}", nanos(value)) } else { nanos(value) };
    let (words, value): (_, &dyn Fn(f64) -> String) = match figure.key {
        MISSED => ("missed", &share_or_none),
        "p50_ns" => ("median", &nanos),
        _ => ("p99", &nanos),
    };
    let difference = match figure.interval {
        Some([from, to]) => {
            let middle = signed(figure.second - figure.first);
            format!("{middle} ({} to {})", signed(from), signed(to))
        }
        None => String::new(),
    };
    let verdict = match (figure.verdict, figure.key) {
        (SeriesDifference::Unknown, _) => figure.why.clone().unwrap_or_default(),
        (SeriesDifference::None, _) => "same".to_owned(),
        (SeriesDifference::Less, MISSED) => "fewer".to_owned(),
        (SeriesDifference::More, MISSED) => "MORE".to_owned(),
        (SeriesDifference::Less, _) => "faster".to_owned(),
        (SeriesDifference::More, _) => "SLOWER".to_owned(),
    };
    let chance =
        if figure.verdict == SeriesDifference::Unknown { String::new() } else { chance(figure.p) };
    let (first, second) = (value(figure.first), value(figure.second));
    vec![name.to_owned(), words.to_owned(), first, second, difference, chance, verdict]
}

fn share_or_none(of: f64) -> String {
    if of == 0.0 { "0".to_owned() } else { share(of) }
}

fn chance(p: f64) -> String {
    if p >= 0.001 { format!("{p:.3}") } else { format!("{p:.0e}") }
}
