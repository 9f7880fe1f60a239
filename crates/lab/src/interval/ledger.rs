//! A sender's ledger as packets on a grid.

use tautline_proto::time::LocalTime;
use tautline_proto::wrap::{Unwrapper, Wrapped};
use tautline_report::ledger::{HeardPacket, LedgerError, LedgerLines, LedgerPacket, SentPacket};

use super::flows::{Numbered, instant};

/// What of a packet's line counts here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LedgerLine {
    /// With the instant of its hand-over to the kernel.
    pub(super) packet: Numbered,
    /// When it was to be handed over.
    pub(super) due: LocalTime,
}

/// The lines in the order of their hand-overs, or why there are none.
pub(super) fn read(text: &str) -> Result<Vec<LedgerLine>, String> {
    let mended =
        |error: LedgerError| format!("{error}; give what taut send --ledger FILE.csv writes");
    let lines = LedgerLines::of(text.as_bytes()).map_err(|error| mended(error.into()))?;
    let knows = |columns: &[&str]| columns.iter().all(|name| lines.has(name));
    if knows(HeardPacket::COLUMNS) && !knows(SentPacket::COLUMNS) {
        return Err("it is a receiver's ledger; give the sender's, which taut send --ledger \
                    FILE.csv writes, or listen where the stream arrives (--listen)"
            .to_owned());
    }
    let ledger = lines.packets::<SentPacket>(usize::MAX).map_err(mended)?;
    let torn = |line| format!("line {line} is no packet's; give it as taut send --ledger wrote it");
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
        return Err("it has fewer than two packets; let taut send run longer".to_owned());
    }
    Ok(read)
}
