//! The same plugin in the host's own call: what a machine alone can do, beside which workers are held.

use tautline_io::clock::{now, sleep_until};
use tautline_proto::time::{LocalTime, Span};

use super::master::{MasterLog, PeriodCycle};
use super::point::CapacityCycle;

/// How a plugin's time passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Passing {
    /// From the beginning of a block.
    pub(super) cost: Span,
    /// By work, and not by a timer.
    pub(super) real: bool,
}

impl Passing {
    /// Returns when the time is over.
    pub(super) fn pass(self) {
        let until = now() + self.cost;
        if !self.real {
            return sleep_until(until);
        }
        while now() < until {
            core::hint::spin_loop();
        }
    }
}

/// One plugin, here.
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
