//! One-screen text report with the widest stage marked.

mod arrivals;
mod call;
mod clocks;
mod known;
mod latency;
mod redundancy;

use core::fmt::{self, Write};

use tautline_proto::counters::Counted;

use crate::digits;
use crate::distribution::Summary;
use crate::snapshot::{SENDER_XRUNS, StreamSnapshot};
use crate::{RemoteReceiver, Report, StreamReport};
pub use arrivals::causes;
use arrivals::{GapHints, INTERRUPTED};
use known::Known;
use redundancy::Call;

/// Report length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Per stream: format, missed packets with cause, latency, one recommendation.
    Summary,
    /// Adds stages, counters, receivers and host.
    Full,
}

/// Renders a stream's report.
pub fn render(report: &Report, detail: Detail) -> String {
    let mut out = String::new();
    let _ = write_report(&mut out, report, None, detail);
    out
}

/// Renders both directions of each call: two lines, xruns and one fix, or everything with `Detail::Full`.
pub fn render_calls(reports: &[Report], detail: Detail) -> String {
    let mut out = String::new();
    let call = Call::of(reports);
    let _ = match detail {
        Detail::Full => {
            let mut write = |report| write_report(&mut out, report, Some(call), detail);
            reports.iter().try_for_each(&mut write)
        }
        Detail::Summary => write_calls(&mut out, reports, call),
    };
    out
}

/// Renders a server's calls: two lines each, and one for xruns.
pub fn render_served(reports: &[Report]) -> String {
    let mut out = String::new();
    let _ = call::directions(&mut out, reports);
    out
}

/// Names the faults of missed packets ([`crate::GapReport::faults`]), the most frequent first:
/// `5 here, 3 network`.
pub fn faults(faults: [u64; 5]) -> String {
    let names = ["latency", "here", "sender", "network", "sender or network"];
    let named = faults.into_iter().zip(names);
    let mut named: Vec<_> = named.filter(|(count, _)| *count > 0).collect();
    named.sort_by_key(|(count, _)| core::cmp::Reverse(*count));
    let named = named.iter().map(|(count, fault)| format!("{count} {fault}"));
    named.collect::<Vec<_>>().join(", ")
}

/// Packets of a running call that were not played, by fault, and faults of the devices. A JACK
/// server has the same xruns in both directions.
pub fn missed(received: &StreamSnapshot, sent: Option<&StreamSnapshot>) -> String {
    let faults = received.gaps.unwrap_or_default().faults();
    let mut line = format!("missed {}", faults.iter().sum::<u64>());
    if faults != [0; 5] {
        line += &format!(": {}", self::faults(faults));
    }
    let xruns = received.count("xruns").max(sent.map_or(0, |sent| sent.count("xruns")));
    let there = (received.count(SENDER_XRUNS), "xruns there");
    for (count, name) in [(received.count("repaired"), "repaired"), (xruns, "xruns here"), there] {
        if count > 0 {
            line += &format!("; {count} {name}");
        }
    }
    line
}

fn write_calls(out: &mut String, reports: &[Report], call: Call) -> fmt::Result {
    let mut fixes: Vec<String> = Vec::new();
    call::directions(out, reports)?;
    for report in reports {
        for stream in &report.streams {
            let repairs = redundancy::Repairs::of(stream, Some(call));
            let hints = GapHints::of(stream, &repairs);
            let gaps = stream.gaps.as_ref();
            let mut fix = String::new();
            arrivals::recommendation(&mut fix, gaps, &hints, &report.host.scheduler)?;
            // The margin of an adaptive latency needs no action.
            let is_useful = stream.latency.auto.is_none() || fix.starts_with("fix");
            if is_useful && !fixes.contains(&fix) {
                fixes.push(fix);
            }
            let sent = (report.role == "send").then(|| call::fix_of_sent(stream)).flatten();
            // One recommendation at a time.
            fixes.extend(sent.filter(|_| !fixes.iter().any(|fix| fix.starts_with("fix"))));
        }
    }
    if reports.iter().flat_map(|report| &report.streams).any(call::is_interrupted) {
        fixes = vec![format!("fix: {INTERRUPTED}\n")];
    }
    out.extend(fixes);
    let incomplete = reports.iter().flat_map(|report| &report.incomplete_files);
    incomplete.into_iter().try_for_each(|note| writeln!(out, "note: {note}"))?;
    writeln!(out, "{DETAILS}")
}

