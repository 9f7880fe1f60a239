//! Is what was measured what was configured, from comfortable latencies down to what no other reaches?
//!
//! The ten tests of table 2.1 of the thesis of 2020 on a networked audio pipeline, and more below them. Its
//! jitter-buffer column is no option here: what of the link offset is not taken by blocks and devices is
//! left to the network, and told as that.

mod rungs;

use tautline_proto::time::Span;

use crate::burden::{BusyHost, Noise};
use crate::cases::Cases;
use crate::report::{LabReport, ReportRow};
use crate::streams::{LabStream, StreamEnds};
pub use rungs::{RUNGS, Rung};

pub const QUESTION: &str = "is what was configured what was measured?";

/// A rung, and what else the network carries meanwhile.
pub type LadderStep = (Rung, Noise);

/// Each rung in each noise, rung by rung.
pub fn steps(rungs: &[Rung], noises: &[Noise]) -> Vec<LadderStep> {
    rungs.iter().flat_map(|rung| noises.iter().map(|noise| (*rung, *noise))).collect()
}

/// Runs each step over these ends, with a load while that keeps the receiver's host busy, and tells each as
/// it is done; `false` ends it.
pub fn run(
    ends: &mut StreamEnds,
    plan: &LabStream,
    steps: &[LadderStep],
    load: Option<&BusyHost>,
    mut tell: impl FnMut(&ReportRow) -> bool,
) -> LabReport {
    let mut cases = Cases::of("ladder", QUESTION, &mut tell);
    for (rung, noise) in steps {
        let name = match *noise {
            Noise::SILENT => rung.to_string(),
            noise => format!("{rung}, {noise}"),
        };
        let name = BusyHost::named(load, name);
        cases.run(&name, ends, |ends| {
            let plan = rung.plan(plan);
            let (outcome, beside) =
                BusyHost::around_if(load, ends, &plan, |ends| noise.around(ends, &plan))?;
            let mut row = judged(outcome.row(&name), rung, plan.rate);
            // Theirs was loaded by the network alone.
            row.published = load.map_or_else(|| rung.published(*noise), |_| Vec::new());
            beside.tell(&mut row);
            Ok(row)
        });
    }
    let mut report = cases.report(ends);
    report.notes.push(REST.to_owned());
    report
}

/// What the columns mean that are judged.
const REST: &str = "measured less configured is within a frame if it is no more than a frame and what the median is \
                    unsure by, early or late";

/// With what was configured, and whether it is within a frame.
fn judged(mut row: ReportRow, rung: &Rung, rate: u32) -> ReportRow {
    row.add("period_ns", "period", rung.period.as_nanos());
    row.add("ptime_ns", "ptime", rung.ptime.as_nanos());
    row.add("left_for_network_ns", "for the network", rung.left_for_network().as_nanos());
    tell_rest(&mut row, rate);
    row
}

/// What was measured beyond what was configured, and whether that is within a frame and the uncertainty.
pub(crate) fn tell_rest(row: &mut ReportRow, rate: u32) {
    let middle = row.measured.as_ref().and_then(|measured| measured.p50_ns);
    if let (Some(middle), Some(configured)) = (middle, row.configured) {
        let rest = middle - configured.as_nanos();
        let frame = 1_000_000_000 / i64::from(rate.max(1));
        let most = frame + row.uncertainty.map_or(0, Span::as_nanos);
        row.add("rest_ns", "measured less configured", rest);
        row.add("within_a_frame", "within a frame", rest.abs() <= most);
    }
}
