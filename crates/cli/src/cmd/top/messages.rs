//! Text about a stream: table row and details.

use tautline_api::v1::MAX_TEXT;
use tautline_proto::text::printable;
use tautline_report::digits::ppm_with_error;
use tautline_report::snapshot::{
    ClockSnapshot, FollowedClockSnapshot, FollowedClockState, Meter, Snapshot, StageLength,
    StreamSnapshot, StreamState, WorstStages, ZoneSnapshot,
};
use tautline_report::text::Nanos;

pub(super) const HEAD: [&str; 9] =
    ["PROGRAM", "ADDRESS", "LATENCY", "P99", "HEADROOM", "LOSS", "LATE", "XRUNS", "METERS"];
/// Columns that narrow terminals omit, in this order.
pub(super) const SPARED: [usize; 5] = [3, 8, 4, 7, 6];

const UNKNOWN: &str = "–";

pub(super) fn row(run: &Snapshot, stream: &StreamSnapshot) -> [String; HEAD.len()] {
    let count = |name: &str| count(stream, name);
    let loss = loss(stream);
    let late = if is_sent(run, stream) { UNKNOWN.to_owned() } else { count("late") };
    [
        clean(&program(run, stream)),
        clean(&stream.address),
        state(stream.state).map_or_else(|| latency(stream), str::to_owned),
        nanos(stream.latency.p99_ns),
        nanos(stream.headroom_ns),
        loss,
        late,
        count("xruns"),
        stream.meters.as_deref().map_or_else(|| UNKNOWN.to_owned(), meters),
    ]
}

/// A call has a stream per direction.
fn program(run: &Snapshot, stream: &StreamSnapshot) -> String {
    let direction = match (is_call(run), is_sent(run, stream)) {
        (false, _) => "",
        (true, false) => " in",
        (true, true) => " out",
    };
    format!("{} {}{direction}", run.role, run.pid)
}

fn is_call(run: &Snapshot) -> bool {
    matches!(&*run.role, "call" | "serve")
}

/// Only received streams of a call have causes of missing packets.
fn is_sent(run: &Snapshot, stream: &StreamSnapshot) -> bool {
    run.role == "send" || is_call(run) && stream.gaps.is_none()
}

fn count(stream: &StreamSnapshot, name: &str) -> String {
    stream.counters.get(name).map_or_else(|| UNKNOWN.to_owned(), ToString::to_string)
}

pub(in crate::cmd) fn coding(stream: &StreamSnapshot) -> String {
    let bits = stream
        .bitrate
        .map_or(String::new(), |bits| format!(" at {:.0} kbit/s", f64::from(bits) / 1e3));
    format!("{}{bits}", stream.format)
}

pub(in crate::cmd) fn loss(stream: &StreamSnapshot) -> String {
    let reported = stream.counters.contains_key("receiver_lost");
    let lost = if reported { "receiver_lost" } else { "lost" };
    match stream.second.loss_share {
        Some(share) => format!("{:.2} % {}", share * 100.0, count(stream, lost)),
        None => UNKNOWN.to_owned(),
    }
}

/// Whether to highlight the stream: faults in the last second, a silent, refused or lost peer, or a
/// followed clock in holdover.
pub(super) fn is_troubled(run: &Snapshot, stream: &StreamSnapshot) -> bool {
    let second = &stream.second;
    second.lost + second.late + second.xruns > 0
        || matches!(stream.state, StreamState::Silent | StreamState::Refused | StreamState::Lost)
        || run.clock.as_ref().is_some_and(|clock| clock.state == FollowedClockState::Holdover)
}

/// Shown instead of the latency.
const fn state(state: StreamState) -> Option<&'static str> {
    match state {
        StreamState::Connected | StreamState::Unknown => None,
        StreamState::Waiting => Some("waiting"),
        StreamState::Silent => Some("silent"),
        StreamState::Refused => Some("refused"),
        StreamState::NoReceiver => Some("no receiver"),
        StreamState::Lost => Some("receiver lost"),
    }
}

fn latency(stream: &StreamSnapshot) -> String {
    let millis = |ns: i64| ns as f64 / 1e6;
    match (stream.latency.measured_ns, stream.latency.uncertainty_ns) {
        (Some(latency), Some(unsure)) if unsure > 0 => {
            format!("{:.3} ± {:.3} ms", millis(latency), millis(unsure))
        }
        (Some(latency), _) => format!("{:.3} ms", millis(latency)),
        (None, _) => UNKNOWN.to_owned(),
    }
}

