use std::collections::{BTreeMap, BTreeSet};

use tautline_dsp::fit::CommonSlope;
use tautline_proto::time::{LocalTime, Span};
use tautline_proto::units::Rate;
use tautline_proto::wrap::{Unwrapper, Wrapped};

use super::flows::{Numbered, PacketFlow, TimestampUnit, instant};
use crate::report::{Points, Published, ReportRow, Statistic};
use crate::statistics::{Missed, Series};
use tautline_report::ledger::{LedgerError, LedgerLines, LedgerPacket, ReceivedPacket, SentPacket};

/// Minimum deviation of another rate in ppm. Crystals stay within 100 ppm.
const ANOTHER_RATE: f64 = 1000.0;
/// Minimum change against the media clock, in ns, that may begin a step.
const STEP_NS: f64 = 10e6;
/// Time on both sides of a step whose earliest packets decide. Queued packets catch up after a
/// stall.
const STEP_WINDOW: Span = Span::from_millis(100);
const MIN_STEP_PACKETS: usize = 3;

pub(super) fn of_ledger(lines: &[LedgerLine], rate: Rate) -> Vec<ReportRow> {
    let unit = TimestampUnit::Frames(rate);
    let packets: Vec<Numbered> = lines.iter().map(|line| line.packet).collect();
    let late = lines.iter().map(|line| (line.due, line.packet.at - line.due));
    let schedule = handed_over("packet log, against its schedule".to_owned(), late);
    let mut rows = vec![intervals("packet log".to_owned(), &packets, unit), schedule];
    rows.extend(against_media("packet log", &packets, unit).map(|(row, _)| row));
    rows
}

pub(super) fn of_flow(flow: &PacketFlow) -> Vec<ReportRow> {
    let mut row = intervals(flow.name.clone(), &flow.packets, flow.unit);
    // AVTP timestamps are only a fallback: they are rounded to nanoseconds.
    row.configured = flow.length.or(row.configured);
    row.published = published(row.configured);
    let mut seen = BTreeSet::new();
    let (mut repeated, mut reordered) = (0_u64, 0_u64);
    for number in flow.packets.iter().filter_map(|packet| packet.sequence) {
        let behind = seen.last().is_some_and(|highest| number < *highest);
        let fresh = seen.insert(number);
        repeated += u64::from(!fresh);
        reordered += u64::from(fresh && behind);
    }
    if let (Some(first), Some(last)) = (seen.first(), seen.last()) {
        let due = (last - first + 1) as u64;
        row.missed = Some(Missed::of(due - seen.len() as u64, due));
        row.add("repeated", "duplicates", repeated);
        row.add("reordered", "out of order", reordered);
    }
    // An interval has two ends.
    row.uncertainty = flow.uncertainty.map(|one| one + one);
    let media = against_media(&flow.name, &flow.packets, flow.unit).map(|(mut row, _)| {
        row.uncertainty = flow.uncertainty;
        row
    });
    [row].into_iter().chain(media).collect()
}

pub(super) fn doubt(flow: &PacketFlow) -> Option<String> {
    let (_, ppm) = against_media(&flow.name, &flow.packets, flow.unit)?;
    let name = &flow.name;
    (ppm.abs() > ANOTHER_RATE).then(|| match flow.unit {
        TimestampUnit::Frames(rate) => {
            format!("{name}: its media clock is {ppm:+.0} ppm off {rate}; set its --rate")
        }
        TimestampUnit::Nanoseconds => {
            format!("{name}: its presentation times run {ppm:+.0} ppm off the clock of the capture")
        }
    })
}

pub(super) fn handed_over(
    name: String,
    packets: impl Iterator<Item = (LocalTime, Span)>,
) -> ReportRow {
    let packets: Vec<_> = packets.collect();
    let mut late = Series::with_room(packets.len());
    packets.into_iter().for_each(|(due, after)| late.push(due, after));
    let mut row = ReportRow::named(name).with(&late);
    row.points = vec![Points::of("lateness", &late)];
    row
}

pub(super) fn intervals(name: String, packets: &[Numbered], unit: TimestampUnit) -> ReportRow {
    let mut series = Series::with_room(packets.len());
    for pair in packets.windows(2) {
        series.push(pair[1].at, pair[1].at - pair[0].at);
    }
    let mut row = ReportRow::named(name).with(&series);
    row.configured = usual_step(packets).map(|step| unit.span(step));
    add_scatter(&mut row);
    row.add("spread_ns", "p99.9 - p0.1", series.spread().map(Span::as_nanos));
    row.published = published(row.configured);
    row.points = vec![Points::of("interval", &series)];
    row
}

pub(super) fn add_scatter(row: &mut ReportRow) {
    let measured = row.measured;
    row.add("mean_ns", "mean", measured.and_then(|measured| measured.mean_ns));
    row.add("stdev_ns", "stdev", measured.and_then(|measured| measured.stdev_ns));
    row.add("range_ns", "range", measured.and_then(|measured| measured.range_ns));
}

/// Guedes, alsa-devel, 8 December 2018: 5 minutes of AVTPDUs of 125 µs between two PCs.
const SOURCE: &str = "AAF PCM plugin, alsa-devel, December 2018";

fn published(configured: Option<Span>) -> Vec<Published> {
    if configured != Some(Span::from_micros(125)) {
        return Vec::new();
    }
    let statistic = Statistic::Stdev;
    let of = |name, value_ns| Published { source: SOURCE, name, statistic, value_ns };
    vec![of("AAF 2018 by timer, stdev", 1154), of("AAF 2018 offloaded, stdev", 18)]
}

