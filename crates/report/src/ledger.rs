//! Ledgers of `--packet-log`: a line per packet, in nanoseconds of the writer's monotonic clock.
//! Unknown values are empty. RTP timestamps join sender and receiver.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io::{self, BufRead, Lines, Write};

use tautline_proto::ledger::{Departure, Outcome, PacketTrace};
use tautline_proto::time::{LocalTime, Span};
use tautline_proto::wrap;

/// Stage of packets with a launch time.
pub const LAUNCH: &str = "launch";

/// Stages in the order of travel. The first starts at the capture, every later one where the
/// previous ended. A sender's packet log has the first four.
pub const STAGES: [&str; 9] =
    ["capture", "pack", "send", LAUNCH, "wire", "wakeup", "buffer", "render", "device"];

/// Capture time and stage ends, if known.
pub type LedgerInstants = [Option<i64>; STAGES.len() + 1];

/// Error while reading a ledger.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// I/O error.
    #[error("reading it: {0}")]
    System(#[from] io::Error),
    /// Missing column: not from `--packet-log`.
    #[error("column {0} missing")]
    NoColumn(&'static str),
}

/// Packet in the sender's ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SentPacket {
    /// RTP timestamp.
    pub timestamp: u32,
    /// First frame at the ADC.
    pub capture: i64,
    /// Block received.
    pub taken: i64,
    /// Packet complete.
    pub packed: i64,
    /// Scheduled departure.
    pub due: i64,
    /// Hand-over to the kernel.
    pub handed: i64,
    /// Requested launch time, or `handed`.
    pub launched: i64,
    /// Hand-over to the driver, if stamped.
    pub left: Option<i64>,
    /// Whether the kernel's queue dropped it, too late for its launch.
    pub dropped_by_queue: bool,
}

/// Packet in the receiver's ledger, on the receiver's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReceivedPacket {
    /// Index of the stream.
    pub stream: usize,
    /// RTP timestamp.
    pub timestamp: u32,
    /// Sender's timestamps from ADC to hand-over and launch, if known.
    pub sender: [Option<i64>; 5],
    /// Arrival in the kernel.
    pub arrival: i64,
    /// Read, taken for playout, written to the device, at the DAC.
    pub receiver: [Option<i64>; 4],
    /// Capture-to-DAC latency from the sound.
    pub measured: Option<i64>,
    /// Whether the packet missed its playout time.
    pub late: bool,
    /// Delay of the resampler.
    pub resample: i64,
}

impl ReceivedPacket {
    /// Whether the packet was taken for playout in time.
    pub fn is_received(&self) -> bool {
        !self.late && self.receiver[1].is_some()
    }
}

/// A ledger line.
pub trait LedgerPacket: Sized {
    /// Required columns.
    const COLUMNS: &'static [&'static str];

    /// Reads a line by column name; `None` if a number is missing.
    fn of(number: impl Fn(&str) -> Option<i64>) -> Option<Self>;

    /// Timestamps of the packet.
    fn instants(&self) -> LedgerInstants;
}

impl LedgerPacket for SentPacket {
    const COLUMNS: &'static [&'static str] =
        &["rtp_timestamp", "capture", "taken", "packed", "due", "handed"];

    fn of(number: impl Fn(&str) -> Option<i64>) -> Option<Self> {
        Some(Self {
            timestamp: number("rtp_timestamp")? as u32,
            capture: number("capture")?,
            taken: number("taken")?,
            packed: number("packed")?,
            due: number("due")?,
            handed: number("handed")?,
            launched: number("launched").or_else(|| number("handed"))?,
            left: number("left"),
            dropped_by_queue: number("dropped_by_queue") == Some(1),
        })
    }

    fn instants(&self) -> LedgerInstants {
        let Self { capture, taken, packed, handed, launched, .. } = *self;
        let [a, b, c, d, e] = [capture, taken, packed, handed, launched].map(Some);
        [a, b, c, d, e, None, None, None, None, None]
    }
}

