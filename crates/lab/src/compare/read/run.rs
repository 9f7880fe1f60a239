//! Reports of a single run (`taut send`, `recv`, `call`, `serve`): a row per stream.

use std::collections::BTreeMap;

use serde::Deserialize;
use tautline_proto::time::Span;
use tautline_report::{CallReport, Counters, Report, StreamReport};

use super::{MISSED, ReadReport, ReadRow};
use crate::report::{Events, ReportRow, bounded};
use crate::statistics::Missed;
use crate::streams::XRUNS;

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
    let cores = directions.iter().filter(|run| run.duration_ns > 0 && run.host.cpu_ns > 0);
    let cores = cores.map(|run| run.host.cpu_ns as f64 / run.duration_ns as f64).reduce(f64::max);
    let streams = directions.into_iter().zip(runs).flat_map(|(run, counted)| {
        let Report { role, started_ns, duration_ns, streams, .. } = run;
        let times = [started_ns, duration_ns];
        let row = move |(stream, counted)| row(&role, in_call, times, stream, counted);
        streams.into_iter().zip(counted.streams).map(row)
    });
    Ok(ReadReport {
        experiment: role.into_owned(),
        command: String::new(),
        hosts: Vec::new(),
        rows: streams.collect(),
        schema,
        cores,
    })
}

fn row(
    role: &str,
    in_call: bool,
    [started_ns, duration_ns]: [i64; 2],
    stream: StreamReport,
    CountedStream { counters }: CountedStream,
) -> ReadRow {
    let missed = missed(&stream);
    let StreamReport { address, refused: invalid, latency, stages, counters: counted, .. } = stream;
    let name = if in_call { format!("{role} {address}") } else { address };
    let kind = XRUNS[usize::from(role != "send")];
    let xruns = stream.xruns.iter().map(|xrun| (xrun.at_ns, xrun.count));
    let count = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
    let misses = stream.misses.iter().map(|it| (it.at_ns, count(it.count)));
    let all_missed = missed.map_or(0, |missed| missed.missed);
    let events = [
        Events::since(started_ns, kind, xruns, counted.xruns),
        Events::since(started_ns, (MISSED, "missed packets"), misses, all_missed),
    ];
    let row = ReportRow {
        invalid,
        configured: latency.configured_ns.map(Span::from_nanos),
        measured: Some(latency.measured),
        uncertainty: latency.uncertainty_ns.map(Span::from_nanos),
        missed,
        stages,
        events: events.into_iter().flatten().collect(),
        ..ReportRow::named(name)
    };
    let run_seconds = u32::try_from(duration_ns / 1_000_000_000).unwrap_or(0);
    ReadRow { row, whole_run: true, run_seconds, own_xruns: Some(kind.0), counters }
}

/// Packets not played at a receiver, or not sent at a sender.
fn missed(stream: &StreamReport) -> Option<Missed> {
    let Counters { sent, send_errors, send_timeouts, .. } = stream.counters;
    let (missed, due) = match sent {
        0 => (stream.missed(), stream.needed()),
        sent => (send_errors.saturating_add(send_timeouts), sent),
    };
    (due > 0).then(|| Missed::of(missed.min(due), due))
}
