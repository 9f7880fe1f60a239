//! Transfers runs of samples from a device's thread to the ordinary thread, wait-free.

use rtrb::{Consumer, Producer, RingBuffer};
use tautline_dsp::channel::pick;

#[derive(Debug, Clone, Copy)]
struct Mark<At> {
    at: At,
    frames: u32,
}

/// Writing end: samples and runs.
pub struct Writer<At> {
    samples: Producer<f32>,
    marks: Producer<Mark<At>>,
}

/// Reading end.
pub struct Reader<At> {
    samples: Consumer<f32>,
    marks: Consumer<Mark<At>>,
}

/// Creates both ends of a ring, with this capacity.
pub fn rings<At>(samples: usize, marks: usize) -> (Writer<At>, Reader<At>) {
    let (sample_in, sample_out) = RingBuffer::new(samples);
    let (mark_in, mark_out) = RingBuffer::new(marks);
    let writer = Writer { samples: sample_in, marks: mark_in };
    (writer, Reader { samples: sample_out, marks: mark_out })
}

impl<At> Writer<At> {
    /// Writes a run's channel, or drops it without room. Wait-free.
    pub fn write(&mut self, at: At, channels: usize, channel: usize, samples: &[f32]) {
        self.write_parts(at, channels, channel, [samples, &[]]);
    }

    pub(crate) fn write_parts(
        &mut self,
        at: At,
        channels: usize,
        channel: usize,
        parts: [&[f32]; 2],
    ) {
        let channels = channels.max(1);
        let frames = (parts[0].len() + parts[1].len()) / channels;
        if self.marks.is_full() {
            return;
        }
        let Ok(mut chunk) = self.samples.write_chunk(frames) else { return };
        let room = chunk.as_mut_slices();
        if room.1.is_empty() && parts[1].is_empty() {
            pick(parts[0], channels, channel, room.0);
        } else {
            lay(parts, channels, channel, room.0, room.1);
        }
        chunk.commit_all();
        let _ = self.marks.push(Mark { at, frames: frames as u32 });
    }
}

fn lay(
    parts: [&[f32]; 2],
    channels: usize,
    channel: usize,
    mut head: &mut [f32],
    mut tail: &mut [f32],
) {
    for part in parts {
        let (now, later) = head.split_at_mut(head.len().min(part.len() / channels));
        let (first, rest) = part.split_at(now.len() * channels);
        pick(first, channels, channel, now);
        head = later;
        if head.is_empty() {
            let (now, later) = tail.split_at_mut(rest.len() / channels);
            pick(rest, channels, channel, now);
            tail = later;
        }
    }
}

impl<At> Reader<At> {
    /// Whether the writer was dropped.
    pub fn is_abandoned(&self) -> bool {
        self.marks.is_abandoned()
    }

    /// Reads all runs; allocates if a run wraps.
    pub fn read(&mut self, mut take: impl FnMut(At, &[f32])) {
        while let Ok(mark) = self.marks.pop() {
            let Ok(chunk) = self.samples.read_chunk(mark.frames as usize) else { return };
            let (head, tail) = chunk.as_slices();
            if tail.is_empty() {
                take(mark.at, head);
            } else {
                take(mark.at, &[head, tail].concat());
            }
            chunk.commit_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_across_the_ring_end_is_one_run() {
        let frames: Vec<f32> = (0..2 * 7).map(|at| at as f32).collect();
        let right: Vec<f32> = frames.iter().skip(1).step_by(2).copied().collect();
        let (mut writer, mut reader) = rings(11, 4);
        for at in 0..60 {
            let (first, second) = frames.split_at(2 * (at % 8));
            writer.write_parts(at, 2, 1, [first, second]);
            let mut read = Vec::new();
            reader.read(|at, samples| read.push((at, samples.to_vec())));
            assert_eq!(read, [(at, right.clone())]);
        }
    }

    #[test]
    fn a_run_without_room_is_left_out_whole() {
        let (mut writer, mut reader) = rings(5, 2);
        writer.write(0, 1, 0, &[1.0; 4]);
        writer.write(1, 1, 0, &[2.0; 2]);
        writer.write(2, 1, 0, &[3.0; 1]);
        writer.write(3, 1, 0, &[]);
        let mut read = Vec::new();
        reader.read(|at, samples| read.push((at, samples.to_vec())));
        assert_eq!(read, [(0, vec![1.0; 4]), (2, vec![3.0])]);
    }
}
