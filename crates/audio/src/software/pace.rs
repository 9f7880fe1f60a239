use tautline_proto::clock::{ClockId, HostClock};
use tautline_proto::time::LocalTime;

pub trait Pace: Send {
    /// Wait-free.
    fn now(&mut self) -> LocalTime;

    fn sleep_until(&mut self, due: LocalTime);

    /// Clock identity, if known. For ordinary threads.
    fn clock(&self) -> Option<ClockId> {
        None
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub struct HostPace;

impl Pace for HostPace {
    fn now(&mut self) -> LocalTime {
        tautline_io::clock::now()
    }

    fn sleep_until(&mut self, due: LocalTime) {
        tautline_io::clock::sleep_until(due);
    }

    fn clock(&self) -> Option<ClockId> {
        tautline_io::clock::host_clock().map(HostClock::id)
    }
}
