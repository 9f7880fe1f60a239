//! A program's sound on its way to the device's thread: frames by their position, as a card's own buffer holds them. So
//! what was not played yet can be taken back and written anew.

use core::sync::atomic::{AtomicU32, Ordering};

use tautline_proto::time::{Frames, MediaTime};

use super::buffer::{BufferWord, ProgramBuffer};

/// Of a frame that is written anew just when it is read either sound is heard, as on a card.
impl ProgramBuffer {
    fn frame(&self, position: MediaTime) -> &[AtomicU32] {
        let at = position.as_frames().rem_euclid(self.frames as i64) as usize * self.channels;
        &self.samples()[at..at + self.channels]
    }

    /// Writes whole frames from this position on, over those that lay there or as many frames
    /// before. They are played once [`Self::set_end`] includes them.
    pub fn put(&self, position: MediaTime, samples: &[f32]) {
        for (at, frame) in samples.chunks_exact(self.channels).enumerate() {
            let held = self.frame(position + Frames::from_len(at));
            for (place, sample) in held.iter().zip(frame) {
                place.store(sample.to_bits(), Ordering::Relaxed);
            }
        }
    }

    /// Says where what is to be played ends.
    pub fn set_end(&self, end: MediaTime) {
        // Whoever reads up to here sees what was put before.
        self.word(BufferWord::End).store(end.as_frames() as u64, Ordering::Release);
    }

    /// Copies the frames from this position on, and silence after the end, which may be said to be anywhere. How many
    /// frames were there.
    pub fn copy(&self, position: MediaTime, block: &mut [f32]) -> usize {
        let end = self.word(BufferWord::End).load(Ordering::Acquire) as i64;
        let there = end.saturating_sub(position.as_frames()).max(0);
        let there = (there as u64).min((block.len() / self.channels) as u64) as usize;
        let (heard, silent) = block.split_at_mut(there * self.channels);
        for (at, frame) in heard.chunks_exact_mut(self.channels).enumerate() {
            let held = self.frame(position + Frames::from_len(at));
            for (sample, place) in frame.iter_mut().zip(held) {
                *sample = f32::from_bits(place.load(Ordering::Relaxed));
            }
        }
        silent.fill(0.0);
        there
    }
}

#[cfg(test)]
mod tests {
    use tautline_proto::time::MediaTime;

    use crate::programs::buffer::ProgramBuffer;

    fn copied(track: &ProgramBuffer, position: i64, frames: usize) -> Vec<f32> {
        let mut block = vec![9.0; frames * track.channels];
        track.copy(MediaTime::from_frames(position), &mut block);
        block
    }

    #[test]
    fn frames_lie_at_their_position_and_silence_after_the_end() {
        let track = ProgramBuffer::new(3, 2);
        track.put(MediaTime::from_frames(1), &[1.0, -1.0, 2.0, -2.0, 3.0, -3.0]);
        assert_eq!(copied(&track, 1, 2), [0.0; 4], "not to be played yet");
        track.set_end(MediaTime::from_frames(4));
        assert_eq!(copied(&track, 2, 3), [2.0, -2.0, 3.0, -3.0, 0.0, 0.0]);
        assert_eq!(copied(&track, 9, 1), [0.0; 2]);
    }

    #[test]
    fn what_was_taken_back_is_not_played_and_what_was_written_anew_is() {
        let track = ProgramBuffer::new(4, 1);
        track.put(MediaTime::ZERO, &[1.0, 2.0, 3.0, 4.0]);
        track.set_end(MediaTime::from_frames(4));
        track.set_end(MediaTime::from_frames(2));
        assert_eq!(copied(&track, 0, 4), [1.0, 2.0, 0.0, 0.0]);
        track.put(MediaTime::from_frames(2), &[7.0]);
        track.set_end(MediaTime::from_frames(3));
        assert_eq!(copied(&track, 0, 4), [1.0, 2.0, 7.0, 0.0]);
    }
}
