//! What a master has work in each period, and how the time of a block passes there.

use tautline_io::clock::{now, sleep_until};
use tautline_io::thread::realtime;
use tautline_proto::time::{LocalTime, Span};

use super::master::{MasterLog, PeriodCycle};

/// What has plugins work, at a cost that may be set.
pub(super) trait CapacityCycle: PeriodCycle {
    /// Begins anew: from now on each block costs so much.
    fn begin(&mut self, passing: Passing);
}

impl PeriodCycle for Box<dyn CapacityCycle> {
    fn blocks(&self) -> usize {
        (**self).blocks()
    }

    fn run(&mut self, due: LocalTime, log: &mut MasterLog) {
        (**self).run(due, log);
    }
}

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
            let _permit = realtime::permit("a plugin's own time, which passes by a timer here");
            return sleep_until(until);
        }
        while now() < until {
            core::hint::spin_loop();
        }
    }
}

/// How the cost of a block comes about; it is the greatest that a block has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum CapacityWork {
    /// Every block takes as long
    Fixed,
    // From half of it upwards, by chance.
    /// A block takes up to twice as long as another
    Random,
    // Half of it, and all of it once in a hundred blocks.
    /// Once in a while a block takes twice as long
    Burst,
    /// Every block takes as long, on memory that no cache holds
    Cache,
}
