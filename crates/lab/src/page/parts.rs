//! The parts of the page in the order of reading.

use tautline_report::ledger::STAGES;

use super::standalone::TitledChart;
use super::words::escaped;
use super::{course, ladder, periods, scatter, shares, spread, usage, waterfall};
use crate::report::text::{columns, freezes, nanos, shown};
use crate::report::{HostDescription, LabReport, ReportRow, Worst};

/// Up to so many rows all charts are open.
const FEW: usize = 2;

/// What was asked, how, and of which machines.
pub(super) fn head(out: &mut String, report: &LabReport) {
    *out += &format!("<header><h1>{}</h1>", escaped(report.experiment));
    *out += &format!("<p class=\"question\">{}</p>", escaped(report.question));
    if !report.command.is_empty() {
        *out += &format!("<pre><code>{}</code></pre>", escaped(&report.command));
    }
    for (number, host) in report.hosts.iter().enumerate() {
        if report.hosts[..number].contains(host) {
            continue;
        }
        *out += &format!("<p class=\"aside\">{}</p>", escaped(&told(host)));
    }
    if report.duration_ns > 0 {
        *out += &format!("<p class=\"aside\">{:.1} s in all</p>", report.duration_ns as f64 / 1e9);
    }
    *out += "</header>";
}

fn told(host: &HostDescription) -> String {
    let HostDescription { name, kernel, processor, cpus, stalls } = host;
    let stalls = stalls.map_or(String::new(), |stalls| format!(", {}", freezes(stalls)));
    format!("{name}: {cpus} cores, {processor}, Linux {kernel}{stalls}")
}

/// The figures that the text has, in the same columns.
pub(super) fn figures(out: &mut String, report: &LabReport) {
    if report.rows.is_empty() {
        return;
    }
    let columns = columns(&report.rows, report.rows.len() > 1);
    *out += "<section><h2>Figures</h2><div class=\"scroll\"><table><thead><tr>";
    columns.iter().for_each(|column| *out += &format!("<th>{}</th>", escaped(&column.head)));
    *out += "</tr></thead><tbody>";
    for row in &report.rows {
        *out += "<tr>";
        match &row.void {
            Some(why) => {
                let rest = columns.len().saturating_sub(1).max(1);
                *out += &format!(
                    "<td>{}</td><td class=\"words void\" colspan=\"{rest}\"><span>void: {}</span></td>",
                    escaped(&row.name),
                    escaped(why)
                );
            }
            None => columns.iter().for_each(|column| {
                *out += &format!("<td>{}</td>", escaped(&(column.cell)(row).unwrap_or_default()));
            }),
        }
        *out += "</tr>";
    }
    *out += "</tbody></table></div>";
    if let [row] = &report.rows[..] {
        own(out, row);
    }
    *out += "</section>";
}

/// What one row alone has: no column is made of it.
fn own(out: &mut String, row: &ReportRow) {
    if row.figures.is_empty() || row.void.is_some() {
        return;
    }
    *out += "<div class=\"scroll\"><table><tbody>";
    for figure in &row.figures {
        let (words, value) = (escaped(figure.words), escaped(&shown(figure)));
        *out += &format!("<tr><td>{words}</td><td>{value}</td></tr>");
    }
    *out += "</tbody></table></div>";
}

/// A chart with its title and what it shows.
fn figure(out: &mut String, title: &str, words: &str, chart: &str) {
    let words =
        if words.is_empty() { String::new() } else { format!("<small>{}</small>", escaped(words)) };
    *out += &format!("<figure><figcaption>{}{words}</figcaption>{chart}</figure>", escaped(title));
}