impl LedgerPacket for ReceivedPacket {
    const COLUMNS: &'static [&'static str] = &["rtp_timestamp", "capture", "arrival"];

    fn of(number: impl Fn(&str) -> Option<i64>) -> Option<Self> {
        Some(Self {
            stream: number("stream").and_then(|stream| usize::try_from(stream).ok()).unwrap_or(0),
            timestamp: number("rtp_timestamp")? as u32,
            sender: {
                let [a, b, c, d] = ["capture", "sender_taken", "packed", "handed"].map(&number);
                [a, b, c, d, number("launched").or(d)]
            },
            arrival: number("arrival")?,
            receiver: ["read", "taken", "written", "dac"].map(&number),
            measured: number("measured_ns"),
            late: number("late") == Some(1),
            resample: number("resample_ns").unwrap_or(0),
        })
    }

    fn instants(&self) -> LedgerInstants {
        let [a, b, c, d, e] = self.sender;
        let [f, g, h, i] = self.receiver;
        [a, b, c, d, e, Some(self.arrival), f, g, h, i]
    }
}

/// Packets of a ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadLedger<P> {
    /// In the order of the lines.
    pub packets: Vec<P>,
    /// First invalid line, from 1; skipped. A killed program may leave one.
    pub torn: Option<usize>,
    /// Whether packets remain unread.
    pub more: bool,
}

/// A ledger after its header.
#[derive(Debug)]
pub struct LedgerLines<R> {
    columns: HashMap<String, usize>,
    lines: Lines<R>,
}

impl<R: BufRead> LedgerLines<R> {
    /// Reads the header.
    pub fn of(read: R) -> io::Result<Self> {
        let mut lines = read.lines();
        let head = lines.next().transpose()?.unwrap_or_default();
        let names = head.split(',').enumerate();
        Ok(Self { columns: names.map(|(place, name)| (name.to_owned(), place)).collect(), lines })
    }

    /// Whether this column exists.
    pub fn has(&self, name: &str) -> bool {
        self.columns.contains_key(name)
    }

    /// Reads up to `maximum` packets.
    pub fn packets<P: LedgerPacket>(self, maximum: usize) -> Result<ReadLedger<P>, LedgerError> {
        self.packets_with(P::COLUMNS, maximum)
    }

    /// Requires `columns`; reads up to `maximum` packets.
    pub fn packets_with<P: LedgerPacket>(
        mut self,
        columns: &[&'static str],
        maximum: usize,
    ) -> Result<ReadLedger<P>, LedgerError> {
        if let Some(column) = columns.iter().find(|name| !self.has(name)) {
            return Err(LedgerError::NoColumn(column));
        }
        let mut read = ReadLedger { packets: Vec::new(), torn: None, more: false };
        for (number, line) in self.lines.by_ref().enumerate() {
            let line = line?;
            if read.packets.len() == maximum {
                read.more = true;
                break;
            }
            let cells: Vec<&str> = line.split(',').collect();
            let cell = |name: &str| cells.get(*self.columns.get(name)?)?.parse().ok();
            let whole = cells.len() == self.columns.len();
            match whole.then(|| P::of(cell)).flatten() {
                Some(packet) => read.packets.push(packet),
                None => read.torn = read.torn.or(Some(number + 2)),
            }
        }
        Ok(read)
    }
}

/// Reads all packets; none without a ledger's header.
pub fn packets<P: LedgerPacket>(text: &str) -> Vec<P> {
    let lines = LedgerLines::of(text.as_bytes()).map_err(LedgerError::from);
    lines.and_then(|lines| lines.packets(usize::MAX)).map_or(Vec::new(), |ledger| ledger.packets)
}

/// Stages shorter than the longest divided by this are not named.
const COUNTS: u64 = 50;
const NAMED: usize = 3;

/// Names and lengths of the longest stages, longest first.
pub fn longest<'a>(stages: impl Iterator<Item = (&'a str, i64)>) -> Option<String> {
    let mut all: Vec<_> = stages.collect();
    all.sort_by_key(|(_, nanos)| core::cmp::Reverse(nanos.unsigned_abs()));
    let longest = all.first()?.1.unsigned_abs();
    let counting = all.iter().filter(|(_, nanos)| nanos.unsigned_abs() * COUNTS >= longest);
    let reported: Vec<String> = counting
        .take(NAMED)
        .map(|(name, nanos)| format!("{name} {}", Span::from_nanos(*nanos)))
        .collect();
    Some(reported.join(", "))
}