const DETAILS: &str = "details: --verbose, or --report-file FILE";

fn write_report(
    out: &mut String,
    report: &Report,
    call: Option<Call>,
    detail: Detail,
) -> fmt::Result {
    for stream in &report.streams {
        let same = report.streams.iter().filter(|other| other.address == stream.address);
        if call.is_some() {
            write!(out, "{}", if report.role == "send" { "sent to " } else { "received from " })?;
        }
        head(out, stream, same.count() > 1)?;
        outcome(out, stream, &report.role)?;
        writeln!(out)?;
        latency::latency(out, stream, &report.role)?;
        let repairs = redundancy::Repairs::of(stream, call);
        let hints = GapHints::of(stream, &repairs);
        let mut fix = String::new();
        arrivals::recommendation(&mut fix, stream.gaps.as_ref(), &hints, &report.host.scheduler)?;
        arrivals::needed(&mut fix, &hints)?;
        out.push_str(&fix);
        if detail == Detail::Full {
            details(out, stream, report, &hints)?;
        }
    }
    match detail {
        Detail::Full => machine(out, report)?,
        Detail::Summary => writeln!(out, "{DETAILS}")?,
    }
    report.notes.iter().try_for_each(|note| writeln!(out, "note: {note}"))
}

fn outcome(out: &mut String, stream: &StreamReport, role: &str) -> fmt::Result {
    let c = &stream.counters;
    let (missed, due) = (stream.missed(), stream.arrived());
    if role == "send" {
        write!(out, "sent: {} packets", c.sent)?;
        let connected = stream.receivers.iter().filter(|receiver| receiver.trusted);
        if connected.clone().next().is_some() {
            let lost = |receiver: &RemoteReceiver| {
                let lost = u64::try_from(receiver.lost).unwrap_or(0);
                receiver.unrepaired.unwrap_or(lost)
            };
            // Receivers count on after their last report.
            let lost = connected.map(lost).sum::<u64>();
            let at_least = if lost > 0 { "at least " } else { "" };
            write!(out, ", {at_least}{lost} lost on the way (last report)")?;
        }
    } else if stream.refused.is_some() && !stream.played {
        write!(out, "played: nothing; {} packets received", c.received)?;
    } else if c.received == 0 {
        write!(out, "played: nothing; no packet received")?;
    } else if missed == 0 {
        write!(out, "played: all {due} packets")?;
        let rebuilt = stream.rebuilt();
        if rebuilt > 0 {
            write!(out, ", {rebuilt} of them rebuilt")?;
        }
    } else {
        let causes = stream.gaps.as_ref().map(|gaps| arrivals::causes(gaps, call::is_tcp(stream)));
        let causes = causes.filter(|causes| !causes.is_empty());
        let causes = causes.unwrap_or_else(|| format!("lost {}, late {}", c.lost, c.late));
        write!(out, "missed: {missed} of {} packets: {causes}", stream.needed())?;
        for (count, name) in [(c.undecodable, "undecodable"), (c.too_early, "too early")] {
            if count > 0 {
                write!(out, ", {name} {count}")?;
            }
        }
    }
    match c.xruns {
        0 => Ok(()),
        1 => write!(out, "; 1 xrun here"),
        xruns => write!(out, "; {xruns} xruns here"),
    }
}

fn details(
    out: &mut String,
    stream: &StreamReport,
    report: &Report,
    hints: &GapHints<'_>,
) -> fmt::Result {
    latency::unmeasured(out, &stream.latency)?;
    clocks::of_sender(out, stream)?;
    waterfall(out, stream)?;
    counters(out, stream, report)?;
    if let Some(carried) = &stream.redundancy {
        redundancy::redundancy(out, carried, stream.ptime_ns)?;
    }
    hints.repairs.notify(out)?;
    if hints.advice.is_some() {
        arrivals::curve(out, &stream.latency)?;
    }
    receivers(out, &stream.receivers)?;
    worst(out, stream)
}

