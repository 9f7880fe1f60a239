//! A report as a self-contained page with SVG charts, without scripts.
//!
//! Charts are narrow, for telephones. Figures equal the text report's.

mod bars;
mod ladder;
pub(crate) mod markup;
mod over_time;
mod periods;
mod plot;
mod scatter;
mod spread;
mod svg;

use crate::compare::{Compared, ComparedRow};
use crate::report::text::{columns, figures_of_single, nanos, shown, stalls_seen};
use crate::report::{Figure, HostDescription, LabReport, ReportRow, Worst};
use markup::{aside, cells, command, escaped, table};
use svg::Chart;
use tautline_report::ledger::STAGES;

pub fn page(report: &LabReport) -> String {
    let mut out = header(&report.experiment, &report.question);
    let answer = report.answer.iter().flat_map(|answer| answer.lines());
    out.extend(answer.map(|line| format!("<p>{}</p>", escaped(line))));
    out += &command(&report.command);
    for (number, host) in report.hosts.iter().enumerate() {
        if !report.hosts[..number].contains(host) {
            let HostDescription { name, kernel, processor, cpus, stalls } = host;
            let stalls =
                stalls.map_or(String::new(), |stalls| format!(", {}", stalls_seen(stalls)));
            out += &aside(&format!("{name}: {cpus} cores, {processor}, Linux {kernel}{stalls}"));
        }
    }
    out.extend(report.conditions().iter().map(|line| aside(line)));
    if report.duration_ns > 0 {
        out += &aside(&format!("{:.1} s in all", report.duration_ns as f64 / 1e9));
    }
    out += "</header>";
    figures(&mut out, &report.rows);
    let charts = charts_in_columns(
        ladder::ladder(&report.rows)
            .into_iter()
            .chain(ladder::rests(&report.rows))
            .chain(bars::shares(&report.rows)),
    );
    if !charts.is_empty() {
        out += &format!("<section>{charts}</section>");
    }
    rows(&mut out, &report.rows);
    if !report.notes.is_empty() {
        let notes = report.notes.iter().map(|note| format!("<li>{}</li>", escaped(note)));
        out += &format!("<section><h2>Notes</h2><ul>{}</ul></section>", notes.collect::<String>());
    }
    document(&title(report), &out)
}

fn title(report: &LabReport) -> String {
    format!("{}: {}", report.experiment, report.question)
}

fn header(title: &str, question: &str) -> String {
    let (title, question) = (escaped(title), escaped(question));
    format!("<header><h1>{title}</h1><p class=\"question\">{question}</p>")
}

pub(crate) fn document(title: &str, body: &str) -> String {
    let mut out = String::from(concat!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>",
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>",
        "<meta name=\"color-scheme\" content=\"light dark\"/><title>"
    ));
    out += &escaped(title);
    out += "</title><style>";
    out += include_str!("page/page.css");
    out += "</style></head><body><main>";
    out += body;
    out += "</main></body></html>\n";
    out
}

fn charts_in_columns(charts: impl IntoIterator<Item = Chart>) -> String {
    let figures: String = charts.into_iter().map(|chart| chart.figure()).collect();
    match figures.is_empty() {
        true => figures,
        false => format!("<div class=\"charts\">{figures}</div>"),
    }
}

const DRAWN_ROWS: usize = 16;

/// Charts of each row: stages, else course, else histogram, else machine load.
pub fn charts(report: &LabReport) -> String {
    let of_row = |row: &ReportRow| {
        let spread = || Some(Chart { words: "how often".to_owned(), ..spread::histogram(row)? });
        let chart = bars::waterfall(row).or_else(|| over_time::course(row)).or_else(spread);
        let chart = chart.or_else(|| over_time::machines(row).into_iter().next())?;
        Some(Chart { title: row.name.clone(), ..chart })
    };
    let sound = report.rows.iter().filter(|row| row.invalid.is_none());
    let together = ladder::ladder(&report.rows).into_iter().chain(bars::shares(&report.rows));
    let charts: Vec<_> = together.chain(sound.filter_map(of_row).take(DRAWN_ROWS)).collect();
    svg::standalone(&title(report), &charts)
}

fn figures(out: &mut String, rows: &[ReportRow]) {
    if rows.is_empty() {
        return;
    }
    let columns = columns(rows, rows.len() > 1);
    let heads = cells("th", columns.iter().map(|column| &column.head));
    let line = |row: &ReportRow| match &row.invalid {
        Some(why) => {
            let (name, why) = (escaped(&row.name), escaped(why));
            let rest = columns.len().saturating_sub(1).max(1);
            format!(
                "<td>{name}</td><td class=\"words invalid\" colspan=\"{rest}\"><span>invalid: {why}</span></td>"
            )
        }
        None => cells("td", columns.iter().map(|column| (column.cell)(row).unwrap_or_default())),
    };
    *out += "<section><h2>Figures</h2>";
    *out += &table(&heads, rows.iter().map(line));
    // A single row's figures get no column.
    if let [row] = rows
        && !row.figures.is_empty()
        && row.invalid.is_none()
    {
        let line = |figure: &Figure| cells("td", [figure.words, &*shown(figure)]);
        *out += &table("", figures_of_single(row).map(line));
    }
    *out += "</section>";
}

const FEW: usize = 2;

