//! `taut join`: joins the ledgers of sender and receiver by RTP timestamp.

use std::path::Path;

use tautline_report::ledger::{LedgerError, LedgerLines, LedgerPacket, join};

use crate::failure::Failure;
use crate::flags::Join;
use crate::screen;

pub(crate) fn run(flags: &Join) -> Result<(), Failure> {
    let columns = ["rtp_timestamp", "capture", "taken", "packed", "handed", "due"];
    let sent = read(&flags.sender, &columns)?;
    let columns =
        ["rtp_timestamp", "handed", "arrival", "read", "taken", "written", "dac", "measured_ns"];
    let received = read(&flags.receiver, &columns)?;
    let joined = join(&sent, &received);
    if joined.matched == 0 && !(sent.is_empty() || received.is_empty()) {
        return Err(Failure::usage(format!(
            "no packet is in both {} and {}\nhint: name two packet logs of the same run",
            flags.sender.display(),
            flags.receiver.display()
        )));
    }
    joined.lines.iter().for_each(|line| screen::emit(line));
    screen::notify(&joined.counted);
    Ok(())
}

fn read<P: LedgerPacket>(path: &Path, columns: &[&'static str]) -> Result<Vec<P>, Failure> {
    let name = path.display();
    let failed = |error| Failure::open(format!("reading {name}: {error}\nhint: check the path"));
    let text = std::fs::read_to_string(path).map_err(failed)?;
    let lines = LedgerLines::of(text.as_bytes()).map_err(failed)?;
    match lines.packets_with(columns, usize::MAX) {
        Ok(read) => Ok(read.packets),
        Err(LedgerError::System(error)) => Err(failed(error)),
        Err(LedgerError::NoColumn(lacks)) => Err(Failure::usage(format!(
            "{name} has no column {lacks}\nhint: name the sender's packet log first, then the receiver's, both \
             written with --packet-log"
        ))),
    }
}