/// Charts in which all rows stand.
pub(super) fn together(out: &mut String, rows: &[ReportRow]) {
    let mut charts = String::new();
    if let Some((words, chart)) = ladder::ladder(rows) {
        figure(&mut charts, "Row by row", &words, &chart);
    }
    if let Some(chart) = ladder::rests(rows) {
        figure(
            &mut charts,
            "Measured less configured",
            "●\u{a0}the rest ± its uncertainty; ❘\u{a0}nothing left",
            &chart,
        );
    }
    for TitledChart { title, words, chart } in shares::shares(rows) {
        figure(&mut charts, &title, &words, &chart);
    }
    if !charts.is_empty() {
        *out += &format!("<section><div class=\"charts\">{charts}</div></section>");
    }
}

/// Rows whose charts stand in a file of charts alone.
const DRAWN_ROWS: usize = 16;

/// Charts for a file of their own: all rows side by side, and of each row its stages, else how it went, else how it
/// is spread, else what was read of its machine.
pub(super) fn charts_alone(rows: &[ReportRow]) -> Vec<TitledChart> {
    let titled = |title: &str, (words, chart): (String, String)| TitledChart {
        title: title.to_owned(),
        words,
        chart,
    };
    let together = ladder::ladder(rows).map(|drawn| titled("Row by row", drawn));
    let of_row = |row: &ReportRow| {
        let spread = || spread::histogram(row).map(|chart| ("how often".to_owned(), chart));
        let over_time = || {
            let first = usage::over_time(row).into_iter().next();
            first.map(|TitledChart { words, chart, .. }| (words, chart))
        };
        let drawn = waterfall::waterfall(row).or_else(|| course::course(row));
        let drawn = drawn.or_else(spread).or_else(over_time);
        drawn.map(|drawn| titled(&row.name, drawn))
    };
    let sound = rows.iter().filter(|row| row.void.is_none());
    let together = together.into_iter().chain(shares::shares(rows));
    together.chain(sound.filter_map(of_row).take(DRAWN_ROWS)).collect()
}

/// Each row's own charts: of many rows the worst is open.
pub(super) fn rows(out: &mut String, rows: &[ReportRow]) {
    let told: Vec<(&ReportRow, String)> = rows
        .iter()
        .filter(|row| row.void.is_none())
        .map(|row| (row, charts(row) + &worst(row) + &events(row)))
        .filter(|(_, charts)| !charts.is_empty())
        .collect();
    if told.is_empty() {
        return;
    }
    *out += "<section><h2>In detail</h2>";
    let worst = told.iter().map(|(row, _)| beyond(row)).max();
    for (row, charts) in &told {
        let open = told.len() <= FEW || Some(beyond(row)) == worst;
        *out += if open { "<details open=\"open\">" } else { "<details>" };
        *out += &format!("<summary>{}{}</summary>", escaped(&row.name), brief(row));
        *out += charts;
        *out += "</details>";
    }
    *out += "</section>";
}

/// How far the worst of a row lies from its median.
fn beyond(row: &ReportRow) -> i64 {
    let measured = row.measured.as_ref();
    measured.and_then(|m| Some(m.max_ns? - m.p50_ns.or(m.mean_ns)?)).unwrap_or(i64::MIN)
}

fn brief(row: &ReportRow) -> String {
    let Some(measured) = &row.measured else { return String::new() };
    let told = [("median", measured.p50_ns), ("p99", measured.p99_ns), ("max", measured.max_ns)];
    let told: Vec<String> = told
        .into_iter()
        .filter_map(|(name, value)| Some(format!("{name} {}", nanos(value?))))
        .collect();
    if told.is_empty() { String::new() } else { format!(" <small>{}</small>", told.join(", ")) }
}

