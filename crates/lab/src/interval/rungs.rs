//! Each rung of the pacing ladder in turn: the same stream, and at which intervals its packets arrive.

use std::collections::HashSet;

use tautline_proto::device::Stop;
use tautline_proto::time::LocalTime;
use tautline_proto::units::Rate;
use tautline_proto::wrap::{Unwrapper, Wrapped};

use super::figures::against_media;
use super::flows::Numbered;
use super::{QUESTION, figures, stamps};
use crate::cases::Cases;
use crate::hosts::HostError;
use crate::report::{LabReport, ReportRow};
use crate::streams::{LabStream, StreamEnds, StreamOutcome};

/// Sends `stream` with `--pacing` as each of `rungs` says. A rung that is not to be had here is a void row.
pub fn climb(
    ends: &mut StreamEnds,
    stream: &LabStream,
    rungs: &[&str],
    stop: &Stop,
    progress: &mut dyn FnMut(&str),
) -> LabReport {
    let mut tell = |_: &ReportRow| !stop.is_requested();
    let mut cases = Cases::of("interval", QUESTION, &mut tell);
    cases.row(stamps::error());
    for rung in rungs {
        progress(&format!("{rung}: a stream of {}", stream.settle + stream.duration));
        let mut beside = Vec::new();
        cases.run(rung, ends, |ends| {
            let (row, others) = of_rung(ends, stream, rung)?;
            beside = others;
            Ok(row)
        });
        beside.into_iter().for_each(|row| cases.row(row));
    }
    cases.report(ends)
}

/// Its arrivals; beside them its departures, and each packet against the media clock.
fn of_rung(
    ends: &mut StreamEnds,
    stream: &LabStream,
    rung: &str,
) -> Result<(ReportRow, Vec<ReportRow>), HostError> {
    let mut plan = stream.clone();
    plan.send.extend(["--pacing", rung, "--stamp-every", "1"].map(str::to_owned));
    let outcome = ends.run(&plan)?;
    let rate = Rate::new(plan.rate).unwrap_or(Rate::HZ_48000);
    Ok(rows(rung, &outcome, rate))
}

fn rows(rung: &str, outcome: &StreamOutcome, rate: Rate) -> (ReportRow, Vec<ReportRow>) {
    let packets = arrived(outcome);
    let left = departed(outcome);
    let mut row = figures::intervals(rung.to_owned(), &packets, rate);
    row.missed = outcome.missed(&outcome.counted());
    let pacing = &outcome.sent["streams"][0]["pacing"];
    if let Some(lead) = pacing["lead_ns"].as_i64() {
        row.add("lead_ns", "launched after it was due", lead);
    }
    let spread = row.measured.and_then(|measured| measured.range_ns);
    if packets.len() > LEAST && spread == Some(0) {
        row.void = Some(
            "every interval is the same to the nanosecond: the receiver was told launch times for arrivals, as within \
             one network namespace; give it another (--with netns:NAME)"
                .to_owned(),
        );
        return (row, Vec::new());
    }
    // Not every driver stamps what leaves.
    let departures = (left.len() > LEAST)
        .then(|| figures::intervals(format!("{rung}, as it left"), &left, rate));
    let media = against_media(rung, &packets, rate).map(|(row, _)| row);
    (row, departures.into_iter().chain(media).collect())
}

/// Of fewer packets, all alike by chance is thinkable.
const LEAST: usize = 100;

/// The packets that count, in the order in which they came.
fn arrived(outcome: &StreamOutcome) -> Vec<Numbered> {
    let seen = outcome
        .counted()
        .into_iter()
        .map(|(_, packet)| (packet.arrival, packet.timestamp))
        .collect();
    numbered(seen)
}

/// The same packets as the sender's kernel gave them to its driver, as far as it stamped them.
fn departed(outcome: &StreamOutcome) -> Vec<Numbered> {
    let counted: HashSet<u32> =
        outcome.counted().into_iter().map(|(_, packet)| packet.timestamp).collect();
    let those = outcome.departures.iter().filter(|packet| counted.contains(&packet.timestamp));
    numbered(those.filter_map(|packet| Some((packet.left?, packet.timestamp))).collect())
}

fn numbered(mut seen: Vec<(i64, u32)>) -> Vec<Numbered> {
    seen.sort_unstable();
    let Some((_, first)) = seen.first() else { return Vec::new() };
    let mut counter = Unwrapper::starting_at(Wrapped { value: *first, bits: 32 });
    let numbered = |(at, timestamp)| Numbered {
        at: LocalTime::from_nanos(at),
        sequence: None,
        timestamp: counter.extend(timestamp),
    };
    seen.into_iter().map(numbered).collect()
}
