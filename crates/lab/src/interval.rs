//! At which intervals packets go or come: of a stream by its sender's ledger, by what arrives at a
//! socket, or by a capture of a network; each beside the grid that its media clock lays, and with
//! what is missing in it.

mod capture;
mod figures;
mod flows;
mod headers;
mod ledger;
mod listen;
#[cfg(test)]
mod tests;

use std::io::Read;

use tautline_proto::units::Rate;

use crate::report::{HostDescription, LabReport, ReportRow};

use flows::Flows;

pub use listen::{IntervalListener, ListenOptions};

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
    let (flows, notes) = capture::read(file);
    report.notes = notes;
    tell(&mut report, flows, rate);
    if report.rows.is_empty() {
        let why = "no RTP was found in it; capture the interface that the stream goes by, such as \
                   tcpdump -i eth0 -w FILE udp";
        report.rows.push(ReportRow::void("capture", why));
    }
    report
}

/// Two rows for each stream.
fn tell(report: &mut LabReport, flows: Flows, rate: Rate) {
    let (flows, passed) = flows.streams();
    if passed > 0 {
        report.notes.push(format!("{passed} datagrams were of no RTP stream, by their numbers"));
    }
    if let Some(more) = flows.len().checked_sub(MOST_FLOWS).filter(|more| *more > 0) {
        report.notes.push(format!("{more} more streams, of fewer packets each, are left out"));
    }
    for flow in flows.iter().take(MOST_FLOWS) {
        report.rows.extend(figures::of_flow(flow, rate));
        report.notes.extend(figures::doubt(flow, rate));
    }
}
