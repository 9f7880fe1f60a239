//! Runs of samples from a device's thread to the ordinary one, wait-free.

use rtrb::{Consumer, Producer, RingBuffer};
use tautline_dsp::channel::pick;

/// A run of frames whose first sample is in the sample ring beside it.
#[derive(Debug, Clone, Copy)]
struct Mark<At> {
    at: At,
    frames: u32,
}

/// Two rings: runs of samples, and where or when each begins.
pub struct Writer<At> {
    samples: Producer<f32>,
    marks: Producer<Mark<At>>,
}

/// Their other end.
pub struct Reader<At> {
    samples: Consumer<f32>,
    marks: Consumer<Mark<At>>,
}

/// Room for so many samples in so many runs.
pub fn rings<At>(samples: usize, marks: usize) -> (Writer<At>, Reader<At>) {
    let (sample_in, sample_out) = RingBuffer::new(samples);
    let (mark_in, mark_out) = RingBuffer::new(marks);
    let writer = Writer { samples: sample_in, marks: mark_in };
    (writer, Reader { samples: sample_out, marks: mark_out })
}

impl<At> Writer<At> {
    /// Writes one channel of a run, or nothing where there is no room. Wait-free.
    pub fn write(&mut self, at: At, channels: usize, channel: usize, samples: &[f32]) {
        self.write_parts(at, (channels, channel), [samples, &[]]);
    }

    /// The same of a run in two parts of whole frames.
    pub(crate) fn write_parts(
        &mut self,
        at: At,
        (channels, channel): (usize, usize),
        parts: [&[f32]; 2],
    ) {
        let channels = channels.max(1);
        let frames = (parts[0].len() + parts[1].len()) / channels;
        if self.marks.slots() == 0 || self.samples.slots() < frames {
            return;
        }
        for part in parts {
            if part.is_empty() {
                continue;
            }
            // There was room a moment ago, and nobody else writes.
            let Ok(mut chunk) = self.samples.write_chunk(part.len() / channels) else { return };
            let (head, tail) = chunk.as_mut_slices();
            let (to_head, to_tail) = part.split_at(head.len() * channels);
            pick(to_head, (channels, channel), head);
            pick(to_tail, (channels, channel), tail);
            chunk.commit_all();
        }
        let _ = self.marks.push(Mark { at, frames: frames as u32 });
    }
}

impl<At> Reader<At> {
    /// Whether nobody will write any more.
    pub fn is_abandoned(&self) -> bool {
        self.marks.is_abandoned()
    }

    /// Takes every run. Allocates where one goes over the ring's end.
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