fn charts(row: &ReportRow) -> String {
    let mut out = String::new();
    if let Some((words, chart)) = waterfall::waterfall(row) {
        figure(&mut out, "Stage by stage", &words, &chart);
    }
    if let Some((words, chart)) = course::course(row) {
        figure(&mut out, "Second by second", &words, &chart);
    }
    for TitledChart { title, words, chart } in usage::over_time(row) {
        figure(&mut out, &title, &words, &chart);
    }
    if let Some(chart) = spread::histogram(row) {
        figure(&mut out, "How often", "values in each of 72 classes, logarithmic", &chart);
    }
    if let Some((words, chart)) = spread::body(row) {
        figure(&mut out, "How often, the middle alone", &words, &chart);
    }
    if let Some(chart) = spread::tail(row) {
        figure(&mut out, "The tail", "share of the values that is greater, logarithmic", &chart);
    }
    if let Some(chart) = scatter::all(row) {
        let mut words = String::from("by the time it was due; each line ends in its name");
        let happened = scatter::happened(row);
        if !happened.is_empty() {
            words += &format!("; {happened} are marked");
        }
        figure(&mut out, "Every value", &words, &chart);
    }
    if let Some((words, chart)) = scatter::magnified(row) {
        figure(&mut out, "The worst, magnified", &words, &chart);
    }
    if let Some((words, chart)) = periods::periodogram(row) {
        figure(&mut out, "Periods", &words, &chart);
    }
    if out.is_empty() { out } else { format!("<div class=\"charts\">{out}</div>") }
}

/// Of a stage of one of the greatest values.
fn length(worst: &Worst, name: &str) -> Option<i64> {
    worst.stages.iter().find(|stage| stage.name == name).map(|stage| stage.length_ns)
}

/// The greatest values, as a table.
fn worst(row: &ReportRow) -> String {
    if row.worst.is_empty() {
        return String::new();
    }
    // A column for each stage that any of them has; in words where there are none.
    let known = |name: &&str| row.worst.iter().any(|worst| length(worst, name).is_some());
    let stages: Vec<&str> = STAGES.into_iter().filter(known).collect();
    let why = stages.is_empty() && row.worst.iter().any(|worst| worst.because.is_some());
    let mut out = String::from(
        "<h3>The worst</h3><div class=\"scroll\"><table><thead><tr><th>at</th><th>value</th>",
    );
    stages.iter().for_each(|name| out += &format!("<th>{}</th>", escaped(name)));
    out += if why {
        "<th class=\"words\">because</th></tr></thead><tbody>"
    } else {
        "</tr></thead><tbody>"
    };
    for worst in &row.worst {
        let (at, value) = (worst.at_ns as f64 / 1e9, nanos(worst.value_ns));
        out += &format!("<tr><td>{at:.3} s</td><td>{value}</td>");
        for name in &stages {
            let told = length(worst, name).map_or_else(String::new, nanos);
            out += &format!("<td>{}</td>", escaped(&told));
        }
        if why {
            let because = worst.because.as_deref().unwrap_or_default();
            out += &format!("<td class=\"words\">{}</td>", escaped(because));
        }
        out += "</tr>";
    }
    out + "</tbody></table></div>"
}

/// Of what happened, so many are told with their instant: charts show the others.
const TOLD: usize = 20;

/// What happened at instants of its own, as a table.
fn events(row: &ReportRow) -> String {
    let mut out = String::new();
    for events in &row.events {
        out += &format!("<h3>When: {}</h3>", escaped(events.words));
        let (shown, more) = events.values.split_at(events.values.len().min(TOLD));
        if !shown.is_empty() {
            out += "<div class=\"scroll\"><table><thead><tr><th>at</th><th>how many</th></tr></thead><tbody>";
            for (at, count) in shown {
                out += &format!("<tr><td>{:.3} s</td><td>{count}</td></tr>", *at as f64 / 1e9);
            }
            out += "</tbody></table></div>";
        }
        let later = more.iter().map(|(_, count)| u64::from(*count)).sum::<u64>() + events.untold;
        if later > 0 {
            out += &format!("<p class=\"aside\">and {later} more</p>");
        }
    }
    out
}

/// What a reader should know before believing the figures.
pub(super) fn notes(out: &mut String, report: &LabReport) {
    if report.notes.is_empty() {
        return;
    }
    *out += "<section><h2>Notes</h2><ul>";
    report.notes.iter().for_each(|note| *out += &format!("<li>{}</li>", escaped(note)));
    *out += "</ul></section>";
}
