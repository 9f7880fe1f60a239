use tautline_trial::snapshot;

use serde_json::Value;
use tautline_proto::time::{LocalTime, Span};

use super::*;

fn series(values: impl IntoIterator<Item = i64>) -> Series {
    let values: Vec<i64> = values.into_iter().collect();
    let mut series = Series::with_room(values.len());
    for (index, value) in values.into_iter().enumerate() {
        let due = LocalTime::ZERO + Span::from_millis(index as i64);
        series.push(due, Span::from_nanos(value));
    }
    series
}

fn report() -> LabReport {
    let mut report = LabReport::of("latency-sweep", "is what is configured what is measured?");
    let mut row =
        ReportRow::named("test 1").with(&series((0..1000).map(|index| 5_000_000 + index)));
    row.configured = Some(Span::from_millis(5));
    row.uncertainty = Some(Span::from_micros(10));
    row.missed = Some(Missed::of(0, 1000));
    row.add("rest_ns", "rest", 500);
    report.rows = vec![row, ReportRow::invalid("test 2", "this kernel has no such scheduler")];
    report
}

#[test]
fn misses_are_counted_in_total_and_per_second() {
    let series = series((0..2500).map(|index| if [7, 999, 2400].contains(&index) { 9 } else { 1 }));
    let mut row = ReportRow::named("core 0").with(&series);
    row.count_missed(&series, |late| late >= Span::from_nanos(9));
    assert_eq!(row.missed, Some(Missed::of(3, 2500)));
    let reported: Vec<_> = row.meanwhile.iter().filter(|one| one.key == "missed").collect();
    let seconds = vec![(500_000_000, 2.0), (1_500_000_000, 0.0), (2_500_000_000, 1.0)];
    assert_eq!(reported.iter().map(|one| one.values.clone()).collect::<Vec<_>>(), [seconds]);
}

#[test]
fn text_row_shows_error_tail_and_miss_bound() {
    let text = report().to_string();
    snapshot!(text);
    let row = text.lines().find(|line| line.starts_with("test 1")).unwrap();
    for cell in ["5ms", " ± 10us", "0 of 1000 (≤ 0.30 %)", "1000", "500ns"] {
        assert!(row.contains(cell), "{cell}: {text}");
    }
    snapshot!(text);
    assert!(!text.contains("p99.9"), "one of a thousand lies beyond: {text}");
}

#[test]
fn figure_that_the_table_shows_is_not_repeated() {
    let mut report = report();
    report.rows.truncate(1);
    report.rows[0].add("delay_p50_ns", "median", 5_000_500);
    let (text, page) = (report.to_string(), crate::page::page(&report));
    assert_eq!(text.matches("median").count(), 1, "{text}");
    assert!(page.contains("<td>rest</td>") && !page.contains("<td>median</td>"), "{page}");
}

#[test]
fn conditions_are_named_once_for_rows_that_share_them() {
    let mut report = report();
    report.rows = ["a", "b"].map(ReportRow::named).into();
    assert!(report.conditions().is_empty());
    for row in &mut report.rows {
        row.conditions = Some("virtual card to alsa:hw:0".to_owned());
    }
    assert_eq!(report.conditions(), ["conditions: virtual card to alsa:hw:0"]);
    assert!(report.to_string().contains("\nconditions: virtual card to alsa:hw:0\n"), "{report}");
    let page = crate::page::page(&report);
    assert!(page.contains("conditions: virtual card to alsa:hw:0"), "{page}");
    report.rows[1].conditions = Some("alsa:hw:0 to alsa:hw:0".to_owned());
    let each = ["a: virtual card to alsa:hw:0", "b: alsa:hw:0 to alsa:hw:0"];
    assert_eq!(report.conditions(), each);
}

#[test]
fn percentile_of_too_few_values_is_a_dash_with_a_note() {
    let mut report = report();
    report.rows.push(ReportRow::named("few").with(&series(0..100)));
    let text = report.to_string();
    let few = text.lines().find(|line| line.starts_with("few")).unwrap();
    assert!(few.contains(" – "), "{text}");
    snapshot!(text);
    report.rows.pop();
    assert!(!report.to_string().contains("p99 –"), "an invalid row measured nothing: {report}");
}

