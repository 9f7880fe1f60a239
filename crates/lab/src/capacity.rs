//! How much of its period a host can hand to plugins on other machines: the paper's method (N. P. Lago and F. Kon,
//! *A Middleware System for Distributed Real-Time Multimedia Processing*, 2003, section 5), tightened.
//!
//! A thread is woken once a period, as a card wakes its own, or a JACK server calls its client, and hands a block to
//! each worker. The plugin there takes so long, and ever longer, until the first answer is missed; what lies between is
//! halved, and what went is held. The same plugin on this machine alone comes first, an idle exchange with the same
//! workers next, and a bare exchange of as many bytes last.

mod bare;
mod cycle;
mod figures;
mod found;
mod grid;
mod jack;
mod judge;
mod local;
mod machines;
mod master;
mod point;
mod published;
mod remote;
mod search;
#[cfg(test)]
mod tests;

use tautline_io::thread::Scheduler;
use tautline_io::thread::stall::StallWitness;
use tautline_proto::device::Stop;
use tautline_proto::time::Span;

use crate::kept::lock_memory;
use crate::report::{HostDescription, LabReport, ReportRow};

pub use bare::echo;
pub use cycle::CapacityWork;
pub use grid::{CapacityGrid, CapacityPoint};
pub use jack::{JackClient, JackMaster, JackPace, OpenJackClient};
pub use machines::{Machines, MachinesOptions, MachinesPlace};
pub use search::{CapacityFinding, CapacitySearch, CapacitySteps, CapacityTry};

pub const QUESTION: &str = "how much of a period can plugins on other machines use?";

/// How each point is measured.
#[derive(Debug, Clone, PartialEq)]
pub struct CapacityOptions {
    /// What is measured, a row each.
    pub points: Vec<CapacityPoint>,
    /// From one cost to the next, upwards.
    pub step: Span,
    /// What is found is known to within this.
    pub fine: Span,
    /// How long each cost is tried,
    pub attempt: Span,
    /// how often one that misses something,
    pub tries: u32,
    /// how long workers are idle first,
    pub idle: Span,
    /// and how long what went is held.
    pub hold: Span,
    /// So many blocks of all may be missed, beside those that a freeze of the host cost.
    pub allowed: f64,
    /// Of the master's thread.
    pub scheduler: Scheduler,
}

impl CapacityOptions {
    /// Values that are kept of a point's longest run.
    pub fn values(&self, point: &CapacityPoint) -> usize {
        let longest = self.hold.max(self.idle).max(self.attempt).as_nanos();
        let periods = longest / point.period_span().as_nanos().max(1);
        (periods.max(0) as usize).saturating_mul(2 * point.workers + 1)
    }
}

#[derive(Debug)]
pub struct CapacityMeasured {
    pub report: LabReport,
    /// Why nothing is known of workers, if they were asked for and every row of theirs is void.
    pub unanswered: Option<String>,
}

/// What is asked, without an answer yet.
pub fn empty() -> LabReport {
    LabReport::of("capacity", QUESTION)
}

/// Measures point after point, each after the plugin of its rate and period on this machine alone. A timer wakes the
/// master, or a JACK server.
pub fn measure(
    options: &CapacityOptions,
    (machines, jack): (&mut Machines, Option<&mut JackMaster>),
    stop: &Stop,
    tell: &mut dyn FnMut(&str),
) -> CapacityMeasured {
    let mut report = empty();
    report.notes.extend(lock_memory());
    let witness = StallWitness::start_dense();
    report.notes.extend(jack.as_ref().map(|jack| jack.note()));
    let mut measuring = point::CapacityMeasuring { options, stop, witness, jack };
    let (mut local, mut unmeasured) = (Vec::<CapacityPoint>::new(), Vec::<String>::new());
    let mut of_workers = Vec::<Option<String>>::new();
    for asked in &options.points {
        let here = asked.local();
        let first = (!local.contains(&here)).then_some(here);
        for point in first.into_iter().chain((asked.workers > 0).then_some(*asked)) {
            if stop.is_requested() {
                unmeasured.push(measuring.name(&point));
                continue;
            }
            let name = measuring.name(&point);
            tell(&name);
            let row = match point.workers {
                0 => measuring.here(&point),
                _ => measuring.offloaded(&point, machines),
            };
            if point.workers > 0 {
                of_workers.push(row.as_ref().err().cloned());
            }
            let mut row = row.unwrap_or_else(|why| ReportRow::void(name, why));
            if machines.are_on_loopback() {
                figures::leave_out_packets(&mut row);
            }
            report.rows.push(row);
        }
        local.push(here);
    }
    if !unmeasured.is_empty() {
        report.notes.push(format!("ended before these, as asked: {}", unmeasured.join("; ")));
    }
    let mut host = HostDescription::here("here");
    measuring.witness.poll();
    host.stalls = Some(measuring.witness.log().total());
    report.hosts.push(host);
    report.notes.extend(figures::notes(options, machines));
    if let Some(refused) = measuring.witness.trust().refused {
        report.notes.push(format!("stalls may be other programs': the witness runs as {refused}"));
    }
    CapacityMeasured { report, unanswered: unanswered(of_workers) }
}

/// What the plugin can do on this machine alone answers nothing: of workers, one row at least is to be known. Why none
/// is, by the first of them.
fn unanswered(of_workers: Vec<Option<String>>) -> Option<String> {
    of_workers.into_iter().collect::<Option<Vec<_>>>()?.into_iter().next()
}