fn usual_step(packets: &[Numbered]) -> Option<i64> {
    let mut counts = BTreeMap::<i64, usize>::new();
    for pair in packets.windows(2) {
        if let (Some(first), Some(second)) = (pair[0].timestamp, pair[1].timestamp) {
            *counts.entry(second - first).or_default() += 1;
        }
    }
    counts.into_iter().filter(|(step, _)| *step > 0).max_by_key(|(_, count)| *count).map(|(s, _)| s)
}

/// Lateness relative to the earliest packet, on a media clock of fitted rate, and its ppm. Each
/// step begins a new offset.
pub(super) fn against_media(
    name: &str,
    packets: &[Numbered],
    unit: TimestampUnit,
) -> Option<(ReportRow, f64)> {
    let timed = packets.iter().filter_map(|packet| Some((packet.at, packet.timestamp?)));
    let timed: Vec<_> = timed.collect();
    let first = *timed.first()?;
    let place = |packet: &(LocalTime, i64)| {
        let media = unit.span(packet.1 - first.1).as_nanos() as f64;
        (packet.0, media, (packet.0 - first.0).as_nanos() as f64 - media)
    };
    let placed: Vec<MediaPlace> = timed.iter().map(place).collect();
    let parts = between_steps(&placed);
    let mut slope = CommonSlope::default();
    let mean = |part: &&[MediaPlace]| slope.add(part.iter().map(|(_, x, y)| (*x, *y, 1.0)));
    let means: Vec<_> = parts.iter().map(mean).collect();
    let slope = slope.slope()?;
    let mut series = Series::with_room(placed.len());
    for (part, (middle, mean)) in parts.iter().zip(means) {
        let rest = |(_, media, ahead): &MediaPlace| ahead - mean - slope * (media - middle);
        let earliest = part.iter().map(rest).fold(f64::INFINITY, f64::min);
        for packet in *part {
            let late = Span::from_nanos((rest(packet) - earliest).round() as i64);
            series.push(packet.0, late);
        }
    }
    let mut row = ReportRow::named(format!("{name}, against its media clock")).with(&series);
    let ppm = -slope / (1.0 + slope) * 1e6;
    row.add("media_clock_ppm", "media clock, ppm", ppm);
    row.add("media_clock_steps", "steps of the media clock", parts.len() - 1);
    row.points = vec![Points::of("lateness", &series)];
    Some((row, ppm))
}

type MediaPlace = (LocalTime, f64, f64);

fn between_steps(packets: &[MediaPlace]) -> Vec<&[MediaPlace]> {
    let mut parts = Vec::new();
    let mut rest = packets;
    let mut at = 1;
    while at < rest.len() {
        if is_step(&rest[..at], &rest[at..]) {
            let (part, after) = rest.split_at(at);
            parts.push(part);
            (rest, at) = (after, 0);
        }
        at += 1;
    }
    parts.push(rest);
    parts
}

fn is_step(before: &[MediaPlace], after: &[MediaPlace]) -> bool {
    let (Some(last), Some(next)) = (before.last(), after.first()) else { return false };
    let step = next.2 - last.2;
    if step.abs() < STEP_NS || before.len().min(after.len()) < MIN_STEP_PACKETS {
        return false;
    }
    let near = |from: LocalTime, (index, packet): &(usize, &MediaPlace)| {
        *index < MIN_STEP_PACKETS || (packet.0 - from).abs() <= STEP_WINDOW
    };
    let earliest = |ahead: f64, (_, packet): (usize, &MediaPlace)| ahead.min(packet.2);
    let old = before.iter().rev().enumerate().take_while(|packet| near(last.0, packet));
    let new = after.iter().enumerate().take_while(|packet| near(next.0, packet));
    let moved = new.fold(f64::INFINITY, earliest) - old.fold(f64::INFINITY, earliest);
    moved * step.signum() > step.abs() / 2.0
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LedgerLine {
    pub(super) packet: Numbered,
    pub(super) due: LocalTime,
}

pub(super) fn read_ledger(name: &str, text: &str) -> Result<Vec<LedgerLine>, String> {
    let mended = |error: LedgerError| {
        format!(
            "{name} is not a packet log: {error}\nhint: use a file written by taut send --packet-log \
                                      FILE.csv"
        )
    };
    let lines = LedgerLines::of(text.as_bytes()).map_err(|error| mended(error.into()))?;
    let knows = |columns: &[&str]| columns.iter().all(|name| lines.has(name));
    if knows(ReceivedPacket::COLUMNS) && !knows(SentPacket::COLUMNS) {
        return Err(format!(
            "{name} is a receiver's packet log\nhint: use the sender's, written by taut send \
             --packet-log FILE.csv, or listen where the stream arrives (--listen)"
        ));
    }
    let ledger = lines.packets::<SentPacket>(usize::MAX).map_err(mended)?;
    let torn = |line| {
        format!(
            "line {line} of {name} is not a packet\nhint: use the file as taut send --packet-log wrote \
                        it"
        )
    };
    if let Some(line) = ledger.torn {
        return Err(torn(line));
    }
    let mut counter: Option<Unwrapper> = None;
    let mut read: Vec<LedgerLine> = Vec::with_capacity(ledger.packets.len());
    for (number, sent) in ledger.packets.iter().enumerate() {
        let (Some(due), Some(at)) = (instant(sent.due), instant(sent.handed)) else {
            return Err(torn(number + 2));
        };
        let wrapped = Wrapped::of(i64::from(sent.timestamp), 32);
        let timestamp =
            counter.get_or_insert(Unwrapper::starting_at(wrapped)).extend(wrapped.value);
        let packet = Numbered { at, sequence: None, timestamp: Some(timestamp) };
        read.push(LedgerLine { packet, due });
    }
    read.sort_by_key(|line| line.packet.at);
    if read.len() < 2 {
        return Err(format!("{name} has fewer than two packets\nhint: let taut send run longer"));
    }
    Ok(read)
}
