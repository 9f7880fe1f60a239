//! Code around a device's process: recording, echo cancellation, fading.

use tautline_io::thread::realtime;
use tautline_proto::clock::ClockId;
use tautline_proto::device::{
    Cycle, Device, Ended, Flow, Process, ReplacedTime, Settings, Stop, TimestampSource,
};
use tautline_proto::time::LocalTime;

/// Real-time safe, and not inlined: scripts/check-realtime finds it by name.
pub(crate) trait DeviceTap: Send {
    fn before(&mut self, _cycle: &mut Cycle<'_>) {}

    fn after(&mut self, _cycle: &mut Cycle<'_>) {}

    fn ends(&self, _now: LocalTime) -> bool {
        false
    }
}

pub(crate) struct TappedDevice<T> {
    device: Box<dyn Device>,
    tap: Option<T>,
}

impl<T> TappedDevice<T> {
    pub(crate) fn new(device: Box<dyn Device>, tap: T) -> Self {
        Self { device, tap: Some(tap) }
    }
}

impl<T: DeviceTap + 'static> Device for TappedDevice<T> {
    fn settings(&self) -> Settings {
        self.device.settings()
    }

    fn clock(&self) -> Option<ClockId> {
        self.device.clock()
    }

    fn timestamp_source(&self) -> TimestampSource {
        self.device.timestamp_source()
    }

    fn replaced(&self) -> ReplacedTime {
        self.device.replaced()
    }

    fn run(&mut self, process: Box<dyn Process>, stop: &Stop) -> (Box<dyn Process>, Ended) {
        match self.tap.take() {
            Some(tap) => self.device.run(Box::new(TappedProcess { process, tap }), stop),
            None => self.device.run(process, stop),
        }
    }
}

struct TappedProcess<T> {
    process: Box<dyn Process>,
    tap: T,
}

impl<T: DeviceTap> Process for TappedProcess<T> {
    fn process(&mut self, cycle: &mut Cycle<'_>) -> Flow {
        let _realtime = realtime::scope();
        self.tap.before(cycle);
        let flow = self.process.process(cycle);
        self.tap.after(cycle);
        if self.tap.ends(cycle.now) { Flow::Finished } else { flow }
    }

    fn finish(&mut self) {
        self.process.finish();
    }
}
