//! CSV report (RFC 4180): a line per stream or row, a column per figure.
//!
//! Columns are JSON paths: `stages.wire.summary.p50_ns`. Lists of unnamed objects, such as
//! histograms, are only in the JSON.

use serde_json::{Map, Value};

/// Columns that identify a line, placed first.
const FIRST: [&str; 5] = ["role", "experiment", "name", "address", "duration_ns"];

/// CSV of a JSON report.
pub fn table(json: &str) -> Result<String, serde_json::Error> {
    let report: Value = serde_json::from_str(json)?;
    let lines = lines(&report);
    let mut columns: Vec<&str> = Vec::new();
    for (name, _) in lines.iter().flatten() {
        if !columns.contains(&name.as_str()) {
            columns.push(name);
        }
    }
    columns.sort_by_key(|name| FIRST.iter().position(|first| first == name).unwrap_or(FIRST.len()));
    let head = columns.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(",");
    let cells = |line: &Line| {
        let cell = |name: &&str| line.iter().find(|(column, _)| column == name);
        let cells = columns.iter().map(|name| cell(name).map_or("", |(_, text)| text.as_str()));
        cells.map(quoted).collect::<Vec<_>>().join(",")
    };
    let lines = core::iter::once(head).chain(lines.iter().map(cells));
    Ok(lines.map(|line| line + "\n").collect())
}

type Line = Vec<(String, String)>;

fn lines(report: &Value) -> Vec<Line> {
    if let Some(directions) = report["directions"].as_array() {
        return directions.iter().flat_map(lines).collect();
    }
    let all = report["streams"].as_array().or(report["rows"].as_array());
    let line = |one: &Value| {
        let mut line = Line::new();
        for name in FIRST {
            flatten(name, &report[name], &mut line);
        }
        one.as_object().into_iter().for_each(|fields| each(None, fields, &mut line));
        line
    };
    all.into_iter().flatten().map(line).collect()
}

fn each(under: Option<&str>, fields: &Map<String, Value>, line: &mut Line) {
    for (name, value) in fields {
        match under {
            Some(under) => flatten(&format!("{under}.{name}"), value, line),
            None => flatten(name, value, line),
        }
    }
}

fn flatten(name: &str, value: &Value, line: &mut Line) {
    match value {
        Value::Null => {}
        Value::String(text) => line.push((name.to_owned(), text.clone())),
        Value::Bool(_) | Value::Number(_) => line.push((name.to_owned(), value.to_string())),
        Value::Object(fields) => each(Some(name), fields, line),
        Value::Array(all) => {
            for one in all {
                if let (Some(own), Some(fields)) = (one["name"].as_str(), one.as_object()) {
                    let mut fields = fields.clone();
                    fields.remove("name");
                    each(Some(&format!("{name}.{own}")), &fields, line);
                }
            }
        }
    }
}

fn quoted(cell: &str) -> String {
    match cell.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stream_is_a_line_and_each_figure_a_column() {
        let table = table(
            r#"{"schema":2,"role":"recv","duration_ns":7,"notes":["x"],"streams":[
                {"address":"rtp://a, \"b\"","latency":{"measured":{"p50_ns":5}},"worst":[{"total_ns":1}],
                 "stages":[{"name":"wire","summary":{"p50_ns":3},"uncertainty_ns":null}]},
                {"address":"c","drift_ppm":-1.5}]}"#,
        );
        let expected = "role,address,duration_ns,latency.measured.p50_ns,stages.wire.summary.p50_ns,drift_ppm\n\
                        recv,\"rtp://a, \"\"b\"\"\",7,5,3,\n\
                        recv,c,7,,,-1.5\n";
        assert_eq!(table.unwrap(), expected);
    }

    #[test]
    fn csv_has_a_line_per_call_direction_and_experiment_row() {
        let call = r#"{"role":"call","directions":[{"role":"recv","streams":[{"x":1}]},
                       {"role":"send","streams":[{"x":2}]}]}"#;
        assert_eq!(table(call).unwrap(), "role,x\nrecv,1\nsend,2\n");
        let rows =
            r#"{"experiment":"latency-sweep","rows":[{"name":"3 ms","invalid":null,"x":true}]}"#;
        assert_eq!(table(rows).unwrap(), "experiment,name,x\nlatency-sweep,3 ms,true\n");
        assert_eq!(table(r#"{"rows":[]}"#).unwrap(), "\n");
    }
}
