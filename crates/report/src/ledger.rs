//! Ledgers, as `--packet-log` writes them: a line for each packet, with instants in nanoseconds of the writer's
//! monotonic clock. What is not known is empty. A receiver's line and its sender's begin with the same RTP timestamp,
//! so that the two join.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io::{self, BufRead, Lines, Write};

use tautline_proto::ledger::{Departure, PacketTrace};
use tautline_proto::time::{LocalTime, Span};
use tautline_proto::wrap;

/// The stage that packets without a launch time do not have.
pub const LAUNCH: &str = "launch";

/// What a packet's time is made of, in the order of travel: the first stage begins with the capture, each
/// other where the one before ends. A sender knows the first four.
pub const STAGES: [&str; 9] =
    ["capture", "pack", "send", LAUNCH, "wire", "wakeup", "buffer", "render", "device"];

/// The capture, and the end of each stage, as far as they are known.
pub type LedgerInstants = [Option<i64>; STAGES.len() + 1];

/// Why a ledger cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// Not a file that can be read.
    #[error("reading it: {0}")]
    System(#[from] io::Error),
    /// Not what `--packet-log` writes.
    #[error("it has no column {0}: it is no ledger")]
    NoColumn(&'static str),
}

/// A packet as its sender saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SentPacket {
    /// Media time, in 32 bits.
    pub timestamp: u32,
    /// First frame at the ADC.
    pub capture: i64,
    /// Block in the program.
    pub taken: i64,
    /// Packet complete.
    pub packed: i64,
    /// When it was to leave.
    pub due: i64,
    /// Handed to the kernel.
    pub handed: i64,
    /// When the kernel was to let it go: its launch time, or `handed`.
    pub launched: i64,
    /// Given to the driver by the kernel, if that was stamped.
    pub left: Option<i64>,
}

/// A packet as its receiver saw it. The sender's instants are on the receiver's clock, as it mapped it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeardPacket {
    /// Of the receiver's streams, in the order in which it was given them.
    pub stream: usize,
    /// Media time, in 32 bits.
    pub timestamp: u32,
    /// First frame at the ADC, and so on to the hand-over to the kernel and the launch, where that is known.
    pub sender: [Option<i64>; 5],
    /// In the receiver's kernel.
    pub arrival: i64,
    /// Read by the program, taken for playout, written to the device, at the DAC, as far as it came.
    pub receiver: [Option<i64>; 4],
    /// Capture to DAC by the sound.
    pub measured: Option<i64>,
    /// Whether it came after its turn.
    pub late: bool,
    /// What the resampler held it back by.
    pub resample: i64,
}

impl HeardPacket {
    /// Whether it was there in time and was taken for playout.
    pub fn is_heard(&self) -> bool {
        !self.late && self.receiver[1].is_some()
    }
}

/// What a line tells.
pub trait LedgerPacket: Sized {
    /// Columns without which it is no ledger of these.
    const COLUMNS: &'static [&'static str];

    /// By the numbers of its columns; nothing where what is always known is not.
    fn of(number: impl Fn(&str) -> Option<i64>) -> Option<Self>;

    /// When it was where.
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
        })
    }

    fn instants(&self) -> LedgerInstants {
        let Self { capture, taken, packed, handed, launched, .. } = *self;
        let [a, b, c, d, e] = [capture, taken, packed, handed, launched].map(Some);
        [a, b, c, d, e, None, None, None, None, None]
    }
}

impl LedgerPacket for HeardPacket {
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

/// The packets of a ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadLedger<P> {
    /// In the order of the lines.
    pub packets: Vec<P>,
    /// The first line that is no packet's, counted from 1: the last of a program that was ended may not be
    /// whole. It is left out.
    pub torn: Option<usize>,
    /// Whether there are more packets than were read.
    pub more: bool,
}

/// A ledger whose head was read.
#[derive(Debug)]
pub struct LedgerLines<R> {
    columns: HashMap<String, usize>,
    lines: Lines<R>,
}

impl<R: BufRead> LedgerLines<R> {
    /// Reads the head.
    pub fn of(read: R) -> io::Result<Self> {
        let mut lines = read.lines();
        let head = lines.next().transpose()?.unwrap_or_default();
        let names = head.split(',').enumerate();
        Ok(Self { columns: names.map(|(place, name)| (name.to_owned(), place)).collect(), lines })
    }