fn machine(out: &mut String, report: &Report) -> fmt::Result {
    clocks::followed(out, report)?;
    clocks::tai(out, report)?;
    let host = &report.host;
    let seconds = report.duration_ns as f64 / 1e9;
    writeln!(
        out,
        "host: Linux {}, {} cpus, {}; {:.1} s, cpu {}, memory {:.1} MB; stalls: {}",
        host.kernel,
        host.cpus,
        host.scheduler,
        seconds,
        processor(host.cpu_ns as f64 / 1e9, seconds),
        host.peak_bytes as f64 / 1e6,
        host.stalls
    )
}

fn processor(busy: f64, seconds: f64) -> String {
    match seconds >= 1.0 {
        true => format!("{:.1} % of a core", busy / seconds * 100.0),
        false => format!("{busy:.2} s"),
    }
}

fn head(out: &mut String, stream: &StreamReport, several: bool) -> fmt::Result {
    write!(out, "{}", stream.address)?;
    if let Some(sender) = stream.sender.as_ref().filter(|_| several) {
        write!(out, " from {}", sender.from)?;
    }
    write!(
        out,
        ": {} {} Hz, {} channel{}, {} per packet",
        stream.format,
        stream.rate,
        stream.channels,
        if stream.channels == 1 { "" } else { "s" },
        Nanos(stream.ptime_ns)
    )?;
    if let Some(profile) = &stream.encryption {
        write!(out, ", encrypted with SRTP ({profile})")?;
    }
    if let Some(id) = &stream.stream_id {
        write!(out, ", stream id {id}")?;
    }
    writeln!(out)
}

const BAR: i64 = 40;

fn waterfall(out: &mut String, stream: &StreamReport) -> fmt::Result {
    let median = |summary: &Summary| summary.p50_ns.unwrap_or(0);
    let total: i64 = stream.stages.iter().map(|stage| median(&stage.summary).max(0)).sum();
    let widest = stream.stages.iter().map(|stage| median(&stage.summary)).max();
    if !stream.stages.is_empty() {
        writeln!(out, "  {:<8} {:>9} {:>9} {:>9}", "stage", "p50", "p99", "max")?;
    }
    let (mut before, mut limits) = (0, false);
    for stage in &stream.stages {
        let length = median(&stage.summary);
        let columns = |nanos: i64| (nanos.max(0) * BAR + total / 2) / total.max(1);
        let from = columns(before);
        before += length.max(0);
        let to = columns(before);
        let bar = if to > from { "█".repeat((to - from) as usize) } else { "▏".to_owned() };
        let mark = if Some(length) == widest { " ← widest" } else { "" };
        let indent = " ".repeat(from as usize);
        let Summary { p50_ns, p99_ns, max_ns, .. } = stage.summary;
        let known = Known::row([p50_ns, p99_ns, max_ns], stage.uncertainty_ns);
        limits |= known.iter().any(|known| matches!(known, Some(Known::Limit(_))));
        let [p50, p99, max] =
            known.map(|known| known.map_or("–".to_owned(), |known| known.to_string()));
        let error = stage.uncertainty_ns.filter(|error| *error > 0);
        let error = error.map_or(String::new(), |error| format!("  ± {}", digits::bound(error)));
        writeln!(
            out,
            "  {:<8} {p50:>9} {p99:>9} {max:>9}  {indent}{bar}{mark}{error}",
            stage.name
        )?;
    }
    match limits {
        true => writeln!(out, "  ≤: upper limit, the value plus its uncertainty"),
        false => Ok(()),
    }
}

fn counters(out: &mut String, stream: &StreamReport, report: &Report) -> fmt::Result {
    let c = &stream.counters;
    if report.role == "send" {
        write!(out, "packets: {} sent", c.sent)?;
    } else if stream.refused.is_some() && !stream.played {
        write!(out, "packets: {} received, {} lost, none played", c.received, c.lost)?;
    } else {
        write!(out, "packets: {} received, {} lost, {} late", c.received, c.lost, c.late)?;
    }
    others(out, c.each())?;
    writeln!(out)?;
    if let Some(drift) = stream.drift_ppm {
        let unsure = stream.clock.as_ref().and_then(|clock| clock.card_uncertainty_ppm);
        let drift = digits::ppm_with_error(drift, unsure);
        writeln!(out, "card against the sender's: {drift}; corrected by resampling")?;
    }
    for path in &stream.paths {
        writeln!(
            out,
            "  via {}: {} received, {} of them first, {} lost",
            path.interface, path.received, path.first, path.lost
        )?;
    }
    for invalid in &stream.invalid {
        writeln!(out, "  invalid: {} × {}", invalid.count, invalid.reason)?;
    }
    let spans = [
        ("departures: behind schedule", stream.lateness),
        ("driver: after the hand-over, sampled", stream.transmit),
    ];
    spans.into_iter().try_for_each(|(name, summary)| spread(out, name, summary))
}

