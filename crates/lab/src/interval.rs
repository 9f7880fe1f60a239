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
use flows::{Flows, LEAST, SortedFlows};

pub use bare::{BareDepartures, BareLoop};
pub use listen::{IntervalListener, ListenOptions};
pub use rungs::climb;

/// Streams that are told of, those of the most packets.
const MOST_FLOWS: usize = 32;

fn report() -> LabReport {
    let mut report = LabReport::of("interval", QUESTION);
    report.hosts.push(HostDescription::here("here"));
    report
}

/// What is asked.
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

/// By a capture, pcap or pcapng: of every RTP stream in it. What is no RTP is passed over.
pub fn of_capture(file: impl Read + Send, rate: Rate) -> LabReport {
    let mut report = report();
    let ReadCapture { flows, ended, notes } = capture::read(file);
    report.notes = notes;
    let few = tell(&mut report, flows, rate);
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
        0 => "no RTP was found in it; capture the interface that the stream goes by, such as \
              tcpdump -i eth0 -w FILE udp"
            .to_owned(),
        few => format!(
            "too few packets to tell RTP by: {few} look like it, and it takes {LEAST} of one sender; \
             capture for longer"
        ),
    }
}

/// Two rows for each stream; how many datagrams may have been RTP, and were too few of one sender to tell.
fn tell(report: &mut LabReport, flows: Flows, rate: Rate) -> usize {
    let SortedFlows { streams: flows, strange, few } = flows.streams();
    if strange > 0 {
        report.notes.push(format!("{strange} datagrams were of no RTP stream, by their numbers"));
    }
    if few > 0 && !flows.is_empty() {
        let told =
            format!("{few} datagrams that look like RTP were fewer than {LEAST} of one sender");
        report.notes.push(told);
    }
    if let Some(more) = flows.len().checked_sub(MOST_FLOWS).filter(|more| *more > 0) {
        report.notes.push(format!("{more} more streams, of fewer packets each, are left out"));
    }
    for flow in flows.iter().take(MOST_FLOWS) {
        report.rows.extend(figures::of_flow(flow, rate));
        report.notes.extend(figures::doubt(flow, rate));
    }
    few
}
