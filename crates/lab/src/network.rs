//! What else the network carries, and what that does to a stream: silent, multicast that nobody handles,
//! small packets that a program reads, bulk TCP, all at once; what the interfaces carried meanwhile, of
//! which protocols, and how much of it was sound. Before that, or of a capture: the traffic without a stream.
//!
//! Sections 3.1.1 and 3.2.1 of the thesis of 2020, with its tables 3.1 and 3.2 and figure 3.1.

mod ambient;
mod found;
mod mix;
mod parts;
mod rows;

use std::time::Duration;

use crate::burden::{Beside, BusyHost, Noise};
use crate::cases::Cases;
use crate::hosts::{HostError, LabHost};
use crate::report::{LabReport, ReportRow};
use crate::streams::{LabStream, StreamEnds, StreamOutcome};
use crate::traffic::WatchedTraffic;
pub use ambient::of_capture;
pub use parts::{NetworkPart, PARTS};

pub const QUESTION: &str = "what does the rest of the network do to a stream, and what does a stream \
                            cost the network?";

/// A stream, what was beside it, and what the interfaces of both ends carried.
struct SeenTraffic {
    outcome: StreamOutcome,
    beside: Beside,
    /// Of the sender's machine and of the receiver's.
    watched: [WatchedTraffic; 2],
}

/// Runs each part over these ends, with a load while that keeps the receiver's host busy, and tells each row
/// of a stream as it is done; `false` ends it.
pub fn run(
    ends: &mut StreamEnds,
    plan: &LabStream,
    parts: &[NetworkPart],
    load: Option<&BusyHost>,
    mut tell: impl FnMut(&ReportRow) -> bool,
) -> LabReport {
    let mut cases = Cases::of("network", QUESTION, &mut tell);
    if parts.iter().any(|part| *part != NetworkPart::Ambient) {
        NOTES.iter().for_each(|note| cases.note(*note));
    }
    let [mut carried, mut mixed, mut layers, mut sizes] = [const { Vec::new() }; 4];
    let mut more_ambient = Vec::new();
    let mut notes = Vec::new();
    for part in parts {
        let streams: Vec<_> = match part {
            NetworkPart::Ambient => {
                cases.run(ambient::NAME, ends, |ends| {
                    let mut rows = Vec::new();
                    for (place, traffic) in ambient::watch(ends, plan.duration)? {
                        rows.extend(ambient::rows(place, &traffic));
                        notes.extend(ambient::notes(place, &traffic));
                    }
                    let first = rows.remove(0);
                    more_ambient.extend(rows);
                    Ok(first)
                });
                continue;
            }
            NetworkPart::Beside(noise) => vec![(*noise, None, plan.clone())],
            NetworkPart::Overhead => {
                let all = parts::PACKETS.iter();
                all.map(|packets| (Noise::SILENT, Some(packets), packets.plan(plan))).collect()
            }
        };
        for (noise, packets, plan) in streams {
            let name = match packets {
                Some(packets) => format!("packets of {}", packets.ptime),
                None => noise.to_string(),
            };
            let name = BusyHost::named(load, name);
            cases.run(&name, ends, |ends| {
                let seen = BusyHost::around_if(load, ends, &plan, |ends| seen(ends, &plan, noise))?;
                let mut row = seen.outcome.row(&name);
                seen.beside.tell(&mut row);
                notes.extend(mix::notes(&name, &seen, one_machine(ends)));
                let stamped = !plan.send.iter().any(|word| word == "--no-stamps");
                match packets {
                    Some(packets) => sizes.push(rows::overhead(&name, &seen, packets, stamped)),
                    None => {
                        if noise == Noise::SILENT {
                            rows::control(&mut row, &seen, stamped);
                        }
                        carried.extend(rows::carried(&name, &seen, noise, one_machine(ends)));
                        mixed.extend(rows::mixed(&name, &seen, one_machine(ends)));
                        layers.extend(rows::layers(&name, &seen, one_machine(ends)));
                    }
                }
                Ok(row)
            });
        }
    }
    let mut report = cases.report(ends);
    // Rows of one kind are one table.
    if let Some(first) = report.rows.iter().position(|row| row.name.starts_with(ambient::NAME)) {
        report.rows.splice(first + 1..first + 1, more_ambient);
    }
    for rows in [carried, mixed, layers, sizes] {
        report.rows.extend(rows);
    }
    let found = found::sentences(&report.rows);
    // What is alike in all cases is said once.
    for note in notes {
        if !report.notes.contains(&note) {
            report.notes.push(note);
        }
    }
    report.notes.extend(found);
    report
}

/// What a reader should know.
const NOTES: [&str; 2] = [
    "interfaces are counted by the kernel, with all that other programs send by them; packets that it hands \
     over together, such as segments of TCP, are one packet of the interface, and one each of the mix",
    "the thesis's noise came to both machines from elsewhere; here the sender's makes it, so that it goes out \
     there and comes in at the receiver's",
];

fn one_machine(ends: &StreamEnds) -> bool {
    ends.sender.place() == ends.receiver.place()
}

/// Runs a stream while both ends' interfaces are watched.
fn seen(ends: &mut StreamEnds, plan: &LabStream, noise: Noise) -> Result<SeenTraffic, HostError> {
    let (address, _) = ends.reached(plan.at, 1)?;
    // The stream goes there, and nowhere else.
    let plan = &LabStream { at: Some(address), ..plan.clone() };
    let words = |end: &str| ["lab", "traffic", end, &address.to_string()].map(str::to_owned);
    let at_sender = ends.sender.start(&words("--to"), &[])?;
    let at_receiver = match ends.receiver.start(&words("--at"), &[]) {
        Ok(child) => child,
        Err(error) => {
            ends.sender.interrupt(at_sender)?;
            return Err(error);
        }
    };
    let came = noise.around(ends, plan);
    // Whatever came of it: neither is left running.
    let watched = [watched(&mut ends.sender, at_sender), watched(&mut ends.receiver, at_receiver)];
    let (outcome, beside) = came?;
    let [sender, receiver] = watched;
    Ok(SeenTraffic { outcome, beside, watched: [sender?, receiver?] })
}

/// A report is written within.
const WRITING: Duration = Duration::from_secs(10);

fn watched(host: &mut LabHost, child: u32) -> Result<WatchedTraffic, HostError> {
    host.said_by(child, "lab traffic", WRITING)
}
