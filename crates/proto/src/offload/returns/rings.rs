//! Samples by frame position, channel after channel.

use core::hint::black_box;

#[derive(Debug, Clone)]
pub(super) struct ChannelRing {
    channels: usize,
    /// A power of two.
    frames: usize,
    samples: Box<[f32]>,
}

impl ChannelRing {
    /// Rounds `frames` up.
    pub(super) fn new(channels: usize, frames: usize) -> Self {
        let frames = frames.max(1).next_power_of_two();
        // Touches the zero pages now, not at first access.
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

    #[inline]
    pub(super) fn write(&mut self, channel: usize, position: u64, samples: &[f32]) {
        self.write_by(channel, position, samples.len(), |from, piece| {
            piece.copy_from_slice(&samples[from..][..piece.len()]);
        });
    }

    /// `write` fills one or two pieces, with the samples before each.
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

    /// The second piece may be empty.
    #[inline]
    pub(super) fn pieces(&self, channel: usize, position: u64, count: usize) -> [&[f32]; 2] {
        let at = self.index(position);
        let ring = self.channel(channel);
        let head = count.min(self.frames - at);
        [&ring[at..at + head], &ring[..count - head]]
    }

    #[inline]
    pub(super) fn slice(&self, channel: usize, position: u64, frames: usize) -> Option<&[f32]> {
        let at = self.index(position);
        self.channel(channel).get(at..at + frames)
    }

    pub(super) fn at(&self, channel: usize, position: u64) -> f32 {
        self.channel(channel)[self.index(position)]
    }
}
