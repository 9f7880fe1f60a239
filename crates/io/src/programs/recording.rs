//! Sound on its way from the device's thread to a program that records: a ring.

use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use super::buffer::{BufferWord, ProgramBuffer};

impl ProgramBuffer {
    fn ringed(&self, count: u64) -> &[AtomicU32] {
        let at = (count % self.frames as u64) as usize * self.channels;
        &self.samples()[at..at + self.channels]
    }

    /// Says how many frames may lie there: of those that come when nobody takes any, the newest are lost.
    pub fn set_room(&self, frames: usize) {
        self.word(BufferWord::Room).store(frames as u64, Ordering::Relaxed);
    }

    /// The device's thread, which has given so many frames, gives these; `false` if there is no room for them.
    pub(super) fn give(&self, given: u64, block: &[f32]) -> bool {
        let taken = self.word(BufferWord::Taken).load(Ordering::Acquire);
        let room = self.word(BufferWord::Room).load(Ordering::Relaxed).min(self.frames as u64);
        let frames = (block.len() / self.channels) as u64;
        // A program may say that it has taken anything.
        if given.wrapping_sub(taken).saturating_add(frames) > room {
            return false;
        }
        for (count, frame) in (given..).zip(block.chunks_exact(self.channels)) {
            for (place, sample) in self.ringed(count).iter().zip(frame) {
                place.store(sample.to_bits(), Ordering::Relaxed);
            }
        }
        self.word(BufferWord::Given).store(given + frames, Ordering::Release);
        true
    }
}

/// The program's end of a buffer that it records by.
#[derive(Debug)]
pub struct RecordingEnd {
    buffer: Arc<ProgramBuffer>,
    /// Frames that it ever took.
    taken: u64,
}

impl RecordingEnd {
    /// The only one of this buffer, from which nothing was taken yet.
    pub fn new(buffer: Arc<ProgramBuffer>) -> Self {
        Self { buffer, taken: 0 }
    }

    /// Frames that are there.
    pub fn frames(&self) -> usize {
        let given = self.buffer.word(BufferWord::Given).load(Ordering::Acquire);
        given.wrapping_sub(self.taken).min(self.buffer.frames as u64) as usize
    }

    /// Takes whole frames out as far as they are there; how many.
    pub fn take(&mut self, samples: &mut [f32]) -> usize {
        let there = self.frames();
        let frames = samples.chunks_exact_mut(self.buffer.channels).take(there);
        let mut count = 0;
        for frame in frames {
            let held = self.buffer.ringed(self.taken.wrapping_add(count));
            for (sample, place) in frame.iter_mut().zip(held) {
                *sample = f32::from_bits(place.load(Ordering::Relaxed));
            }
            count += 1;
        }
        self.taken = self.taken.wrapping_add(count);
        self.buffer.word(BufferWord::Taken).store(self.taken, Ordering::Release);
        count as usize
    }
}