fn others(out: &mut String, counters: impl Iterator<Item = Counted>) -> fmt::Result {
    for Counted { words, count, .. } in counters {
        let Some((several, one)) = words.filter(|_| count > 0) else { continue };
        write!(out, ", {count} {}", if count == 1 { one } else { several })?;
    }
    Ok(())
}

fn spread(out: &mut String, name: &str, summary: Option<Summary>) -> fmt::Result {
    let Some(Summary { p50_ns: Some(p50), p99_ns, max_ns, .. }) = summary else { return Ok(()) };
    write!(out, "{name} p50 {}", Nanos(p50))?;
    for (name, value) in [("p99", p99_ns), ("max", max_ns)] {
        if let Some(value) = value {
            write!(out, ", {name} {}", Nanos(value))?;
        }
    }
    writeln!(out)
}

/// A duration with its uncertainty, if known.
fn known(nanos: i64, uncertainty: Option<i64>) -> String {
    match uncertainty.filter(|uncertainty| *uncertainty > 0) {
        Some(uncertainty) => digits::with_error(nanos, uncertainty),
        None => Nanos(nanos).to_string(),
    }
}

/// A duration to the last digit that its uncertainty leaves.
fn rounded(nanos: i64, uncertainty: Option<i64>) -> String {
    match uncertainty.filter(|uncertainty| *uncertainty > 0) {
        Some(uncertainty) => digits::by_error(nanos, uncertainty),
        None => Nanos(nanos).to_string(),
    }
}

fn receivers(out: &mut String, receivers: &[RemoteReceiver]) -> fmt::Result {
    for receiver in receivers {
        let (ssrc, address, lost) = (receiver.ssrc, &receiver.address, receiver.lost);
        let stranger = if receiver.trusted { "" } else { " (ignored: not a destination)" };
        write!(out, "receiver {ssrc:08x} at {address}{stranger}: ")?;
        let is_lost = receiver.state == "lost";
        if is_lost {
            write!(out, "no report for the last {}; until then ", Nanos(receiver.silent_ns))?;
        } else {
            write!(out, "last report: ")?;
        }
        write!(out, "{lost} lost")?;
        if let Some(late) = receiver.late.filter(|late| *late > 0) {
            write!(out, ", {late} too late")?;
        }
        if let Some(requested) = receiver.requested_ns {
            write!(out, ", requested {}", Nanos(requested))?;
        }
        if let Some(repaired) = receiver.repaired.filter(|repaired| *repaired > 0) {
            let rest = receiver.unrepaired.unwrap_or(0);
            write!(out, ", {repaired} repaired and {rest} not")?;
        }
        if let Some(effective) = receiver.effective_ns {
            let plays = if is_lost { "played" } else { "plays" };
            write!(out, ", {plays} after {}", known(effective, receiver.uncertainty_ns))?;
        }
        if let Some(round_trip) = receiver.round_trip_ns {
            write!(out, ", round trip {}", Nanos(round_trip))?;
        }
        let back = receiver.times_lost.saturating_sub(u32::from(is_lost));
        match back {
            0 => {}
            1 => write!(out, "; stopped reporting once and returned")?,
            times => write!(out, "; stopped reporting {times} times and returned")?,
        }
        writeln!(out)?;
    }
    Ok(())
}

