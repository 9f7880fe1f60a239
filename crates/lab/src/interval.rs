//! At which intervals packets go or come: of a stream by its sender's ledger, by what arrives at a
//! socket, or by a capture of a network; each beside the grid that its media clock lays, and with
//! what is missing in it.

mod bare;
mod beside;
mod capture;
mod delivered;
mod figures;
mod flows;
mod headers;
mod ledger;
mod listen;
mod rungs;
mod stamps;
#[cfg(test)]
mod tests;

use std::io::Read;

use tautline_proto::units::Rate;

use crate::report::{HostDescription, LabReport, ReportRow};

use capture::ReadCapture;
use flows::{LEAST, SortedFlows};

pub use bare::{BareDepartures, BareLoop};
pub use listen::{IntervalListener, ListenOptions, ListenPlace};
pub use rungs::climb;

/// Streams that are told of, those of the most packets.
const MOST_FLOWS: usize = 32;

fn report() -> LabReport {
    let mut report = LabReport::of("interval", QUESTION);
    report.hosts.push(HostDescription::here("here"));
    report
}

pub const QUESTION: &str = "at which intervals do packets go or come?";

/// By the ledger of a sender, as `taut send --ledger` writes it: intervals between hand-overs to the
/// kernel.
pub fn of_ledger(text: &str, rate: Rate) -> LabReport {
    let mut report = report();
    match ledger::read(text) {
        Ok(ledger) => report.rows = figures::of_ledger(&ledger, rate),
        Err(why) => report.rows.push(ReportRow::void("ledger", why)),
    }
    report
}

/// By a capture, pcap or pcapng: every stream of RTP and AVTP in it. Timestamps of RTP count frames at `rate`.
pub fn of_capture(file: impl Read + Send, rate: Rate) -> LabReport {
    let mut report = report();
    let ReadCapture { flows, ended, notes } = capture::read(file);
    report.notes = notes;
    let few = tell(&mut report, flows.streams(rate));
    match (report.rows.is_empty(), ended) {
        (false, ended) => report.notes.splice(0..0, ended).for_each(drop),
        (true, Some(why)) => report.rows.push(ReportRow::void("capture", why)),
        (true, None) => report.rows.push(ReportRow::void("capture", nothing(few))),
    }
    report
}

/// Why a capture that was read to its end has no stream.
fn nothing(few: usize) -> String {
    match few {
        0 => "it has no RTP and no AVTP; capture the interface that carries the stream, such as \
              tcpdump -i eth0 -w FILE 'udp or ether proto 0x22f0'"
            .to_owned(),
        few => format!(
            "too few packets: {few} look like RTP or AVTP, and a stream needs {LEAST}; capture for \
             longer"
        ),
    }
}

/// Two rows for each stream; how many datagrams may have been RTP, and were too few of one sender to tell.
fn tell(report: &mut LabReport, sorted: SortedFlows) -> usize {
    let SortedFlows { streams: flows, strange, few } = sorted;
    if strange > 0 {
        report.notes.push(format!(
            "{strange} datagrams belong to no stream: their sequence numbers do not count up"
        ));
    }
    if few > 0 && !flows.is_empty() {
        report.notes.push(format!(
            "{few} packets that look like RTP or AVTP are left out: fewer than {LEAST} per stream"
        ));
    }
    if let Some(more) = flows.len().checked_sub(MOST_FLOWS).filter(|more| *more > 0) {
        report.notes.push(format!("{more} more streams, of fewer packets each, are left out"));
    }
    for flow in flows.iter().take(MOST_FLOWS) {
        report.rows.extend(figures::of_flow(flow));
        report.notes.extend(figures::doubt(flow));
    }
    few
}