/// Length of stage `at`, if known.
pub fn length(instants: &LedgerInstants, at: usize) -> Option<i64> {
    let length = instants[at + 1]?.checked_sub(instants[at]?)?;
    (STAGES[at] != LAUNCH || length != 0).then_some(length)
}

/// Known stages with their lengths.
pub fn lengths(instants: &LedgerInstants) -> impl Iterator<Item = (&'static str, i64)> {
    STAGES.into_iter().enumerate().filter_map(|(at, name)| Some((name, length(instants, at)?)))
}

/// A line to write.
pub trait LedgerEntry {
    /// Column names.
    const HEAD: &'static str;

    /// Writes the line.
    fn write(&self, out: &mut impl Write) -> io::Result<()>;
}

/// A received packet.
pub struct ReceivedEntry {
    /// Stream index.
    pub stream: usize,
    /// Timestamps.
    pub passage: PacketTrace,
    /// Latency from the sound, if found.
    pub measured: Option<Span>,
}

impl LedgerEntry for ReceivedEntry {
    const HEAD: &'static str = "rtp_timestamp,capture,sender_taken,packed,handed,arrival,read,taken,written,dac,measured_ns,\
         stream,late,resample_ns,launched";

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let Self { stream, passage, measured } = self;
        let sender = passage.origin.and_then(|origin| origin.sender);
        let taken = |at: LocalTime| (passage.outcome != Outcome::Discarded).then_some(at);
        write!(out, "{}", wrap::rtp_timestamp(passage.media.as_frames()))?;
        for instant in [
            passage.origin.map(|origin| origin.capture),
            sender.map(|s| s.taken),
            sender.map(|s| s.packed),
            sender.map(|s| s.handed),
            Some(passage.arrival),
            Some(passage.read),
            taken(passage.taken),
            taken(passage.written),
            taken(passage.dac),
        ] {
            column(out, instant.map(LocalTime::as_nanos))?;
        }
        column(out, measured.map(Span::as_nanos))?;
        let late = u8::from(passage.is_late());
        write!(out, ",{stream},{late},{}", passage.resample.as_nanos())?;
        column(out, sender.map(|s| s.launched.as_nanos()))?;
        writeln!(out)
    }
}

fn column(out: &mut impl Write, nanos: Option<i64>) -> io::Result<()> {
    match nanos {
        Some(nanos) => write!(out, ",{nanos}"),
        None => write!(out, ","),
    }
}

/// A sent packet.
pub struct SentEntry {
    /// RTP timestamp.
    pub rtp_timestamp: u32,
    /// Timestamps.
    pub departure: Departure,
    /// Hand-over to the driver, if stamped.
    pub left: Option<LocalTime>,
    /// Whether the queue dropped it as too late to launch.
    pub dropped_by_queue: bool,
}

impl LedgerEntry for SentEntry {
    const HEAD: &'static str =
        "rtp_timestamp,capture,taken,packed,due,handed,launched,left,dropped_by_queue";

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let Departure { capture, taken, packed, due, handed, launched, .. } = self.departure;
        write!(out, "{}", self.rtp_timestamp)?;
        for instant in [capture, taken, packed, due, handed, launched] {
            column(out, Some(instant.as_nanos()))?;
        }
        column(out, self.left.map(LocalTime::as_nanos))?;
        writeln!(out, ",{}", u8::from(self.dropped_by_queue))
    }
}

const JOINED: &str = "rtp_timestamp,time_s,outcome,capture_ns,pack_ns,send_ns,launch_ns,wire_ns,wakeup_ns,\
                      buffer_ns,render_ns,resample_ns,device_ns,total_ns,measured_ns,lateness_ns";

