//! Reports of one run (`taut send`, `recv`, `call`, `serve`): a row per stream.

use std::collections::BTreeMap;

use serde::Deserialize;
use tautline_proto::time::Span;
use tautline_report::{CallReport, Counters, Report, StreamReport};

use super::{ReadReport, ReadRow};
use crate::report::{ReportRow, bounded};
use crate::statistics::Missed;

/// By name: versions differ.
#[derive(Deserialize)]
struct CountedRun {
    #[serde(default, deserialize_with = "bounded::rows")]
    streams: Vec<CountedStream>,
    #[serde(default, deserialize_with = "bounded::rows")]
    directions: Vec<CountedRun>,
}

#[derive(Deserialize)]
struct CountedStream {
    #[serde(default)]
    counters: BTreeMap<String, u64>,
}

pub(super) fn read(json: &[u8]) -> Result<ReadReport, serde_json::Error> {
    let counted: CountedRun = serde_json::from_slice(json)?;
    let in_call = !counted.directions.is_empty();
    let CallReport { schema, role, directions } = if in_call {
        serde_json::from_slice(json)?
    } else {
        let run: Report = serde_json::from_slice(json)?;
        CallReport { schema: run.schema, role: run.role.clone(), directions: vec![run] }
    };
    let runs = if in_call { counted.directions } else { vec![counted] };
    let streams =
        directions.into_iter().zip(runs).flat_map(|(Report { role, streams, .. }, run)| {
            let name = move |address| if in_call { format!("{role} {address}") } else { address };
            let row = move |(stream, counted)| row(&name, stream, counted);
            streams.into_iter().zip(run.streams).map(row)
        });
    Ok(ReadReport {
        experiment: role.into_owned(),
        command: String::new(),
        hosts: Vec::new(),
        rows: streams.collect(),
        schema,
    })
}

fn row(
    name: impl Fn(String) -> String,
    stream: StreamReport,
    CountedStream { counters }: CountedStream,
) -> ReadRow {
    let StreamReport { address, refused: invalid, latency, stages, counters: counted, .. } = stream;
    let row = ReportRow {
        invalid,
        configured: latency.configured_ns.map(Span::from_nanos),
        measured: Some(latency.measured),
        uncertainty: latency.uncertainty_ns.map(Span::from_nanos),
        missed: missed(&counted),
        stages,
        ..ReportRow::named(name(address))
    };
    ReadRow { row, whole_run: true, counters }
}

/// Not played at a receiver; not sent at a sender.
fn missed(counted: &Counters) -> Option<Missed> {
    let Counters {
        sent,
        received,
        lost,
        late,
        underrun_discarded,
        duplicate,
        send_errors,
        send_timeouts,
        ..
    } = *counted;
    let (missed, due) = match sent {
        0 => (
            lost.saturating_add(late).saturating_add(underrun_discarded),
            received.saturating_add(lost).saturating_sub(duplicate),
        ),
        sent => (send_errors.saturating_add(send_timeouts), sent),
    };
    (due > 0).then(|| Missed::of(missed.min(due), due))
}
