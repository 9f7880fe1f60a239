//! Records call times and plays silence.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rtrb::{Consumer, Producer};
use tautline_io::clock::now;
use tautline_io::thread::memory;
use tautline_proto::device::{Cycle, Direction, Flow, Process, Settings, Side};
use tautline_proto::time::{Frames, LocalTime, Span};

#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    pub(super) at: LocalTime,
    pub(super) xruns: u32,
    pub(super) capture: HandedBlock,
    pub(super) playback: HandedBlock,
}

/// Block of one direction; zero if the device lacks it.
#[derive(Debug, Clone, Copy)]
pub(super) struct HandedBlock {
    pub(super) meets: LocalTime,
    pub(super) uncertainty: Span,
    pub(super) frames: Frames,
    pub(super) skipped: Frames,
}

impl Call {
    pub(super) const fn block(&self, direction: Direction) -> &HandedBlock {
        match direction {
            Direction::Capture => &self.capture,
            Direction::Playback => &self.playback,
        }
    }
}

impl HandedBlock {
    fn of(side: &Side<'_>, channels: usize) -> Self {
        Self {
            meets: side.meets,
            uncertainty: side.uncertainty,
            frames: Frames::from_len(side.samples.len() / channels.max(1)),
            skipped: side.skipped,
        }
    }
}

/// In preallocated memory.
pub(super) struct HandoverClient {
    channels: usize,
    calls: Producer<Call>,
    overflowed: Arc<AtomicU64>,
}

pub(super) struct Calls {
    calls: Consumer<Call>,
    overflowed: Arc<AtomicU64>,
}

pub(super) fn clerk(settings: &Settings, room: usize) -> (HandoverClient, Calls) {
    let (producer, calls) = memory::ring(room);
    let overflowed = Arc::<AtomicU64>::default();
    let clerk = HandoverClient {
        channels: settings.channels.count(),
        calls: producer,
        overflowed: Arc::clone(&overflowed),
    };
    (clerk, Calls { calls, overflowed })
}

impl Process for HandoverClient {
    fn process(&mut self, cycle: &mut Cycle<'_>) -> Flow {
        let call = Call {
            at: now(),
            xruns: cycle.xruns,
            capture: HandedBlock::of(&cycle.capture, self.channels),
            playback: HandedBlock::of(&cycle.playback, self.channels),
        };
        if self.calls.push(call).is_err() {
            self.overflowed.fetch_add(1, Ordering::Relaxed);
        }
        cycle.playback.samples.fill(0.0);
        Flow::Continue
    }
}

impl Calls {
    pub(super) fn take(mut self) -> (Vec<Call>, u64) {
        let mut calls = Vec::with_capacity(self.calls.slots());
        while let Ok(call) = self.calls.pop() {
            calls.push(call);
        }
        (calls, self.overflowed.load(Ordering::Relaxed))
    }
}