#[test]
fn figure_is_rounded_to_its_uncertainty() {
    let reported = |nanos: i64, error: i64| {
        let mut row = ReportRow::named("cable").with(&series([nanos]));
        row.uncertainty = Some(Span::from_nanos(error));
        row.add_within("frames", "median, frames", 137.370_012, 0.000_05);
        let summary = row.measured.unwrap();
        let name = "wire".into();
        row.stages = vec![StageSummary { name, summary, uncertainty_ns: Some(error) }];
        LabReport { rows: vec![row], ..report() }.to_string()
    };
    for (nanos, error, cell, stage) in [
        (5_299_997, 241, " 5.30000ms ± 250ns ", "  5.30000ms ± 250ns "),
        (2_861_875, 1, " 2.861875ms ± 1ns ", "  2.861875ms ± 1ns "),
    ] {
        let text = reported(nanos, error);
        assert!(text.contains(cell) && text.contains(stage), "{text}");
        assert!(text.contains("median, frames: 137.370012\n"), "{text}");
    }
}

#[test]
fn a_figure_that_rounds_to_nothing_has_no_sign() {
    let mut row = ReportRow::named("taps");
    for (key, value) in [("drift_ppm", -4e-9), ("step_ppm", -1e-6), ("gain", -0.5)] {
        row.add(key, key, value);
    }
    let shown: Vec<_> = row.figures.iter().map(text::shown).collect();
    assert_eq!(shown, ["0", "-0.000001", "-0.5000"]);
}

#[test]
fn invalid_row_has_a_reason_and_others_stay_valid() {
    let text = report().to_string();
    snapshot!(text);
    assert!(report().says_something());
    let invalid = LabReport { rows: vec![ReportRow::invalid("a", "b")], ..report() };
    assert!(!invalid.says_something());
}

#[test]
fn programs_find_every_figure_under_its_own_name() {
    let json: Value = serde_json::from_str(&report().to_json().unwrap()).unwrap();
    let row = &json["rows"][0];
    assert_eq!(row["configured_ns"], 5_000_000);
    assert_eq!(row["measured"]["count"], 1000);
    assert_eq!(row["measured"]["p9999_ns"], Value::Null);
    assert_eq!(row["rest_ns"], 500);
    assert_eq!(row["missed"]["missed"], 0);
    assert_eq!(row["worst"].as_array().unwrap().len(), 10);
    assert_eq!(row["worst"][0]["value_ns"], 5_000_999);
    assert_eq!(row["intervals"].as_array().unwrap().len(), 1);
    snapshot!(json["rows"][1]["invalid"]);
}

fn fields(path: &str, value: &Value, found: &mut Vec<(String, Value)>) {
    found.push((path.to_owned(), value.clone()));
    match value {
        // It has the fields of `measured`.
        _ if path.ends_with(".summary") => {}
        Value::Object(map) => map.iter().for_each(|(key, value)| {
            fields(format!("{path}.{key}").trim_start_matches('.'), value, found);
        }),
        Value::Array(all) => all.iter().filter(|one| one.is_object()).for_each(|one| {
            for (key, value) in one.as_object().into_iter().flatten() {
                fields(&format!("{path}[].{key}"), value, found);
            }
        }),
        _ => {}
    }
}

fn full() -> LabReport {
    let mut report = report();
    report.hosts = vec![HostDescription { stalls: Some(1), ..HostDescription::here("here") }];
    report.notes = vec!["a note".to_owned()];
    let row = &mut report.rows[0];
    row.figures.clear();
    row.conditions = Some("virtual card to virtual card".to_owned());
    // Ten values lie beyond the rarest percentile.
    row.measured = Some(series(0..100_000).summary());
    row.meanwhile = vec![Meanwhile::drawn("cpu_percent", "cpu, %", vec![(0, 1.0)])];
    let (key, words) = ("xruns".into(), "xruns".into());
    row.events = vec![Events { key, words, values: vec![(-1, 2)], without_time: 3 }];
    let statistic = Statistic::Single;
    row.published = vec![Published { source: "they", name: "A", statistic, value_ns: 5_000_000 }];
    let summary = series(0..1000).summary();
    let wire = |uncertainty_ns| StageSummary { name: "wire".into(), summary, uncertainty_ns };
    row.stages = vec![wire(Some(7)), wire(None)];
    let stages = vec![WorstPart { name: "wire".into(), length_ns: 2 }];
    let (late, lost, underrun_discarded) = (vec![(0, 1)], vec![(0, 1)], vec![(0, 1)]);
    let part = |p99_ns| PartBySecond {
        name: "wire".to_owned(),
        p50_ns: vec![1],
        p99_ns: vec![p99_ns],
        max_ns: vec![3],
    };
    let parts = vec![part(Some(2)), part(None)];
    let never_sent = Some(vec![(0, 1)]);
    let other = StreamBySecond::default();
    row.stream =
        Some(StreamBySecond { late, lost, underrun_discarded, never_sent, parts, ..other });
    let why = Worst { at_ns: 1, value_ns: 2, cause: Some("a stall".to_owned()), stages };
    row.worst.push(why);
    report.answer = Some("minimum 5ms".to_owned());
    report
}

