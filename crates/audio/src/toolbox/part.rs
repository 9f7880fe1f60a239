//! Parts of a shared device. A part's thread lends its process to the real device's thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tautline_proto::clock::ClockId;
use tautline_proto::device::{Cycle, Direction, Ended, Flow, Process, Settings, Side, Stop};
use tautline_proto::time::{Frames, LocalTime, Span};

use super::callback::{HeldProcess, Seat};

/// Polling interval for the end, because waking the thread would be a system call.
const LOOK: Duration = Duration::from_millis(10);

#[derive(Default)]
pub(crate) struct PartSeat {
    pub(crate) seat: Seat,
    finished: AtomicBool,
}

impl PartSeat {
    /// Lends `process` until it finishes, or until `stop` or `over`.
    pub(crate) fn lend(
        &self,
        process: Box<dyn Process>,
        stop: &Stop,
        over: &AtomicBool,
    ) -> (Box<dyn Process>, Ended) {
        self.finished.store(false, Ordering::Relaxed);
        self.seat.give(process);
        let ended = loop {
            if stop.is_requested() {
                break Ended::Stopped;
            }
            if self.finished.load(Ordering::Acquire) || over.load(Ordering::Acquire) {
                break Ended::Finished;
            }
            thread::park_timeout(LOOK);
        };
        (self.seat.take().unwrap_or_else(|| Box::new(NoProcess)), ended)
    }

    /// Borrows the process for a block, unless it finished. `seated` stores whether it was here.
    /// Real-time safe.
    pub(crate) fn hold(&self, seated: &mut bool) -> Option<HeldPart<'_>> {
        let finished = self.finished.load(Ordering::Relaxed);
        let held = if finished { None } else { self.seat.hold() };
        let before = core::mem::replace(seated, held.is_some());
        held.map(|held| HeldPart { held, is_first: !before, finished: &self.finished })
    }
}

pub(crate) struct HeldPart<'a> {
    held: HeldProcess<'a>,
    is_first: bool,
    finished: &'a AtomicBool,
}

impl HeldPart<'_> {
    pub(crate) fn call(mut self, times: PieceTimes, direction: Direction, samples: &mut [f32]) {
        let times = if self.is_first { times.at_first() } else { times };
        let Some(process) = self.held.process() else { return };
        // Set while held: later, the part may have another user.
        if times.call(process, direction, samples) == Flow::Finished {
            self.finished.store(true, Ordering::Release);
        }
    }
}

struct NoProcess;

impl Process for NoProcess {
    fn process(&mut self, _: &mut Cycle<'_>) -> Flow {
        Flow::Finished
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct PieceTimes {
    pub(crate) now: LocalTime,
    pub(crate) meets: LocalTime,
    pub(crate) uncertainty: Span,
    pub(crate) skipped: Frames,
    pub(crate) xruns: u32,
    pub(crate) clock: Option<ClockId>,
}

impl PieceTimes {
    pub(crate) fn of(cycle: &Cycle<'_>, side: &Side<'_>) -> Self {
        let Cycle { now, xruns, clock, .. } = *cycle;
        let Side { meets, uncertainty, skipped, .. } = *side;
        Self { now, meets, uncertainty, skipped, xruns, clock }
    }

    /// Calls `each` with pieces of at most a period of the device.
    pub(crate) fn in_periods(
        mut self,
        settings: Settings,
        samples: &mut [f32],
        mut each: impl FnMut(&mut [f32], Self),
    ) {
        let Settings { rate, channels, period, .. } = settings;
        for piece in samples.chunks_mut(channels.samples_in(period).max(1)) {
            let length = rate.span_of(channels.frames_in(piece.len()));
            each(piece, self);
            self = self.after(length);
        }
    }

    pub(crate) fn after(self, length: Span) -> Self {
        Self { meets: self.meets + length, skipped: Frames::ZERO, xruns: 0, ..self }
    }

    const fn at_first(self) -> Self {
        Self { skipped: Frames::ZERO, xruns: 0, ..self }
    }

    fn call(self, process: &mut dyn Process, direction: Direction, samples: &mut [f32]) -> Flow {
        let Self { now, meets, uncertainty, skipped, xruns, clock } = self;
        let side = Side { samples, meets, uncertainty, skipped };
        process.process(&mut Cycle::one_way(direction, now, side, xruns).by(clock))
    }
}