fn worst(out: &mut String, stream: &StreamReport) -> fmt::Result {
    if stream.worst.is_empty() {
        return Ok(());
    }
    writeln!(out, "packets closest to their deadline:")?;
    for packet in &stream.worst {
        write!(out, "  {:>10}", packet.rtp_timestamp)?;
        for (name, nanos) in &packet.stages {
            let stage = stream.stages.iter().find(|stage| stage.name == *name);
            let unsure = stage.and_then(|stage| stage.uncertainty_ns);
            write!(out, "  {name} {}", Known::of(*nanos, unsure))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Duration with three digits: `5.00ms`, `20.8us`.
pub struct Nanos(pub i64);

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = match self.0.unsigned_abs() {
            0..1_000 => return f.pad(&format!("{}ns", self.0)),
            1_000..1_000_000 => (self.0 as f64 / 1e3, "us"),
            1_000_000..1_000_000_000 => (self.0 as f64 / 1e6, "ms"),
            _ => (self.0 as f64 / 1e9, "s"),
        };
        let digits = match value.abs() {
            v if v < 10.0 => 3,
            v if v < 100.0 => 2,
            _ => 1,
        };
        f.pad(&format!("{value:.digits$}{unit}"))
    }
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use super::*;
    use crate::Counters;
    use crate::StageSummary;

    #[test]
    fn lost_receiver_is_reported_with_its_silence() {
        let reported = |state: &'static str, times_lost| {
            let mut out = String::new();
            let receiver = RemoteReceiver {
                ssrc: 0x1a2b,
                address: "10.0.0.2".to_owned(),
                trusted: true,
                state: state.into(),
                silent_ns: 12_300_000_000,
                times_lost,
                effective_ns: Some(100_000_000),
                ..RemoteReceiver::default()
            };
            receivers(&mut out, &[receiver]).unwrap();
            out
        };
        snapshot!(reported("lost", 2));
        assert!(!reported("connected", 0).contains("no report"));
        assert!(reported("left", 1).ends_with("stopped reporting once and returned\n"));
    }

    #[test]
    fn sender_counts_losses_until_the_last_report() {
        let reported = |lost| {
            let receiver = RemoteReceiver { trusted: true, lost, ..RemoteReceiver::default() };
            let counters = Counters { sent: 20_000, ..Counters::default() };
            let receivers = vec![receiver];
            let stream = StreamReport { counters, receivers, ..StreamReport::default() };
            let mut out = String::new();
            outcome(&mut out, &stream, "send").unwrap();
            out
        };
        let some = "sent: 20000 packets, at least 375 lost on the way (last report)";
        assert_eq!(reported(375), some);
        assert_eq!(reported(0), "sent: 20000 packets, 0 lost on the way (last report)");
    }

    fn reported(counted: &Counters) -> String {
        let mut out = String::new();
        others(&mut out, counted.each()).unwrap();
        out
    }

    #[test]
    fn wrong_clock_claims_of_a_sender_are_noted() {
        let counted = Counters {
            reports_on_probation: 1,
            rejected_exchanges: 11,
            clock_steps: 1,
            ..Counters::default()
        };
        snapshot!(reported(&counted));
    }

    #[test]
    fn media_clock_restart_is_not_reported_as_talker_restart() {
        let counted = |media_clock_restarts| {
            reported(&Counters { media_clock_restarts, ..Counters::default() })
        };
        snapshot!(counted(1));
        snapshot!(counted(2));
    }

    #[test]
    fn exact_values_show_no_uncertainty() {
        let reported = [None, Some(0), Some(12_000)].map(|error| known(5_000_000, error));
        assert_eq!(reported, ["5.000ms", "5.000ms", "5.000ms ± 12us"]);
    }

    #[test]
    fn only_stages_between_two_clocks_have_an_uncertainty() {
        let stage = |name: &'static str, uncertainty_ns| StageSummary {
            name: name.into(),
            uncertainty_ns,
            summary: Summary { p50_ns: Some(80_000), ..Summary::default() },
        };
        let stages = vec![stage("capture", None), stage("wire", Some(12_000))];
        let mut out = String::new();
        waterfall(&mut out, &StreamReport { stages, ..StreamReport::default() }).unwrap();
        let has_error: Vec<_> = out.lines().skip(1).map(|line| line.contains("± 12us")).collect();
        assert_eq!(has_error, [false, true], "{out}");
    }

    #[test]
    fn frames_skipped_by_the_sending_card_show_their_cause() {
        let counted = Counters {
            missing_frames: 432,
            concealed_frames: 430,
            skipped_frames: 432,
            ..Counters::default()
        };
        snapshot!(reported(&counted));
    }
}