/// Outcomes of sent packets, with their text after a count.
const OUTCOMES: [(&str, &str); 6] = [
    ("played", "played"),
    ("late", "late"),
    ("underrun", "discarded by underruns"),
    // The log has no line for a lost packet, a rebuilt one, or one that it had no room for.
    ("missing", "missing in the receiver's log (lost, rebuilt or not logged)"),
    ("dropped", "dropped by the sender's queue"),
    ("unlogged", "before or after the receiver's log"),
];

/// Joined ledgers of both ends.
#[derive(Debug)]
pub struct JoinedLedgers {
    /// CSV with a header and a line per sent packet.
    pub lines: Vec<String>,
    /// Packet counts as a sentence.
    pub counted: String,
    /// Packets in both ledgers.
    pub matched: usize,
}

/// Joins two ledgers by RTP timestamp.
///
/// Each side uses its own clock, so only durations are combined. The wire stage requires a mapping
/// of the sender's clock.
pub fn join(sent: &[SentPacket], received: &[ReceivedPacket]) -> JoinedLedgers {
    let arrived: HashMap<u32, &ReceivedPacket> =
        received.iter().map(|packet| (packet.timestamp, packet)).collect();
    let both = |packet: &SentPacket| arrived.get(&packet.timestamp).copied();
    let first = sent.iter().position(|packet| both(packet).is_some()).unwrap_or(sent.len());
    let last = sent.iter().rposition(|packet| both(packet).is_some()).unwrap_or(0);
    let began = sent.first().map_or(0, |packet| packet.capture);
    let (mut counts, mut matched) = ([0_usize; OUTCOMES.len()], 0);
    let mut lines = vec![JOINED.to_owned()];
    for (at, packet) in sent.iter().enumerate() {
        let there = both(packet);
        matched += usize::from(there.is_some());
        let outcome = match there {
            Some(received) if received.is_received() => 0,
            Some(received) if received.late => 1,
            Some(_) => 2,
            None if packet.dropped_by_queue => 4,
            None if (first..=last).contains(&at) => 3,
            None => 5,
        };
        counts[outcome] += 1;
        let seconds = packet.capture.saturating_sub(began) as f64 / 1e9;
        let head = format!("{},{seconds:.6},{}", packet.timestamp, OUTCOMES[outcome].0);
        lines.push(head + &joined_cells(packet, there));
    }
    let counts = OUTCOMES.iter().zip(counts).filter(|(_, count)| *count > 0);
    let counts: Vec<_> = counts.map(|((_, words), count)| format!("{count} {words}")).collect();
    let counted = format!("{} packets sent: {}", sent.len(), counts.join(", "));
    JoinedLedgers { lines, counted, matched }
}

/// Stages and their sum. Unknown stages are empty, and so is everything after the arrival of a
/// packet that was not played.
fn joined_cells(sent: &SentPacket, received: Option<&ReceivedPacket>) -> String {
    let here = sent.instants();
    let there = received.map_or([None; STAGES.len() + 1], LedgerPacket::instants);
    let played = received.filter(|received| received.is_received());
    let stage = |at: usize| {
        let instants = if at < 4 { &here } else { &there };
        let known = at <= 5 || played.is_some();
        instants[at + 1].filter(|_| known)?.checked_sub(instants[at]?)
    };
    let [a, b, c, d, e, f, g, h, last] = core::array::from_fn(stage);
    let resample = played.map(|played| played.resample);
    let device = last.zip(resample).map(|(all, resample)| all - resample);
    let stages = [a, b, c, d, e, f, g, h, resample, device];
    let total = stages.iter().copied().sum::<Option<i64>>();
    let measured = played.and_then(|played| played.measured);
    let lateness = sent.handed.checked_sub(sent.due);
    let cell = |cell: Option<i64>| cell.map_or(",".to_owned(), |number| format!(",{number}"));
    stages.into_iter().chain([total, measured, lateness]).map(cell).collect()
}
