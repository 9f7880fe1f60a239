//! Reads a receiver's ledger as a record of the network.

use tautline_proto::time::Span;

use super::{NumberedLine, RecordedPacket, TraceError};

pub(super) struct Columns {
    timestamp: usize,
    handed: usize,
    arrival: usize,
    stream: Option<usize>,
}

impl Columns {
    pub(super) fn of(head: &str) -> Option<Self> {
        let place = |name| head.split(',').position(|column| column.trim() == name);
        Some(Self {
            timestamp: place("rtp_timestamp")?,
            handed: place("handed")?,
            arrival: place("arrival")?,
            stream: place("stream"),
        })
    }
}

/// Packets of the first stream, from hand-over to arrival, both on the receiver's clock. Negative
/// delays count as zero. Missing timestamps are lost packets, sent at even intervals.
pub(super) fn packets<'a>(
    columns: &Columns,
    lines: impl Iterator<Item = NumberedLine<'a>>,
) -> Result<Vec<RecordedPacket>, TraceError> {
    let mut found: Vec<(i64, Span, Span)> = Vec::new();
    let mut last: Option<i64> = None;
    for (line, text) in lines {
        let cells: Vec<&str> = text.split(',').collect();
        let cell = |column: usize| cells.get(column).copied().unwrap_or("");
        if columns.stream.is_some_and(|stream| cell(stream) != "0") {
            continue;
        }
        let number = |column: usize| match cell(column) {
            "" => Ok(None),
            text => text.parse::<i64>().map(Some).map_err(|_| TraceError::Line {
                line,
                text: text.into(),
                wanted: "a whole number; use a packet log as written by taut recv --packet-log",
            }),
        };
        let (Some(timestamp), Some(handed), Some(arrival)) =
            (number(columns.timestamp)?, number(columns.handed)?, number(columns.arrival)?)
        else {
            continue;
        };
        let timestamp = timestamp as u32;
        let near = last.unwrap_or(timestamp.into());
        let unwrapped = near + i64::from(timestamp.wrapping_sub(near as u32) as i32);
        last = Some(unwrapped);
        let delay = Span::from_nanos(arrival.saturating_sub(handed).max(0));
        found.push((unwrapped, Span::from_nanos(handed), delay));
    }
    found.sort_unstable();
    found.dedup_by_key(|(timestamp, ..)| *timestamp);
    Ok(with_lost(&found))
}

fn with_lost(found: &[(i64, Span, Span)]) -> Vec<RecordedPacket> {
    let step = found.windows(2).map(|pair| pair[1].0 - pair[0].0).min().unwrap_or(1).max(1);
    let mut packets: Vec<RecordedPacket> = Vec::new();
    let mut timestamp_before = None;
    let mut maximum = MAX_MISSING + MAX_FOR_EACH * found.len() as i64;
    for &(timestamp, sent, delay) in found {
        // The clock mapping may move back, but time must not.
        let before = packets.last().map_or(sent, |last| last.sent);
        let sent = sent.max(before);
        let apart = timestamp - timestamp_before.replace(timestamp).unwrap_or(timestamp - step);
        let missing = (apart / step - 1).min(MAX_MISSING).min(maximum);
        maximum -= missing;
        for number in 1..=missing {
            let midway = (sent - before).times(number).divided(missing + 1);
            packets.push(RecordedPacket { sent: before + midway, delay: None });
        }
        packets.push(RecordedPacket { sent, delay: Some(delay) });
    }
    packets
}

/// Maximum consecutive missing packets that count as lost.
const MAX_MISSING: i64 = 10_000;
/// Maximum missing packets per received one, apart from one outage. It keeps a short text from
/// expanding to gigabytes.
const MAX_FOR_EACH: i64 = 16;
