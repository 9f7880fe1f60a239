//! A run's packets, from its packet log.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use tautline_proto::time::{LocalTime, Span};
use tautline_report::ledger::{
    LedgerError, LedgerInstants, LedgerLines, LedgerPacket, ReadLedger, ReceivedPacket, STAGES,
    SentPacket,
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
    timestamp: u32,
    capture: i64,
    instants: LedgerInstants,
    /// From the sound, or else from the device.
    latency: Option<i64>,
}

impl RunPacket {
    fn received(packet: &ReceivedPacket) -> Option<Self> {
        Self::of(packet, packet.stream, packet.timestamp, packet.measured)
    }

    fn sent(packet: &SentPacket) -> Option<Self> {
        Self::of(packet, 0, packet.timestamp, None)
    }

    fn of(
        packet: &impl LedgerPacket,
        stream: usize,
        timestamp: u32,
        measured: Option<i64>,
    ) -> Option<Self> {
        let instants = packet.instants();
        let capture = instants[0]?;
        let dac = instants[STAGES.len()].and_then(|dac| dac.checked_sub(capture));
        Some(Self { stream, timestamp, capture, instants, latency: measured.or(dac) })
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
            (packets.iter().filter_map(RunPacket::received).collect(), more)
        } else {
            let ReadLedger { packets, more, .. } = lines.packets::<SentPacket>(MAX)?;
            (packets.iter().filter_map(RunPacket::sent).collect(), more)
        };
        packets.sort_by_key(|packet| packet.capture);
        Ok(Self { packets, more })
    }

    /// Capture of the first packet with known latency, else of the first.
    pub(super) fn begin(&self, stream: usize) -> Option<i64> {
        self.first(stream).map(|packet| packet.capture)
    }

    pub(super) fn first_timestamp(&self, stream: usize) -> Option<u32> {
        self.first(stream).map(|packet| packet.timestamp)
    }

    fn first(&self, stream: usize) -> Option<&RunPacket> {
        let packets = || self.packets.iter().filter(|packet| packet.stream == stream);
        packets().find(|packet| packet.latency.is_some()).or_else(|| packets().next())
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
        if series.begin().is_some() {
            // The log may end early; the run's figures cover all packets.
            let (measured, worst) = (row.measured, core::mem::take(&mut row.worst));
            *row = core::mem::take(row).with(&series);
            row.measured = measured.or(row.measured);
            row.worst = worst;
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

fn shown(row: &ReportRow, packets: &[&RunPacket], begin: i64) -> core::ops::Range<usize> {
    let worst = row.worst.first().map_or(begin, |worst| begin.saturating_add(worst.at_ns));
    let at = packets.partition_point(|packet| packet.capture < worst);
    let from = at.saturating_sub(SHOWN / 2).min(packets.len().saturating_sub(SHOWN));
    from..packets.len().min(from + SHOWN)
}