#[test]
fn every_report_field_is_documented_with_type_and_null() {
    let page = include_str!("../../../../docs/internals/lab-method.md");
    let table: Vec<Vec<&str>> = page
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let mut found = Vec::new();
    let json: Value = serde_json::from_str(&full().to_json().unwrap()).unwrap();
    json.as_object().unwrap().iter().for_each(|(key, value)| fields(key, value, &mut found));
    for (path, value) in &found {
        let line = table.iter().find(|cells| cells[0] == format!("`{path}`"));
        let [_, kind, unit, null] = line.expect(path)[..] else { panic!("{path}: {line:?}") };
        let kind = kind.split([',', ':']).next().unwrap();
        let fits = match kind {
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            "string" => value.is_string(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            other => panic!("{path}: {other}"),
        };
        assert!(fits || (value.is_null() && !null.is_empty()), "{path} is {value}: {line:?}");
        assert_eq!(unit == "ns", path.ends_with("_ns"), "{path}");
    }
    for cells in &table {
        let path = cells[0].trim_matches('`');
        let written = found.iter().any(|(field, value)| field == path && !value.is_null());
        assert!(written, "{path} is described and not written");
    }
}

#[test]
fn events_are_listed_with_times_and_untimed_count() {
    let mut report = report();
    report.rows.truncate(1);
    let (key, words) = ("receiver_xruns", "xruns of the receiver's device");
    let values = (0..9).map(|at| (1_250_000_000 * (at - 1), 1 + u32::from(at == 0))).collect();
    report.rows[0].events =
        vec![Events { key: key.into(), words: words.into(), values, without_time: 3 }];
    let text = report.to_string();
    let line = text.lines().find(|line| line.starts_with(words)).unwrap();
    snapshot!(line);
    report.rows.push(ReportRow::named("other"));
    snapshot!(report);
}

#[test]
fn figures_of_other_programs_name_their_source() {
    let mut report = report();
    let there = |name| Published {
        source: "the thesis, table 1",
        name,
        statistic: Statistic::Single,
        value_ns: 5_000_000,
    };
    report.rows[0].published = vec![there("theirs A"), there("theirs B")];
    let text = report.to_string();
    assert_eq!(text.matches("\ntheirs A, theirs B: the thesis, table 1\n").count(), 1, "{text}");
}

#[test]
fn host_with_both_ends_is_listed_once_with_most_stalls() {
    let here = HostDescription::here("local");
    let seen = |stalls| HostDescription { stalls, ..here.clone() };
    let other = HostDescription { name: "ssh:studio".to_owned(), ..seen(Some(9)) };
    let hosts = vec![seen(Some(2)), seen(Some(3)), other];
    let text = LabReport { hosts, ..report() }.to_string();
    let lines: Vec<_> = text.lines().filter(|line| line.contains(" stalls")).collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(lines[0].starts_with("local: ") && lines[0].contains(", 3 stalls"), "{text}");
    assert!(lines[1].starts_with("ssh:studio: ") && lines[1].contains(", 9 stalls"), "{text}");
    let once = LabReport { hosts: vec![seen(Some(1))], ..report() };
    for reported in [once.to_string(), crate::page::page(&once)] {
        assert!(reported.contains(", 1 stall"), "{reported}");
    }
}
