//! A run's packets, from its packet log.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use tautline_proto::time::{LocalTime, Span};
use tautline_report::ledger::{
    LedgerError, LedgerInstants, LedgerLines, LedgerPacket, ReadLedger, ReceivedPacket, STAGES,
    SentPacket, lengths,
};

use crate::report::{Points, ReportRow};
use crate::statistics::Series;

/// Maximum packets read. A page cannot show hours.
const MAX: usize = 500_000;
const SHOWN: usize = 25_000;

/// Packets in order of capture, without packets of unknown capture time.
#[derive(Debug)]
pub struct RunPackets {
    packets: Vec<RunPacket>,
    more: bool,
}

#[derive(Debug)]
struct RunPacket {
    stream: usize,
    capture: i64,
    instants: LedgerInstants,
    /// From the sound, or else from the device.
    latency: Option<i64>,
}

impl RunPacket {
    fn of(packet: &impl LedgerPacket, stream: usize, measured: Option<i64>) -> Option<Self> {
        let instants = packet.instants();
        let capture = instants[0]?;
        let dac = instants[STAGES.len()].and_then(|dac| dac.checked_sub(capture));
        Some(Self { stream, capture, instants, latency: measured.or(dac) })
    }
}

impl RunPackets {
    pub fn read(path: &Path) -> Result<Self, LedgerError> {
        Self::of(BufReader::new(File::open(path)?))
    }

    pub(super) fn of(lines: impl BufRead) -> Result<Self, LedgerError> {
        let lines = LedgerLines::of(lines)?;
        if !lines.has("capture") {
            return Err(LedgerError::NoColumn("capture"));
        }
        let (mut packets, more): (Vec<RunPacket>, bool) = if lines.has("arrival") {
            let ReadLedger { packets, more, .. } = lines.packets::<ReceivedPacket>(MAX)?;
            let of =
                |packet: &ReceivedPacket| RunPacket::of(packet, packet.stream, packet.measured);
            (packets.iter().filter_map(of).collect(), more)
        } else {
            let ReadLedger { packets, more, .. } = lines.packets::<SentPacket>(MAX)?;
            (packets.iter().filter_map(|packet| RunPacket::of(packet, 0, None)).collect(), more)
        };
        packets.sort_by_key(|packet| packet.capture);
        Ok(Self { packets, more })
    }

    /// Capture of the first packet with known latency, else of the first.
    pub(super) fn begin(&self, stream: usize) -> Option<i64> {
        let packets = || self.packets.iter().filter(|packet| packet.stream == stream);
        let known = packets().find(|packet| packet.latency.is_some());
        known.or_else(|| packets().next()).map(|packet| packet.capture)
    }

    /// May return a note.
    pub(super) fn add_to(&self, row: &mut ReportRow, stream: usize) -> Option<String> {
        let packets: Vec<&RunPacket> =
            self.packets.iter().filter(|packet| packet.stream == stream).collect();
        let mut series = Series::with_room(packets.len());
        for packet in &packets {
            let due = LocalTime::ZERO + Span::from_nanos(packet.capture);
            if let Some(latency) = packet.latency {
                series.push(due, Span::from_nanos(latency));
            }
        }
        let begin = self.begin(stream)?;
        if let Some(first) = series.begin() {
            // The log may end early; the run's figures cover all packets.
            let measured = row.measured;
            *row = core::mem::take(row).with(&series);
            row.measured = measured.or(row.measured);
            name_worst(row, &packets, first);
        }
        let shown = shown(row, &packets, begin);
        row.points = lines(&packets[shown.clone()], begin);
        let (count, read) = (shown.len(), packets.len());
        let more = if self.more {
            format!("; {MAX} packets of the packet log were read")
        } else {
            String::new()
        };
        (count < read || self.more).then(|| {
            format!("{}: {count} packets around the worst are shown individually{more}", row.name)
        })
    }
}

fn lines(packets: &[&RunPacket], begin: i64) -> Vec<Points> {
    let packets = packets.iter().map(|packet| (packet.capture - begin, packet.instants));
    let mut lines = Points::of_stages(packets);
    lines.retain(|points| !points.values.is_empty());
    lines
}

fn name_worst(row: &mut ReportRow, packets: &[&RunPacket], first: LocalTime) {
    let first = (first - LocalTime::ZERO).as_nanos();
    for worst in &mut row.worst {
        let at = first.saturating_add(worst.at_ns);
        let found = packets
            .iter()
            .find(|packet| packet.capture == at && packet.latency == Some(worst.value_ns));
        if let Some(packet) = found {
            worst.made_of(lengths(&packet.instants));
        }
    }
}

fn shown(row: &ReportRow, packets: &[&RunPacket], begin: i64) -> core::ops::Range<usize> {
    let worst = row.worst.first().map_or(begin, |worst| begin.saturating_add(worst.at_ns));
    let at = packets.partition_point(|packet| packet.capture < worst);
    let from = at.saturating_sub(SHOWN / 2).min(packets.len().saturating_sub(SHOWN));
    from..packets.len().min(from + SHOWN)
}
