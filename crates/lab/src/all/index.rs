//! Links to all experiments' pages.

use super::{AllOutcome, AllReport, AllRow};
use crate::page::document;
use crate::page::markup::{aside, cells, command, escaped, invalid, table};
use crate::report::text::{nanos, within};

const FEW: usize = 6;

pub(super) fn index(report: &AllReport) -> String {
    let mut out = String::from("<header><h1>All experiments</h1>") + &command(&report.command);
    let seconds = report.duration_ns as f64 / 1e9;
    out += &aside(&format!(
        "{seconds:.0} s in total, each as short as possible; for reliable figures, run its \
         command without --duration."
    ));
    if report.ended_early {
        out += &invalid("Stopped before all of them had run.");
    }
    out += "</header>";
    report.experiments.iter().for_each(|outcome| experiment(&mut out, outcome));
    document("taut lab: all experiments", &out)
}

fn experiment(out: &mut String, outcome: &AllOutcome) {
    let name = escaped(outcome.name);
    let name = match &outcome.page {
        Some(page) => format!("<a href=\"{}\">{name}</a>", escaped(page)),
        None => name,
    };
    *out += &format!("<section><h2>{name}</h2><p>{}</p>", escaped(outcome.does));
    *out += &command(&outcome.command);
    if let Some(why) = &outcome.failed {
        *out += &invalid(&format!("failed: {why}"));
    }
    rows(out, &outcome.rows);
    *out += "</section>";
}

fn rows(out: &mut String, rows: &[AllRow]) {
    let timed: Vec<_> = rows.iter().filter(|row| row.invalid.is_none()).filter_map(line).collect();
    let reported = timed.len().min(FEW);
    if reported > 0 {
        let heads = cells("th", ["", "configured", "median", "p99", "max", "count"]);
        *out += &table(&heads, timed.into_iter().take(FEW));
    }
    let refused: Vec<_> =
        rows.iter().filter_map(|row| Some((&row.name, row.invalid.as_ref()?))).collect();
    let others = rows.len() - reported - refused.len();
    if others > 0 {
        let rows = if others == 1 { "row" } else { "rows" };
        *out += &aside(&format!("{others} {rows} more on its own page"));
    }
    refused.iter().for_each(|(name, why)| *out += &invalid(&format!("{name} is invalid: {why}")));
}

fn line(row: &AllRow) -> Option<String> {
    let measured = row.measured?;
    let span = |value: Option<i64>| value.map(nanos).unwrap_or_default();
    let median = measured.p50_ns.map(|middle| within(middle, row.uncertainty_ns));
    Some(cells(
        "td",
        [
            row.name.clone(),
            span(row.configured_ns),
            median.unwrap_or_default(),
            span(measured.p99_ns),
            span(measured.max_ns),
            measured.count.to_string(),
        ],
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::all::AllSummary;

    fn row(name: &str, invalid: Option<&str>) -> AllRow {
        let summary = AllSummary {
            count: 1000,
            p50_ns: Some(5_000_100),
            p99_ns: None,
            max_ns: Some(6_000_000),
        };
        AllRow {
            name: name.into(),
            invalid: invalid.map(str::to_owned),
            configured_ns: Some(5_000_000),
            uncertainty_ns: Some(21_000),
            // An invalid row may have figures.
            measured: Some(summary),
        }
    }

    fn outcome() -> AllOutcome {
        AllOutcome {
            name: "latency-sweep",
            does: "hold <measured> against configured",
            command: "taut lab latency-sweep".into(),
            duration_ns: 0,
            page: Some("latency-sweep.html".into()),
            rows: Vec::new(),
            failed: None,
        }
    }

    fn reported(outcome: AllOutcome) -> String {
        index(&AllReport {
            schema: 2,
            command: String::new(),
            duration_ns: 0,
            ended_early: false,
            experiments: vec![outcome],
        })
    }

    #[test]
    fn index_links_page_and_lists_first_and_invalid_rows() {
        let mut rows: Vec<AllRow> =
            (0..8).map(|number| row(&format!("row {number}"), None)).collect();
        rows.push(row("last", Some("the kernel <refused>")));
        let page = reported(AllOutcome { rows, ..outcome() });
        assert!(page.contains("<a href=\"latency-sweep.html\">latency-sweep</a>"), "{page}");
        assert!(page.contains("hold &lt;measured&gt;"), "{page}");
        let cells = "<td>row 5</td><td>5ms</td><td>5.000ms ± 21us</td><td></td>";
        assert!(page.contains(cells), "{page}");
        assert!(!page.contains("row 6"), "{page}");
        assert!(page.contains("2 rows more"), "{page}");
        assert!(page.contains("last is invalid: the kernel &lt;refused&gt;"), "{page}");
    }

    #[test]
    fn failed_experiment_has_a_reason_and_no_link() {
        let page =
            reported(AllOutcome { page: None, failed: Some("no room & none".into()), ..outcome() });
        assert!(page.contains("failed: no room &amp; none"), "{page}");
        assert!(!page.contains("href"), "{page}");
    }
}
