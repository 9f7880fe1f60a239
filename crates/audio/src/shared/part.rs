//! The device of one user.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::Duration;

use tautline_proto::clock::ClockId;
use tautline_proto::device::{
    Cycle, Device, Direction, Ended, Flow, Process, Settings, Stop, Word,
};

use super::{PartSeat, SharedState};

/// How often whoever runs a part looks whether it is to end. The device's thread wakes nobody: that is a system call.
const LOOK: Duration = Duration::from_millis(10);

/// A part that somebody has: it is free once the devices of both directions are dropped.
pub(super) struct PartTaken {
    pub(super) state: Arc<SharedState>,
    pub(super) index: usize,
}

impl Drop for PartTaken {
    fn drop(&mut self) {
        self.state.free.lock().unwrap_or_else(PoisonError::into_inner).push(self.index);
    }
}

/// One direction of a part.
pub(super) struct PartDevice {
    taken: Arc<PartTaken>,
    direction: Direction,
}

impl PartDevice {
    pub(super) const fn new(taken: Arc<PartTaken>, direction: Direction) -> Self {
        Self { taken, direction }
    }

    fn seat(&self) -> Option<&PartSeat> {
        let seats = self.taken.state.seats.get(self.taken.index)?;
        Some(seats.of(self.direction))
    }
}

/// In the place of a process that was never there.
struct NoProcess;

impl Process for NoProcess {
    fn process(&mut self, _: &mut Cycle<'_>) -> Flow {
        Flow::Finished
    }
}

impl Device for PartDevice {
    fn settings(&self) -> Settings {
        *self.taken.state.settings.of(self.direction)
    }

    fn clock(&self) -> Option<ClockId> {
        *self.taken.state.clocks.of(self.direction)
    }

    fn word(&self) -> Word {
        *self.taken.state.words.of(self.direction)
    }

    fn run(&mut self, process: Box<dyn Process>, stop: &Stop) -> (Box<dyn Process>, Ended) {
        let Some(seat) = self.seat() else { return (process, Ended::Finished) };
        let over = self.taken.state.over.of(self.direction);
        seat.finished.store(false, Ordering::Relaxed);
        seat.seat.give(process);
        let ended = loop {
            if stop.is_requested() {
                break Ended::Stopped;
            }
            if seat.finished.load(Ordering::Acquire) || over.load(Ordering::Acquire) {
                break Ended::Finished;
            }
            thread::park_timeout(LOOK);
        };
        (seat.seat.take().unwrap_or_else(|| Box::new(NoProcess)), ended)
    }
}
