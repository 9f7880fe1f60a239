//! Converts `taut send` and `taut recv` reports for the experiments' page.

mod packets;
#[cfg(test)]
mod tests;

use tautline_proto::time::{Frames, Span};
use tautline_proto::units::Rate;
use tautline_report::{Report, StreamReport, WorstPacket};

use crate::report::{Events, HostDescription, LabReport, ReportRow, Worst};
use crate::statistics::Missed;

pub use packets::RunPackets;

/// Name of the xruns of the reporter's own device.
const XRUNS: (&str, &str) = ("xruns", "xruns");
const UNTIMED_XRUNS: &str = "xrun times are relative to the start of the run";
const UNTIMED: &str = "times of the worst packets are relative to the first of them; with \
                       --packet-log they are relative to the start, and every packet is shown";

const CLOSEST: &str = "the worst packets are the packets closest to their deadline";

pub fn of_run(report: &Report, ledger: Option<&RunPackets>) -> LabReport {
    let (role, question) = match &*report.role {
        "send" => ("send", "did every packet leave when it was due?"),
        _ => ("recv", "did every packet sound when it was due?"),
    };
    let mut out = LabReport::of(role, question);
    out.duration_ns = report.duration_ns;
    let stalls = Some(report.host.stalls);
    let kernel = report.host.kernel.clone();
    out.hosts = vec![HostDescription { kernel, stalls, ..HostDescription::here("here") }];
    let rows = report.streams.iter().enumerate();
    let first = |index| ledger.and_then(|ledger| ledger.first_timestamp(index));
    out.rows = rows.map(|(index, stream)| row(stream, role, first(index))).collect();
    out.notes.push(format!("the device's thread ran as {}", report.host.scheduler));
    out.notes.extend(report.notes.iter().cloned());
    let rows = out.rows.iter_mut().zip(&report.streams).enumerate();
    for (index, (row, stream)) in rows.filter(|(_, (row, _))| row.invalid.is_none()) {
        // One program has one clock.
        let begin = ledger.and_then(|ledger| ledger.begin(index)).unwrap_or(report.started_ns);
        let reported = stream.xruns.iter().map(|xrun| (xrun.at_ns, xrun.count));
        row.events.extend(Events::since(begin, XRUNS, reported, stream.counters.xruns));
        out.notes.extend(ledger.and_then(|ledger| ledger.add_to(row, index)));
    }
    if out.rows.iter().any(|row| !row.worst.is_empty()) {
        out.notes.push(CLOSEST.to_owned());
    }
    if ledger.is_none() {
        let reported = [
            (UNTIMED, out.rows.iter().any(|row| !row.worst.is_empty())),
            (UNTIMED_XRUNS, out.rows.iter().any(|row| !row.events.is_empty())),
        ];
        out.notes
            .extend(reported.into_iter().filter(|(_, is)| *is).map(|(note, _)| note.to_owned()));
    }
    out
}

fn row(stream: &StreamReport, role: &str, first: Option<u32>) -> ReportRow {
    let name = match &stream.sender {
        Some(sender) => format!("{} from {}", stream.address, sender.from),
        None => stream.address.clone(),
    };
    if let Some(refused) = &stream.refused {
        return ReportRow::invalid(name, refused.as_str());
    }
    let mut row = ReportRow::named(name);
    row.configured = stream.latency.configured_ns.map(Span::from_nanos);
    let measured = stream.latency.measured;
    row.measured = (measured.count > 0).then_some(measured);
    row.uncertainty = stream.latency.uncertainty_ns.map(Span::from_nanos);
    if role != "send" {
        let due = stream.needed();
        row.missed = (due > 0).then(|| Missed::of(stream.missed(), due));
    }
    row.stages.clone_from(&stream.stages);
    row.worst = worst(stream, first);
    figures(&mut row, stream);
    row
}

fn figures(row: &mut ReportRow, stream: &StreamReport) {
    if let Some(by) = &stream.latency.method {
        row.add("measured_by", "measured by", &**by);
    }
    if let Some(advised) = stream.latency.recommended_ns {
        row.add(
            "recommended_ns",
            "minimum latency that would have sufficed, including hosts and network",
            advised,
        );
    }
    for counted in stream.counters.each().filter(|counted| counted.count > 0) {
        let words = match counted.name {
            "packets_sent" => "packets sent",
            "packets_received" => "packets received",
            name => counted.words.map_or(name, |(several, _)| several),
        };
        row.add(counted.name, words, counted.count);
    }
    if let Some(known) = stream.clock.as_ref().and_then(|clock| clock.uncertainty_ns) {
        row.add("clock_uncertainty_ns", "sender's clock known to ±", known);
    }
    if let Some(drift) = stream.drift_ppm {
        row.add("drift_ppm", "card relative to the sender's, ppm", drift);
    }
    for (key, words, summary) in [
        ("lateness_p99_ns", "departures behind schedule, p99", stream.lateness),
        ("transmit_p99_ns", "to the driver, p99", stream.transmit),
    ] {
        if let Some(p99) = summary.and_then(|summary| summary.p99_ns) {
            row.add(key, words, p99);
        }
    }
}

/// The packets of the text report. Times count from `first`, the timestamp of the run's first
/// packet, else from the first of these, as the report lacks it.
fn worst(stream: &StreamReport, first: Option<u32>) -> Vec<Worst> {
    let Ok(rate) = Rate::new(stream.rate) else { return Vec::new() };
    let Some(any) = first.or(stream.worst.first().map(|packet| packet.rtp_timestamp)) else {
        return Vec::new();
    };
    let after = |packet: &WorstPacket| packet.rtp_timestamp.wrapping_sub(any) as i32;
    let first = match first {
        Some(_) => 0,
        None => stream.worst.iter().map(after).min().unwrap_or(0),
    };
    let reported = |packet: &WorstPacket| {
        let frames = Frames::new(i64::from(after(packet)) - i64::from(first));
        let at_ns = rate.span_of(frames).as_nanos();
        // Without a capture time, of the stages here.
        let sum = || packet.stages.iter().map(|(_, length)| length).sum();
        let value_ns = packet.total_ns.unwrap_or_else(sum);
        let mut worst = Worst { at_ns, value_ns, ..Worst::default() };
        worst.made_of(packet.stages.iter().cloned());
        worst
    };
    stream.worst.iter().map(reported).collect()
}
