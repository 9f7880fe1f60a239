//! The same plugin in the host's own call: what a machine alone can do, beside which workers are held.

use tautline_proto::time::{LocalTime, Span};

use super::cycle::{CapacityCycle, Passing};
use super::master::{MasterLog, PeriodCycle};

#[derive(Debug)]
pub(super) struct LocalCycle(pub(super) Passing);

impl PeriodCycle for LocalCycle {
    fn blocks(&self) -> usize {
        1
    }

    fn run(&mut self, due: LocalTime, log: &mut MasterLog) {
        self.0.pass();
        log.slack.push(due, Span::ZERO);
    }
}

impl CapacityCycle for LocalCycle {
    fn begin(&mut self, passing: Passing) {
        self.0 = passing;
    }
}