    /// Whether there is a column of this name.
    pub fn has(&self, name: &str) -> bool {
        self.columns.contains_key(name)
    }

    /// Reads so many packets at most.
    pub fn packets<P: LedgerPacket>(self, most: usize) -> Result<ReadLedger<P>, LedgerError> {
        self.packets_with(P::COLUMNS, most)
    }

    /// The same of a ledger that has at least `columns`.
    pub fn packets_with<P: LedgerPacket>(
        mut self,
        columns: &[&'static str],
        most: usize,
    ) -> Result<ReadLedger<P>, LedgerError> {
        if let Some(column) = columns.iter().find(|name| !self.has(name)) {
            return Err(LedgerError::NoColumn(column));
        }
        let mut read = ReadLedger { packets: Vec::new(), torn: None, more: false };
        for (number, line) in self.lines.by_ref().enumerate() {
            let line = line?;
            if read.packets.len() == most {
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

/// The packets of a ledger; none of what is no ledger, such as that of a program that had no packet.
pub fn packets<P: LedgerPacket>(text: &str) -> Vec<P> {
    let lines = LedgerLines::of(text.as_bytes()).map_err(LedgerError::from);
    lines.and_then(|lines| lines.packets(usize::MAX)).map_or(Vec::new(), |ledger| ledger.packets)
}

/// Stages that count are at least this part of the longest.
const COUNTS: u64 = 50;
/// Stages that are named of one packet.
const NAMED: usize = 3;

/// The stages that took the most of a packet's time in words, the longest first; what is little beside the
/// others is left out.
pub fn longest<'a>(stages: impl Iterator<Item = (&'a str, i64)>) -> Option<String> {
    let mut all: Vec<_> = stages.collect();
    all.sort_by_key(|(_, nanos)| core::cmp::Reverse(nanos.unsigned_abs()));
    let longest = all.first()?.1.unsigned_abs();
    let counting = all.iter().filter(|(_, nanos)| nanos.unsigned_abs() * COUNTS >= longest);
    let told: Vec<String> = counting
        .take(NAMED)
        .map(|(name, nanos)| format!("{name} {}", Span::from_nanos(*nanos)))
        .collect();
    Some(told.join(", "))
}

/// The length of the how-many-th stage, if its begin and its end are known.
pub fn length(instants: &LedgerInstants, at: usize) -> Option<i64> {
    let length = instants[at + 1]?.checked_sub(instants[at]?)?;
    (STAGES[at] != LAUNCH || length != 0).then_some(length)
}

/// Each stage whose begin and end are known, and its length.
pub fn lengths(instants: &LedgerInstants) -> impl Iterator<Item = (&'static str, i64)> {
    STAGES.into_iter().enumerate().filter_map(|(at, name)| Some((name, length(instants, at)?)))
}

/// A line of a ledger, as it is kept until it is written.
pub trait LedgerEntry {
    /// What the columns are called.
    const HEAD: &'static str;

    /// Writes it as a line.
    fn write(&self, out: &mut impl Write) -> io::Result<()>;
}

/// A packet that was played, or came too late for that.
pub struct HeardEntry {
    /// The how many-th stream it is of.
    pub stream: usize,
    /// When it was where.
    pub passage: PacketTrace,
    /// What the sound itself said, if it was found.
    pub measured: Option<Span>,
}

impl LedgerEntry for HeardEntry {
    const HEAD: &'static str = "rtp_timestamp,capture,sender_taken,packed,handed,arrival,read,taken,written,dac,measured_ns,\
         stream,late,resample_ns,launched";

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let Self { stream, passage, measured } = self;
        let sender = passage.origin.and_then(|origin| origin.sender);
        write!(out, "{}", wrap::rtp_timestamp(passage.media.as_frames()))?;
        for instant in [
            passage.origin.map(|origin| origin.capture),
            sender.map(|s| s.taken),
            sender.map(|s| s.packed),
            sender.map(|s| s.handed),
            Some(passage.arrival),
            Some(passage.read),
            Some(passage.taken),
            Some(passage.written),
            Some(passage.dac),
        ] {
            column(out, instant.map(LocalTime::as_nanos))?;
        }
        column(out, measured.map(Span::as_nanos))?;
        let late = u8::from(passage.late);
        write!(out, ",{stream},{late},{}", passage.resample.as_nanos())?;
        column(out, sender.map(|s| s.launched.as_nanos()))?;
        writeln!(out)
    }
}

/// What is unknown is empty.
fn column(out: &mut impl Write, nanos: Option<i64>) -> io::Result<()> {
    match nanos {
        Some(nanos) => write!(out, ",{nanos}"),
        None => write!(out, ","),
    }
}

/// A packet that was sent.
pub struct SentEntry {
    /// Media time, in 32 bits.
    pub rtp_timestamp: u32,
    /// When it was where.
    pub departure: Departure,
    /// Given to the driver by the kernel, if that was stamped.
    pub left: Option<LocalTime>,
    /// Whether the queue dropped it, since it was handed over too late for its launch.
    pub unlaunched: bool,
}

impl LedgerEntry for SentEntry {
    const HEAD: &'static str =
        "rtp_timestamp,capture,taken,packed,due,handed,launched,left,unlaunched";

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let Departure { capture, taken, packed, due, handed, launched, .. } = self.departure;
        write!(out, "{}", self.rtp_timestamp)?;
        for instant in [capture, taken, packed, due, handed, launched] {
            column(out, Some(instant.as_nanos()))?;
        }
        column(out, self.left.map(LocalTime::as_nanos))?;
        writeln!(out, ",{}", u8::from(self.unlaunched))
    }
}

/// The columns of joined ledgers: each stage, their sum, and what is no part of it.
const JOINED: &str = "rtp_timestamp,capture_ns,pack_ns,send_ns,launch_ns,wire_ns,wakeup_ns,buffer_ns,\
                      render_ns,resample_ns,device_ns,total_ns,measured_ns,lateness_ns,late";

/// Two ledgers as one.
#[derive(Debug)]
pub struct JoinedLedgers {
    /// CSV with its head.
    pub lines: Vec<String>,
    /// How many packets each had, in a sentence.
    pub counted: String,
}

/// Joins the ledgers of a sender and a receiver by RTP timestamps.
///
/// Each side's instants are on its own clock, so only lengths of time cross: the sender's stages from its ledger, the
/// receiver's from its own. The wire between them is known only where the receiver had mapped the sender's clock.
pub fn join(sent: &[SentPacket], heard: &[HeardPacket]) -> JoinedLedgers {
    let arrived: HashMap<u32, &HeardPacket> =
        heard.iter().map(|packet| (packet.timestamp, packet)).collect();
    let both = sent.iter().filter_map(|packet| Some((packet, *arrived.get(&packet.timestamp)?)));
    let joined = both.map(|(sent, heard)| joined_line(sent, heard));
    let lines: Vec<String> = core::iter::once(JOINED.to_owned()).chain(joined).collect();
    let late = heard.iter().filter(|packet| packet.late).count();
    let (played, lost) = (heard.len() - late, sent.len() + 1 - lines.len());
    let sent = sent.len();
    let counted = format!("{sent} packets sent, {played} played, {late} late, {lost} only sent");
    JoinedLedgers { lines, counted }
}

/// One packet's line: unknown stages are empty, and so is their sum.
fn joined_line(sent: &SentPacket, heard: &HeardPacket) -> String {
    let (here, there) = (sent.instants(), heard.instants());
    let stage = |at: usize| {
        let instants = if at < 4 { &here } else { &there };
        instants[at + 1]?.checked_sub(instants[at]?)
    };
    let [a, b, c, d, e, f, g, h, last] = core::array::from_fn(stage);
    let (resample, device) = (heard.resample, last.map(|all| all - heard.resample));
    let stages = [a, b, c, d, e, f, g, h, Some(resample), device];
    let total = stages.iter().copied().sum::<Option<i64>>();
    let lateness = sent.handed.checked_sub(sent.due);
    let beside = [total, heard.measured, lateness, Some(heard.late.into())];
    let cell = |cell: Option<i64>| cell.map_or(String::new(), |number| number.to_string());
    let cells = stages.into_iter().chain(beside).map(cell);
    core::iter::once(sent.timestamp.to_string()).chain(cells).collect::<Vec<_>>().join(",")
}
