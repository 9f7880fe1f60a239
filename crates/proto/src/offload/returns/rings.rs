//! Samples by frame position, a channel behind the other.

use core::hint::black_box;

/// A ring of so many frames for each channel.
#[derive(Debug, Clone)]
pub(super) struct ChannelRing {
    channels: usize,
    /// Frames; a power of two.
    frames: usize,
    samples: Box<[f32]>,
}

impl ChannelRing {
    /// Room for `frames` or a few more.
    pub(super) fn new(channels: usize, frames: usize) -> Self {
        let frames = frames.max(1).next_power_of_two();
        // Zeros that were written: others the system gives page by page when they are touched for the first time.
        let mut samples = vec![1.0; channels * frames];
        black_box(&mut samples).fill(0.0);
        Self { channels, frames, samples: samples.into() }
    }

    pub(super) const fn channels(&self) -> usize {
        self.channels
    }

    fn channel(&self, channel: usize) -> &[f32] {
        &self.samples[channel * self.frames..][..self.frames]
    }

    fn index(&self, position: u64) -> usize {
        (position & (self.frames as u64 - 1)) as usize
    }

    /// Writes samples from `position` on, as many as there is room for.
    #[inline]
    pub(super) fn write(&mut self, channel: usize, position: u64, samples: &[f32]) {
        self.write_by(channel, position, samples.len(), |from, piece| {
            piece.copy_from_slice(&samples[from..][..piece.len()]);
        });
    }

    /// Has `count` samples written from `position` on, or as many as there is room for: in one piece or two, each with how
    /// many came before it.
    #[inline]
    pub(super) fn write_by(
        &mut self,
        channel: usize,
        position: u64,
        count: usize,
        mut write: impl FnMut(usize, &mut [f32]),
    ) {
        let (count, at) = (count.min(self.frames), self.index(position));
        let ring = &mut self.samples[channel * self.frames..][..self.frames];
        let head = count.min(self.frames - at);
        write(0, &mut ring[at..at + head]);
        if count > head {
            write(head, &mut ring[..count - head]);
        }
    }

    pub(super) fn read(&self, channel: usize, position: u64, samples: &mut [f32]) {
        let [head, tail] = self.pieces(channel, position, samples.len());
        samples[..head.len()].copy_from_slice(head);
        samples[head.len()..].copy_from_slice(tail);
    }

    /// Where `count` samples from `position` on lie, no more than the ring has: the second piece may be empty.
    #[inline]
    pub(super) fn pieces(&self, channel: usize, position: u64, count: usize) -> [&[f32]; 2] {
        let at = self.index(position);
        let ring = self.channel(channel);
        let head = count.min(self.frames - at);
        [&ring[at..at + head], &ring[..count - head]]
    }

    /// The same where they lie, if they do so in one piece.
    #[inline]
    pub(super) fn slice(&self, channel: usize, position: u64, frames: usize) -> Option<&[f32]> {
        let at = self.index(position);
        self.channel(channel).get(at..at + frames)
    }

    pub(super) fn at(&self, channel: usize, position: u64) -> f32 {
        self.channel(channel)[self.index(position)]
    }
}
