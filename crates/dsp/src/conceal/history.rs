//! The last frames of output.

use crate::format::number;

#[derive(Debug, Clone)]
pub(super) struct History {
    channels: usize,
    samples: Box<[f32]>,
    next: usize,
    known: usize,
}

impl History {
    /// Allocates here only.
    pub(super) fn new(channels: usize, frames: usize) -> Self {
        Self { channels, samples: vec![0.0; frames.max(1) * channels].into(), next: 0, known: 0 }
    }

    pub(super) const fn known(&self) -> usize {
        self.known
    }

    pub(super) const fn room(&self) -> usize {
        self.samples.len() / self.channels
    }

    pub(super) fn forget(&mut self) {
        self.known = 0;
    }

    pub(super) fn push(&mut self, samples: &[f32]) {
        let room = self.samples.len();
        let whole = &samples[..samples.len() / self.channels * self.channels];
        let newest = &whole[whole.len().saturating_sub(room)..];
        let at = self.next * self.channels;
        let (head, tail) = newest.split_at(newest.len().min(room - at));
        self.samples[at..at + head.len()].copy_from_slice(head);
        self.samples[..tail.len()].copy_from_slice(tail);
        self.next = (at + newest.len()) % room / self.channels;
        self.known = (self.known + whole.len() / self.channels).min(room / self.channels);
    }

    pub(super) fn last_frame(&self, out: &mut [f32]) {
        let frames = self.samples.len() / self.channels;
        let at = (self.next + frames - 1) % frames * self.channels;
        for (out, sample) in out.iter_mut().zip(&self.samples[at..]) {
            *out = if self.known > 0 { number(*sample) } else { 0.0 };
        }
    }

    /// Oldest first; NaN becomes silence. Returns the peak.
    pub(super) fn channel(&self, channel: usize, out: &mut [f32]) -> f32 {
        let frames = self.samples.len() / self.channels;
        let begin = self.next + frames - out.len();
        let (before, after) = match begin.checked_sub(frames) {
            Some(begin) => (begin..begin + out.len(), 0..0),
            None => (begin..frames, 0..self.next),
        };
        let found =
            before.chain(after).map(|at| number(self.samples[at * self.channels + channel]));
        out.iter_mut().zip(found).fold(0.0, |peak, (out, sample)| {
            *out = sample;
            sample.abs().max(peak)
        })
    }
}
