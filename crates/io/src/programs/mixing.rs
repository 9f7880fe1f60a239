//! The device's end of all attached programs.

use core::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::Arc;

use rtrb::{Consumer, Producer};
use tautline_dsp::sum::{add, bound};
use tautline_proto::card_clock::Turn;
use tautline_proto::device::{Direction, Settings};
use tautline_proto::time::{LocalTime, MediaTime};

use super::buffer::{DeviceProgress, ProgramBuffer};
use super::ends::{Feeder, Giver};
use crate::thread::halt::EventDescriptor;
use crate::thread::memory::push_within;

/// Maximum programs per direction of a device.
pub const MAX_PROGRAMS: usize = 16;

pub(super) enum ProgramEnd {
    Plays(Feeder),
    Records(Giver),
}

pub(super) struct AttachedProgram {
    pub(super) number: usize,
    end: ProgramEnd,
    buffer: Arc<ProgramBuffer>,
    event: EventDescriptor,
    gone: Arc<AtomicBool>,
    woken: Option<(u64, MediaTime)>,
}

impl AttachedProgram {
    pub(super) fn new(
        number: usize,
        direction: Direction,
        buffer: Arc<ProgramBuffer>,
        (event, gone): (EventDescriptor, Arc<AtomicBool>),
    ) -> Self {
        let end = match direction {
            Direction::Playback => ProgramEnd::Plays(Feeder::new(Arc::clone(&buffer))),
            Direction::Capture => ProgramEnd::Records(Giver::new(Arc::clone(&buffer))),
        };
        Self { number, end, buffer, event, gone, woken: None }
    }

    pub(super) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    fn begin(&mut self, start: LocalTime) {
        self.buffer.set_start(start);
        if let ProgramEnd::Plays(feeder) = &mut self.end {
            feeder.restart();
        }
    }

    fn wake(&mut self) {
        let wanted = self.buffer.wanted();
        let DeviceProgress { stint, position, .. } = match &self.end {
            ProgramEnd::Plays(feeder) => feeder.standing(),
            ProgramEnd::Records(giver) => giver.standing(),
        };
        if position < wanted {
            self.woken = None;
        } else if self.woken != Some((stint, wanted)) {
            self.woken = Some((stint, wanted));
            self.event.wake();
        }
    }
}

/// The attached programs, on the device's thread.
pub struct AttachedPrograms {
    attached: Vec<AttachedProgram>,
    coming: Consumer<AttachedProgram>,
    going: Producer<AttachedProgram>,
    start: Arc<AtomicI64>,
    block: Box<[f32]>,
}

impl AttachedPrograms {
    pub(super) fn new(
        settings: &Settings,
        coming: Consumer<AttachedProgram>,
        going: Producer<AttachedProgram>,
        start: Arc<AtomicI64>,
    ) -> Self {
        let block = vec![0.0; settings.channels.samples_in(settings.period)].into();
        Self { attached: Vec::with_capacity(MAX_PROGRAMS), coming, going, start, block }
    }

    /// Starts the card; frame 0 is at `start`.
    pub fn begin(&mut self, start: LocalTime) {
        self.start.store(start.as_nanos(), Ordering::Release);
        self.attached.iter_mut().for_each(|program| program.begin(start));
    }

    fn turn_over(&mut self) {
        while let Ok(program) = self.coming.pop() {
            if let Err(program) = push_within(&mut self.attached, program) {
                let _ = self.going.push(program);
            }
        }
        let mut at = 0;
        while at < self.attached.len() {
            if self.attached[at].is_gone() && self.going.slots() > 0 {
                let program = self.attached.swap_remove(at);
                let _ = self.going.push(program);
            } else {
                at += 1;
            }
        }
    }

    /// Fills this turn's block, at most a period, with the sum of playing programs. Real-time.
    // scripts/check-realtime finds this function by name: keep it out of line.
    #[inline(never)]
    pub fn mix(&mut self, turn: &Turn, block: &mut [f32]) {
        self.turn_over();
        block.fill(0.0);
        for program in &mut self.attached {
            let ProgramEnd::Plays(feeder) = &mut program.end else { continue };
            let Some(received) = self.block.get_mut(..block.len()) else { continue };
            feeder.feed(turn, received);
            // Invalid or huge samples of one program must not silence the others.
            bound(received);
            add(block, received);
            program.wake();
        }
    }

    /// Passes this turn's block to recording programs. Real-time.
    // scripts/check-realtime finds this function by name: keep it out of line.
    #[inline(never)]
    pub fn give(&mut self, turn: &Turn, block: &[f32]) {
        self.turn_over();
        for program in &mut self.attached {
            if let ProgramEnd::Records(giver) = &mut program.end {
                giver.give(turn, block);
                program.wake();
            }
        }
    }
}