fn rows(out: &mut String, rows: &[ReportRow]) {
    let reported: Vec<(&ReportRow, String)> = rows
        .iter()
        .filter(|row| row.invalid.is_none())
        .map(|row| (row, row_charts(row) + &worst(row) + &events(row)))
        .filter(|(_, charts)| !charts.is_empty())
        .collect();
    if reported.is_empty() {
        return;
    }
    *out += "<section><h2>In detail</h2>";
    let worst = reported.iter().map(|(row, _)| beyond(row)).max();
    for (row, charts) in &reported {
        let open = reported.len() <= FEW || Some(beyond(row)) == worst;
        let open = if open { " open=\"open\"" } else { "" };
        let (name, brief) = (escaped(&row.name), brief(row));
        *out += &format!("<details{open}><summary>{name}{brief}</summary>{charts}</details>");
    }
    *out += "</section>";
}

fn beyond(row: &ReportRow) -> i64 {
    let measured = row.measured.as_ref();
    measured.and_then(|m| Some(m.max_ns? - m.p50_ns.or(m.mean_ns)?)).unwrap_or(i64::MIN)
}

fn brief(row: &ReportRow) -> String {
    let Some(measured) = &row.measured else { return String::new() };
    let reported =
        [("median", measured.p50_ns), ("p99", measured.p99_ns), ("max", measured.max_ns)];
    let reported =
        reported.into_iter().filter_map(|(name, value)| Some(format!("{name} {}", nanos(value?))));
    let reported: Vec<String> = reported.collect();
    if reported.is_empty() {
        String::new()
    } else {
        format!(" <small>{}</small>", reported.join(", "))
    }
}

fn row_charts(row: &ReportRow) -> String {
    let mut charts: Vec<Chart> = over_time::machines(row);
    charts.splice(0..0, bars::waterfall(row).into_iter().chain(over_time::course(row)));
    charts.extend(
        [spread::histogram, spread::body, spread::tail, scatter::all, scatter::magnified]
            .into_iter()
            .filter_map(|chart| chart(row)),
    );
    charts.extend(periods::periodogram(row));
    charts_in_columns(charts)
}

fn worst(row: &ReportRow) -> String {
    if row.worst.is_empty() {
        return String::new();
    }
    let length = |worst: &Worst, name: &str| {
        worst.stages.iter().find(|stage| stage.name == name).map(|stage| nanos(stage.length_ns))
    };
    let known = |name: &&str| row.worst.iter().any(|worst| length(worst, name).is_some());
    let stages: Vec<&str> = STAGES.into_iter().filter(known).collect();
    let why = stages.is_empty() && row.worst.iter().any(|worst| worst.cause.is_some());
    let mut heads = cells("th", ["at", "value"].into_iter().chain(stages.iter().copied()));
    if why {
        heads += "<th class=\"words\">because</th>";
    }
    let line = |worst: &Worst| {
        let (at, value) = (format!("{:.3} s", worst.at_ns as f64 / 1e9), nanos(worst.value_ns));
        let lengths = stages.iter().map(|name| length(worst, name).unwrap_or_default());
        let mut line = cells("td", [at, value].into_iter().chain(lengths));
        if why {
            let because = escaped(worst.cause.as_deref().unwrap_or_default());
            line += &format!("<td class=\"words\">{because}</td>");
        }
        line
    };
    "<h3>The worst</h3>".to_owned() + &table(&heads, row.worst.iter().map(line))
}

/// Maximum events listed. Charts show the rest.
const TOLD: usize = 20;

fn events(row: &ReportRow) -> String {
    let mut out = String::new();
    for events in &row.events {
        out += &format!("<h3>When: {}</h3>", escaped(&events.words));
        let (shown, more) = events.values.split_at(events.values.len().min(TOLD));
        if !shown.is_empty() {
            let line = |(at, count): &(i64, u32)| {
                cells("td", [format!("{:.3} s", *at as f64 / 1e9), count.to_string()])
            };
            out += &table(&cells("th", ["at", "how many"]), shown.iter().map(line));
        }
        let later =
            more.iter().map(|(_, count)| u64::from(*count)).sum::<u64>() + events.without_time;
        if later > 0 {
            out += &aside(&format!("and {later} more"));
        }
    }
    out
}

pub fn compared(compared: &Compared) -> String {
    let mut out = header(&compared_title(compared), &compared.verdict()) + "</header>";
    for row in &compared.rows {
        out += &format!("<section><h2>{}</h2>", escaped(&row.title()));
        row.sentences().iter().for_each(|sentence| out += &aside(sentence));
        let lines = row.table(|_| true);
        if let [heads, lines @ ..] = &lines[..]
            && !lines.is_empty()
        {
            out += &table(&cells("th", heads), lines.iter().map(|line| cells("td", line)));
        }
        out += &charts_in_columns(bars::differences(row));
        out += "</section>";
    }
    out += "<section>";
    compared.notes.iter().for_each(|note| out += &aside(note));
    document(&compared_title(compared), &(out + "</section>"))
}

pub fn compared_charts(compared: &Compared) -> String {
    let chart = |row: &ComparedRow| Some(Chart { title: row.title(), ..bars::differences(row)? });
    let charts: Vec<_> = compared.rows.iter().filter_map(chart).collect();
    svg::standalone(&compared_title(compared), &charts)
}

fn compared_title(compared: &Compared) -> String {
    format!("{}: the second report against the first", compared.experiment)
}
