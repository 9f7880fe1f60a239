//! Reports of one run, as `taut send`, `recv`, `call` and `serve` write them: a row for each stream.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{ReadReport, ReadRow, ReadStage, ReadSummary};
use crate::statistics::Missed;

#[derive(Deserialize)]
struct Run {
    schema: u64,
    role: String,
    #[serde(default)]
    streams: Vec<Stream>,
    #[serde(default)]
    directions: Vec<Run>,
}

#[derive(Deserialize)]
struct Stream {
    address: String,
    refused: Option<String>,
    #[serde(default)]
    latency: Latency,
    #[serde(default)]
    stages: Vec<ReadStage>,
    #[serde(default)]
    counters: BTreeMap<String, u64>,
}

#[derive(Default, Deserialize)]
struct Latency {
    configured_ns: Option<i64>,
    uncertainty_ns: Option<i64>,
    measured: Option<ReadSummary>,
}

pub(super) fn read(json: &[u8]) -> Result<ReadReport, serde_json::Error> {
    let run: Run = serde_json::from_slice(json)?;
    let Run { schema, role, .. } = &run;
    let (experiment, schema) = (role.clone(), *schema);
    let mut report = ReadReport {
        experiment,
        command: String::new(),
        hosts: Vec::new(),
        rows: Vec::new(),
        schema,
    };
    let in_call = !run.directions.is_empty();
    for Run { role, streams, .. } in run.each() {
        let name = |address: &str| match in_call {
            true => format!("{role} {address}"),
            false => address.to_owned(),
        };
        report.rows.extend(streams.into_iter().map(|stream| row(name(&stream.address), stream)));
    }
    Ok(report)
}

impl Run {
    fn each(self) -> Vec<Self> {
        if self.directions.is_empty() { vec![self] } else { self.directions }
    }
}

fn row(name: String, stream: Stream) -> ReadRow {
    let Stream { refused: void, latency, stages, counters, .. } = stream;
    let Latency { configured_ns, uncertainty_ns, measured } = latency;
    let missed = missed(&counters);
    ReadRow {
        name,
        void,
        whole_run: true,
        measured,
        counters,
        configured_ns,
        uncertainty_ns,
        missed,
        stages,
        ..ReadRow::default()
    }
}

/// Of a receiver, packets that were not played; of a sender, packets that did not leave.
fn missed(counters: &BTreeMap<String, u64>) -> Option<Missed> {
    let count = |name: &str| counters.get(name).copied().unwrap_or(0);
    let sum =
        |names: &[&str]| names.iter().fold(0, |sum: u64, name| sum.saturating_add(count(name)));
    let received = count("packets_received");
    let (missed, due) = match count("packets_sent") {
        0 => (
            sum(&["lost", "late", "unheard"]),
            received.saturating_add(count("lost")).saturating_sub(count("duplicate")),
        ),
        sent => (sum(&["send_errors", "overdue"]), sent),
    };
    (due > 0).then(|| Missed::of(missed.min(due), due))
}
