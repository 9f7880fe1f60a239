//! Where the time of every packet goes: each stage of the ledger, of two hosts on one timeline.

use tautline_proto::device::Stop;

use crate::burden::BusyHost;
use crate::cases::Cases;
use crate::report::{LabReport, ReportRow};
use crate::streams::{LabStream, StreamEnds};

/// Fewer packets say little of the tails.
const MANY: u64 = 10_000;

pub const QUESTION: &str = "where does the time of every packet go?";

/// Runs one stream and takes it apart; with a load, while that keeps the receiver's host busy.
/// It ends sooner where somebody asks to stop, with what came until then.
pub fn run(
    ends: &mut StreamEnds,
    plan: &LabStream,
    load: Option<&BusyHost>,
    stop: &Stop,
    progress: &mut dyn FnMut(&str),
) -> LabReport {
    let mut few = None;
    let mut tell = |row: &ReportRow| {
        let count = row.measured.as_ref().map_or(0, |measured| measured.count);
        few = Some(count).filter(|count| row.void.is_none() && *count < MANY);
        !stop.is_requested()
    };
    let mut cases = Cases::of("stages", QUESTION, &mut tell);
    let name = format!("{} in packets of {}", plan.latency, plan.ptime);
    let name = BusyHost::named(load, name);
    cases.run(&name, ends, |ends| {
        let outcome =
            BusyHost::around_if(load, ends, plan, |ends| ends.run_watched(plan, progress))?;
        Ok(outcome.row(&name))
    });
    let mut report = cases.report(ends);
    report.notes.extend(few.map(|count| {
        format!("{count} packets were measured; {MANY} and more show the tails, which a longer --duration gives")
    }));
    report
}
