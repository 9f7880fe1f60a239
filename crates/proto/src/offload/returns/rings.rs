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
        let samples = &samples[..samples.len().min(self.frames)];
        let at = self.index(position);
        let ring = &mut self.samples[channel * self.frames..][..self.frames];
        let (head, tail) = samples.split_at(samples.len().min(self.frames - at));
        ring[at..at + head.len()].copy_from_slice(head);
        ring[..tail.len()].copy_from_slice(tail);
    }

    /// Reads samples from `position` on.
    pub(super) fn read(&self, channel: usize, position: u64, samples: &mut [f32]) {
        let at = self.index(position);
        let ring = self.channel(channel);
        let first = samples.len().min(self.frames - at);
        let (head, tail) = samples.split_at_mut(first);
        head.copy_from_slice(&ring[at..at + first]);
        tail.copy_from_slice(&ring[..tail.len()]);
    }

    /// The same where they lie, if they do so in one piece.
    #[inline]
    pub(super) fn slice(&self, channel: usize, position: u64, frames: usize) -> Option<&[f32]> {
        let at = self.index(position);
        self.channel(channel).get(at..at + frames)
    }

    /// One sample.
    pub(super) fn at(&self, channel: usize, position: u64) -> f32 {
        self.channel(channel)[self.index(position)]
    }
}