pub(in crate::cmd) fn nanos(known: Option<i64>) -> String {
    known.map_or_else(|| UNKNOWN.to_owned(), |ns| Nanos(ns).to_string())
}

const SOFTEST_DB: f64 = -60.0;
const CELLS: usize = 8;
/// Maximum channels with bars. More channels get one cell each, up to `MAX`.
const BARS: usize = 2;
const MAX: usize = 16;
const EIGHTHS: [&str; 9] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"];
const HEIGHTS: [&str; 9] = ["·", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

pub(in crate::cmd) fn meters(meters: &[Meter]) -> String {
    let full = |meter: &Meter, steps: usize| {
        let db = meter.peak_db.unwrap_or(f64::NEG_INFINITY);
        (((db / SOFTEST_DB).clamp(0.0, 1.0) - 1.0).abs() * steps as f64).round() as usize
    };
    if meters.len() > BARS {
        let more = if meters.len() > MAX { "…" } else { "" };
        let bars = meters.iter().take(MAX).map(|meter| HEIGHTS[full(meter, HEIGHTS.len() - 1)]);
        return bars.chain([more]).collect();
    }
    let bar = |meter: &Meter| {
        let eighths = full(meter, CELLS * 8);
        let bar = "█".repeat(eighths / 8) + EIGHTHS[eighths % 8];
        let peak = meter.peak_db.map_or_else(|| "-inf".to_owned(), |db| format!("{db:.1}"));
        format!("{bar:<CELLS$} {peak:>5}")
    };
    meters.iter().map(bar).collect::<Vec<_>>().join(" ")
}

pub(super) fn details(run: &Snapshot, stream: &StreamSnapshot) -> Vec<String> {
    let mut lines = vec![format!("{}: {}", program(run, stream), run.command)];
    lines.push(head(run, stream));
    if run.elapsed_ns > 0 {
        lines.push(latencies(stream));
        waterfall(&stream.stages, &mut lines);
        lines.extend(stream.worst.as_ref().map(worst));
        lines.extend(counted(stream));
        lines.extend(stream.meters.as_deref().map(levels));
        let whose = if is_sent(run, stream) { "receiver's" } else { "sender's" };
        lines.extend(stream.clock.as_ref().map(|known| clock(whose, known)));
        lines.extend(run.clock.as_ref().map(followed));
        lines.extend(run.zone.as_ref().map(zone));
    }
    lines.iter().map(|line| clean(line)).collect()
}

fn head(run: &Snapshot, stream: &StreamSnapshot) -> String {
    let mut head = stream.address.clone();
    if let Some(sender) = &stream.sender {
        head += &format!(" from {sender}");
    }
    if run.elapsed_ns == 0 {
        return head + ": waiting for its sender";
    }
    let StreamSnapshot { rate, channels, .. } = stream;
    let format = coding(stream);
    let by = stream.transport.as_ref();
    let by = by.map_or(String::new(), |by| format!(" via {}", by.to_uppercase()));
    let plural = if *channels == 1 { "" } else { "s" };
    let muted = if stream.muted { "; muted" } else { "" };
    let state = state(stream.state).map_or(String::new(), |state| format!("; {state}"));
    head + &format!(
        ": {format} {rate} Hz, {channels} channel{plural}, {} per packet{by}, for {:.0} s{muted}{state}",
        Nanos(stream.ptime_ns),
        run.elapsed_ns as f64 / 1e9
    )
}

pub(in crate::cmd) fn latencies(stream: &StreamSnapshot) -> String {
    let known = &stream.latency;
    let mut line = match known.configured_ns {
        Some(configured) => format!("latency: {} configured", Nanos(configured)),
        None => "latency: unknown".to_owned(),
    };
    // Measurements before an outage say nothing about the present.
    match stream.state {
        StreamState::Silent => return line + "; not measured, as no packets arrive",
        StreamState::Lost => return line + "; not measured, as no reports arrive",
        _ => {}
    }
    if let Some(depth) = stream.target_delay_ns {
        // The headroom is that of packets that arrived, without repairs.
        let repairs = if stream.target_delay_has_repair { " with repairs" } else { "" };
        line += &format!(", arrivals need {}{repairs}", Nanos(depth));
    }
    if known.measured_ns.is_some() {
        let source = match &*known.method {
            "sound" => "measured from the sound",
            "device" => "reported by the device",
            "due" => "scheduled",
            "receivers" => "reported by a receiver",
            other => other,
        };
        line += &format!("; {source} {}", latency(stream));
    }
    line
}

const BAR: i64 = 40;

fn waterfall(stages: &[StageLength], lines: &mut Vec<String>) {
    let total: i64 = stages.iter().map(|stage| stage.ns.max(0)).fold(0, i64::saturating_add);
    let columns = |ns: i64| (i128::from(ns) * i128::from(BAR) / i128::from(total.max(1))) as usize;
    let mut before: i64 = 0;
    for StageLength { name, ns } in stages {
        let from = columns(before);
        before = before.saturating_add((*ns).max(0));
        let to = columns(before);
        let bar = if to > from { "█".repeat(to - from) } else { "▏".to_owned() };
        let length = Nanos(*ns).to_string();
        lines.push(format!("  {name:<8} {length:>8}  {}{bar}", " ".repeat(from)));
    }
}

fn worst(worst: &WorstStages) -> String {
    let stages = worst.stages.iter().map(|stage| format!("{} {}", stage.name, Nanos(stage.ns)));
    let total = worst.total_ns.map(|ns| format!("total {}", Nanos(ns)));
    let packet =
        format!("worst of the last minute: the packet of RTP timestamp {}", worst.rtp_timestamp);
    [packet].into_iter().chain(stages).chain(total).collect::<Vec<_>>().join(", ")
}

fn counted(stream: &StreamSnapshot) -> Option<String> {
    let reported = |name: &str, count: u64| count > 0 && name != "receiver_expected";
    let counted = stream.counters.iter().filter(|(name, count)| reported(name, **count));
    let counted = counted.map(|(name, count)| format!("{count} {}", name.replace('_', " ")));
    let counted = counted.collect::<Vec<_>>().join(", ");
    (!counted.is_empty()).then(|| format!("counters: {counted}"))
}

fn levels(meters: &[Meter]) -> String {
    let db = |db: Option<f64>| db.map_or_else(|| "-inf".to_owned(), |db| format!("{db:.1}"));
    let level = |meter: &Meter| format!("{} / {}", db(meter.peak_db), db(meter.rms_db));
    let levels = meters.iter().take(MAX).map(level).collect::<Vec<_>>().join(", ");
    format!("peak / RMS in dBFS: {levels}")
}

fn clock(whose: &str, clock: &ClockSnapshot) -> String {
    if clock.source == "host" {
        return format!("{whose} clock: this machine's");
    }
    let mut line = format!("{whose} clock: via {}", clock.source);
    line += &clock
        .uncertainty_ns
        .map_or(", uncertainty unknown".to_owned(), |known| format!(", ± {}", Nanos(known)));
    if let Some(trip) = clock.round_trip_ns {
        line += &format!(", round trip {}", Nanos(trip));
    }
    if let Some(rate) = clock.rate_ppm {
        line += &format!(", runs {}", ppm_with_error(rate, clock.rate_uncertainty_ppm));
    }
    line
}

fn followed(clock: &FollowedClockSnapshot) -> String {
    let stream = clock.stream.as_ref().map(|stream| format!(" of {stream}")).unwrap_or_default();
    let mut line = format!("clock followed: CRF{stream} at {}", clock.address);
    line += &match (clock.rate_ppm, clock.uncertainty_ppm, clock.state) {
        (Some(rate), Some(unsure), _) => format!(", {rate:+.2} ± {unsure:.2} ppm against TAI"),
        (.., FollowedClockState::Waiting) => ", no packet yet".to_owned(),
        _ => ", not received for long enough".to_owned(),
    };
    if let Some(held) = clock.holdover_ns {
        line += &format!("; in holdover for {:.0} s, without packets", held as f64 / 1e9);
    }
    line
}

fn zone(zone: &ZoneSnapshot) -> String {
    let gain = 20.0 * zone.program_gain.log10();
    match (&zone.announcement, zone.program_gain) {
        (None, 1.0) => "zone: no announcement".to_owned(),
        (None, _) => format!("zone: no announcement, programs at {gain:.0} dB"),
        (Some(id), 0.0) => format!("zone: announcement {id} plays, programs are silent"),
        (Some(id), _) => format!("zone: announcement {id} plays, programs at {gain:.0} dB"),
    }
}

/// Makes another program's text safe for a terminal.
pub(in crate::cmd) fn clean(text: &str) -> String {
    printable(text, MAX_TEXT)
}
