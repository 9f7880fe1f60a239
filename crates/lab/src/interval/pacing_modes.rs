//! Arrival intervals of a stream with each pacing mode, and of a bare loop.

use std::collections::HashSet;

use tautline_engine::plan::pacing::PacingMode;
use tautline_proto::time::{LocalTime, Span};
use tautline_proto::units::Rate;
use tautline_proto::wrap::{Unwrapper, Wrapped};
use tautline_report::ledger::ReceivedPacket;

use super::alongside::{compare, counted_of_loop, looping};
use super::figures::{against_media, handed_over, intervals};
use super::flows::{Numbered, TimestampUnit};
use super::stamps::{self, MIN, are_launch_times};
use crate::answer::Answer;
use crate::cases::Cases;
use crate::report::ReportRow;
use crate::statistics::Missed;
use crate::streams::{LabStream, StreamEnds, StreamOutcome};

/// An unavailable mode is an invalid row.
pub(super) fn climb(
    ends: &mut StreamEnds,
    cases: &mut Cases<'_>,
    stream: &LabStream,
    modes: &[PacingMode],
    answer: &Answer,
) {
    cases.row(stamps::error());
    for &mode in modes {
        let mut run = |name: &str, plan: &LabStream| {
            if answer.stop.is_requested() {
                return None;
            }
            answer.notify(&format!("{name}: a stream of {}", stream.settle + stream.duration));
            let arrivals = cases.attempt(name, ends, |ends| ends.run(plan))?;
            Some(arrivals.map_err(|error| ReportRow::invalid(name, error.to_string())))
        };
        let rows = match run(mode.name(), &with_pacing(stream, mode)) {
            Some(Ok(ours)) => {
                with_loop(mode, &ours, |name| run(name, &looping(stream, mode, &ours.sent)))
            }
            Some(Err(invalid)) => vec![invalid],
            None => break,
        };
        rows.into_iter().for_each(|row| cases.row(row));
    }
}

fn with_loop(
    mode: PacingMode,
    ours: &StreamOutcome,
    run: impl FnOnce(&str) -> Option<Result<StreamOutcome, ReportRow>>,
) -> Vec<ReportRow> {
    let mut rows = of_ours(mode, ours);
    if mode == PacingMode::Batch || rows[0].invalid.is_some() {
        return rows;
    }
    let name = format!("{mode}, a bare loop");
    match run(&name) {
        Some(Ok(bare)) => {
            let mut bare = of_loop(&name, mode, &bare);
            compare(mode, &rows, &mut bare);
            rows.extend(bare);
        }
        Some(Err(invalid)) => rows.push(invalid),
        None => {}
    }
    rows
}

fn with_pacing(stream: &LabStream, mode: PacingMode) -> LabStream {
    let mut plan = stream.clone();
    plan.send.extend(["--pacing", mode.name(), "--tx-timestamp-every", "1"].map(str::to_owned));
    plan
}

fn of_ours(mode: PacingMode, outcome: &StreamOutcome) -> Vec<ReportRow> {
    let counted = outcome.counted();
    let timestamps = counted.iter().map(|(_, packet)| packet.timestamp).collect();
    let mut rows = rows(mode.name(), mode, outcome, &timestamps);
    rows[0].missed = outcome.missed(&counted);
    rows
}

fn of_loop(name: &str, mode: PacingMode, outcome: &StreamOutcome) -> Vec<ReportRow> {
    let counted = counted_of_loop(outcome);
    let mut rows = rows(name, mode, outcome, &counted);
    let arrived = arrived(outcome, &counted).len();
    let due = counted.len();
    rows[0].missed = Some(Missed::of(due.saturating_sub(arrived) as u64, due as u64));
    rows
}

fn rows(
    name: &str,
    mode: PacingMode,
    outcome: &StreamOutcome,
    counted: &HashSet<u32>,
) -> Vec<ReportRow> {
    let rate = Rate::new(outcome.shape.rate).unwrap_or(Rate::HZ_48000);
    let unit = TimestampUnit::Frames(rate);
    let packets = arrived(outcome, counted);
    let mut row = intervals(name.to_owned(), &packets, unit);
    let lead = outcome.sent.streams.first().and_then(|one| one.pacing.as_ref()?.lead_ns);
    if let Some(lead) = lead {
        row.add("lead_ns", "launched after it was due", lead);
    }
    if are_launch_times(&launched(outcome, counted)) {
        row.invalid = Some(
            "packets arrived at exactly the intervals of their launch times: the kernel reported \
             launch times as arrivals, as within one network namespace\nhint: use another namespace \
             (--with netns:NAME)"
                .to_owned(),
        );
        return vec![row];
    }
    if packets.len() < 2 {
        row.invalid = Some(
            "fewer than two counted packets arrived\nhint: the receiver must be at the other end of the \
             interface that they leave by (--with PLACE, over Ethernet --avtp HERE,THERE)"
                .to_owned(),
        );
        return vec![row];
    }
    let mut rows = vec![row];
    if mode == PacingMode::Sleep {
        let sent = outcome.departures.iter();
        let late = sent.filter(|packet| counted.contains(&packet.timestamp)).map(|packet| {
            let due = packet.due.saturating_add(lead.unwrap_or(0));
            (LocalTime::from_nanos(due), Span::from_nanos(packet.handed.saturating_sub(due)))
        });
        rows.push(handed_over(format!("{name}, handed over late"), late));
    }
    // Not every driver timestamps departures.
    let left = departed(outcome, counted);
    if left.len() > MIN {
        rows.push(intervals(format!("{name}, as it left"), &left, unit));
    }
    rows.extend(against_media(name, &packets, unit).map(|(row, _)| row));
    rows
}

fn arrivals<'a>(
    outcome: &'a StreamOutcome,
    counted: &'a HashSet<u32>,
) -> impl Iterator<Item = &'a ReceivedPacket> {
    let arrivals = outcome.arrivals.iter().filter(|packet| packet.stream == 0);
    arrivals.filter(|packet| counted.contains(&packet.timestamp))
}

fn arrived(outcome: &StreamOutcome, counted: &HashSet<u32>) -> Vec<Numbered> {
    let arrivals = arrivals(outcome, counted);
    numbered(arrivals.map(|packet| (packet.arrival, packet.timestamp)).collect())
}

fn launched(outcome: &StreamOutcome, counted: &HashSet<u32>) -> Vec<(i64, i64)> {
    let sent = outcome.sent_at(|packet| packet.launched);
    arrivals(outcome, counted)
        .filter_map(|packet| Some((packet.arrival, *sent.get(&packet.timestamp)?)))
        .collect()
}

fn departed(outcome: &StreamOutcome, counted: &HashSet<u32>) -> Vec<Numbered> {
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
        timestamp: Some(counter.extend(timestamp)),
    };
    seen.into_iter().map(numbered).collect()
}
