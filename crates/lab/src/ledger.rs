//! Ledgers, as `--ledger` writes them: a line for each packet, with instants in nanoseconds of the writer's
//! monotonic clock. What is not known is empty.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io::{self, BufRead, Lines};

use tautline_proto::time::Span;

/// The stage that packets without a launch time do not have.
pub(crate) const LAUNCH: &str = "launch";

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
    /// Not what `--ledger` writes.
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
    pub late: bool,
}

impl HeardPacket {
    /// Whether it was there in time and was taken for playout.
    pub(crate) fn is_heard(&self) -> bool {
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
        })
    }

    fn instants(&self) -> LedgerInstants {
        let [a, b, c, d, e] = self.sender;
        let [f, g, h, i] = self.receiver;
        [a, b, c, d, e, Some(self.arrival), f, g, h, i]
    }
}

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
    pub fn packets<P: LedgerPacket>(mut self, most: usize) -> Result<ReadLedger<P>, LedgerError> {
        if let Some(column) = P::COLUMNS.iter().find(|name| !self.has(name)) {
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
pub(crate) fn packets<P: LedgerPacket>(text: &str) -> Vec<P> {
    let lines = LedgerLines::of(text.as_bytes()).map_err(LedgerError::from);
    lines.and_then(|lines| lines.packets(usize::MAX)).map_or(Vec::new(), |ledger| ledger.packets)
}

/// Stages that count are at least this part of the longest.
const COUNTS: u64 = 50;
/// Stages that are named of one packet.
const NAMED: usize = 3;

/// The stages that took the most of a packet's time in words, the longest first; what is little beside the
/// others is left out.
pub(crate) fn longest<'a>(stages: impl Iterator<Item = (&'a str, i64)>) -> Option<String> {
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
pub(crate) fn length(instants: &LedgerInstants, at: usize) -> Option<i64> {
    let length = instants[at + 1]?.checked_sub(instants[at]?)?;
    (STAGES[at] != LAUNCH || length != 0).then_some(length)
}

/// Each stage whose begin and end are known, and its length.
pub(crate) fn lengths(instants: &LedgerInstants) -> impl Iterator<Item = (&'static str, i64)> {
    STAGES.into_iter().enumerate().filter_map(|(at, name)| Some((name, length(instants, at)?)))
}
