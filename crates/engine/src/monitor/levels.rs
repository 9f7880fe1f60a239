//! Stream levels, measured on the device's thread on demand.

use rtrb::{Consumer, Producer};
use tautline_dsp::level::{Level, handle};
use tautline_io::thread::memory;

/// Capacity in levels per channel: eight beats.
const WAITING: usize = 16;

/// The device's end. It measures nothing until requested.
pub(crate) struct LevelTap {
    on: bool,
    levels: Box<[Level]>,
    ring: Producer<Level>,
}

pub(crate) struct LevelReader {
    channels: usize,
    ring: Consumer<Level>,
}

pub(crate) fn levels(channels: usize) -> (LevelTap, LevelReader) {
    let (writer, ring) = memory::ring(WAITING * channels);
    let levels = vec![Level::default(); channels].into();
    (LevelTap { on: false, levels, ring: writer }, LevelReader { channels, ring })
}

impl LevelTap {
    pub(crate) fn set(&mut self, on: bool) {
        self.on = on;
        self.levels.fill(Level::default());
    }

    #[inline]
    pub(crate) fn handle(&mut self, samples: &[f32]) {
        if self.on {
            self.reckon(samples);
        }
    }

    #[cold]
    #[inline(never)]
    fn reckon(&mut self, samples: &[f32]) {
        handle(&mut self.levels, samples);
    }

    /// Sends levels since the last call. Real-time safe.
    #[inline]
    pub(crate) fn notify(&mut self) {
        if self.on {
            self.write();
        }
    }

    #[cold]
    #[inline(never)]
    fn write(&mut self) {
        // If the ring is full, the next levels include these.
        let Ok(mut chunk) = self.ring.write_chunk(self.levels.len()) else { return };
        let (head, tail) = chunk.as_mut_slices();
        head.iter_mut().chain(tail).zip(&self.levels).for_each(|(room, level)| *room = *level);
        chunk.commit_all();
        self.levels.fill(Level::default());
    }
}

impl LevelReader {
    pub(crate) fn read(&mut self, to: &mut Vec<Level>) {
        to.resize(self.channels, Level::default());
        while self.channels > 0 {
            let Ok(chunk) = self.ring.read_chunk(self.channels) else { return };
            let (head, tail) = chunk.as_slices();
            to.iter_mut()
                .zip(head.iter().chain(tail))
                .for_each(|(to, reported)| *to = to.with(*reported));
            chunk.commit_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_measured_only_after_a_request() {
        let (mut tap, mut reader) = levels(2);
        let mut reported = Vec::new();
        let play = |tap: &mut LevelTap| {
            tap.handle(&[0.5, 0.25]);
            tap.notify();
        };
        play(&mut tap);
        reader.read(&mut reported);
        assert_eq!(reported, [Level::default(); 2]);
        tap.set(true);
        (0..2 * WAITING).for_each(|_| play(&mut tap));
        reader.read(&mut reported);
        tap.notify();
        reader.read(&mut reported);
        let received = reported.iter().map(|level| (level.peak, level.frames)).collect::<Vec<_>>();
        assert_eq!(received, [(0.5, 32), (0.25, 32)]);
        tap.set(false);
        play(&mut tap);
        let mut after = Vec::new();
        reader.read(&mut after);
        assert_eq!(after, [Level::default(); 2]);
    }
}
