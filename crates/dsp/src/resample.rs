//! Asynchronous resampling: plays sound of one clock on a card of another.
//!
//! Each output frame has an exact *place* among the input frames: a whole number and a fraction of
//! 2^-32. The next place is one [`Step`] further.
//!
//! ```text
//! place = frames pushed − ahead + fraction / 2^32
//! ```
//!
//! Copying (at [`Step::ONE`], fraction 0) is bit-exact and without delay. Otherwise all frequencies
//! are delayed by [`Resampler::half`] input frames. The kernel is designed for steps within 1000
//! ppm of one; beyond, frequencies above the slower rate's half alias.

mod kernel;
mod quality;
mod step;
#[cfg(test)]
mod tests;

use core::fmt;
use core::hint::black_box;

use crate::channel::pick;
use crate::vector::{prepare, widest};
use kernel::{BALANCED_TAPS, BEST_TAPS, Kernel, LOW_DELAY_TAPS};
pub use quality::Quality;
pub use step::Step;

/// Resampler of one stream; see the module for places.
#[derive(Clone)]
pub struct Resampler {
    kernel: &'static Kernel,
    channels: usize,
    longest: usize,
    capacity: usize,
    /// Channel by channel.
    frames: Box<[f32]>,
    /// At least `half` frames precede it.
    place: usize,
    fraction: u32,
    end: usize,
    /// Frames, and whether they still need copying.
    passed: Box<[f32]>,
    has_passed: bool,
}

impl fmt::Debug for Resampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resampler")
            .field("half", &self.half())
            .field("channels", &self.channels)
            .field("longest", &self.longest)
            .field("ahead", &self.ahead())
            .field("fraction", &self.fraction)
            .finish_non_exhaustive()
    }
}

impl Resampler {
    /// Silence precedes the first frame. Only this function allocates.
    ///
    /// Push and pull longer blocks in parts of `longest` frames.
    pub fn new(quality: Quality, channels: usize, longest: usize) -> Self {
        prepare();
        let kernel = Kernel::of(quality);
        let (channels, longest) = (channels.max(1), longest.max(1));
        let half = kernel.half();
        // So that frames seldom move to the front.
        let capacity = half + 2 * (2 * longest + half);
        Self {
            kernel,
            channels,
            longest,
            capacity,
            frames: vec![0.0; channels * capacity].into(),
            place: half,
            fraction: 0,
            end: half,
            passed: vec![0.0; channels * half].into(),
            has_passed: false,
        }
    }

    /// Input frames that must follow a place, unless it is copied.
    pub fn half(&self) -> usize {
        self.kernel.half()
    }

    /// Frames at or after the place of the next output frame.
    pub fn ahead(&self) -> usize {
        self.end - self.place
    }

    /// Fraction of the next output frame's place, in 2^-32 input frames.
    pub fn fraction(&self) -> u32 {
        self.fraction
    }

    /// Moves the next place within its input frame.
    pub fn set_fraction(&mut self, fraction: u32) {
        self.fraction = fraction;
    }

    /// Input frames still needed to pull `frames`, at most `longest`, at `step`.
    pub fn wants(&self, frames: usize, step: Step) -> usize {
        let needed = match frames.checked_sub(1) {
            None => 0,
            Some(_) if self.copies(step) => frames,
            Some(before) => self.frames_in(before, step) + self.half() + 1,
        };
        needed.saturating_sub(self.ahead())
    }

    /// Interleaved; ignores an incomplete last frame.
    ///
    /// Skips the oldest beyond `2 × longest + half` frames.
    pub fn push(&mut self, input: &[f32]) {
        self.lay_passed();
        for part in input.chunks(self.max_ahead() * self.channels) {
            let count = part.len() / self.channels;
            let from = self.make_room(count);
            for (channel, frames) in self.frames.chunks_exact_mut(self.capacity).enumerate() {
                pick(part, self.channels, channel, &mut frames[from..from + count]);
            }
        }
    }

    /// Records interleaved frames that were played unchanged. Discards frames ahead. Cheap.
    pub fn pass(&mut self, input: &[f32]) {
        let whole = &input[..input.len() / self.channels * self.channels];
        if whole.len() < self.passed.len() {
            self.lay_passed();
            self.place = self.end;
            self.push(whole);
            self.place = self.end;
            return;
        }
        self.passed.copy_from_slice(&whole[whole.len() - self.passed.len()..]);
        (self.place, self.has_passed) = (self.end, true);
    }

    fn lay_passed(&mut self) {
        if !core::mem::take(&mut self.has_passed) {
            return;
        }
        let half = self.half();
        for (channel, frames) in self.frames.chunks_exact_mut(self.capacity).enumerate() {
            let passed = self.passed.chunks_exact(self.channels);
            frames.iter_mut().zip(passed).for_each(|(kept, frame)| *kept = frame[channel]);
        }
        (self.place, self.end) = (half, half);
    }

    /// Interleaved. At [`Step::ONE`] from fraction 0, the input's bits. Missing input is silence.
    pub fn pull(&mut self, out: &mut [f32], step: Step) {
        self.lay_passed();
        for part in out.chunks_mut(self.longest * self.channels) {
            self.fill_missing(part.len() / self.channels, step);
            if self.copies(step) {
                self.copy(part);
            } else {
                self.interpolate(part, step);
            }
        }
    }

    /// Moves as far as [`Self::pull`] of `frames` would, without the convolution: for inaudible sound.
    pub fn skip(&mut self, frames: usize, step: Step) {
        self.lay_passed();
        let mut left = frames;
        while left > 0 {
            let part = left.min(self.longest);
            left -= part;
            self.fill_missing(part, step);
            let moved = self.moved(part, step);
            self.place += (moved >> 32) as usize;
            self.fraction = moved as u32;
        }
    }

    /// Missing input of the next `frames` is silence.
    fn fill_missing(&mut self, frames: usize, step: Step) {
        let missing = self.wants(frames, step);
        if missing > 0 {
            let from = self.make_room(missing);
            for frames in self.frames.chunks_exact_mut(self.capacity) {
                frames[from..from + missing].fill(0.0);
            }
        }
    }

    /// Discards all frames: silence before, fraction 0.
    pub fn reset(&mut self) {
        let half = self.half();
        for frames in self.frames.chunks_exact_mut(self.capacity) {
            frames[..half].fill(0.0);
        }
        (self.place, self.end, self.fraction, self.has_passed) = (half, half, 0, false);
    }

    fn copies(&self, step: Step) -> bool {
        step == Step::ONE && self.fraction == 0
    }

    fn frames_in(&self, frames: usize, step: Step) -> usize {
        (self.moved(frames, step) >> 32) as usize
    }

    /// Place after `frames` output frames, in 2^-32 input frames from the present whole one.
    fn moved(&self, frames: usize, step: Step) -> u128 {
        u128::from(self.fraction) + frames as u128 * u128::from(step.bits())
    }

    fn max_ahead(&self) -> usize {
        2 * self.longest + self.half()
    }

    /// Makes at most [`Self::max_ahead`]; returns the index.
    fn make_room(&mut self, count: usize) -> usize {
        self.place += (self.ahead() + count).saturating_sub(self.max_ahead());
        if self.end + count > self.capacity {
            let first = self.place - self.half();
            for frames in self.frames.chunks_exact_mut(self.capacity) {
                frames.copy_within(first..self.end, 0);
            }
            self.place -= first;
            self.end -= first;
        }
        let from = self.end;
        self.end += count;
        from
    }

    fn copy(&mut self, out: &mut [f32]) {
        for (channel, frames) in self.frames.chunks_exact(self.capacity).enumerate() {
            let frames = &frames[self.place..self.end];
            for (frame, sample) in out.chunks_exact_mut(self.channels).zip(frames) {
                frame[channel] = *sample;
            }
        }
        self.place += out.len() / self.channels;
    }

    fn interpolate(&mut self, out: &mut [f32], step: Step) {
        widest(
            #[inline(always)]
            |_| self.interpolate_narrow(out, step),
        );
    }

    #[inline(always)]
    fn interpolate_narrow(&mut self, out: &mut [f32], step: Step) {
        match self.kernel.taps() {
            LOW_DELAY_TAPS => self.interpolate_by::<LOW_DELAY_TAPS>(out, step),
            BALANCED_TAPS => self.interpolate_by::<BALANCED_TAPS>(out, step),
            _ => self.interpolate_by::<BEST_TAPS>(out, step),
        }
    }

    /// Loops of constant length need half the instructions.
    #[inline(always)]
    fn interpolate_by<const TAPS: usize>(&mut self, out: &mut [f32], step: Step) {
        let (mut place, mut fraction) = (self.place, self.fraction);
        for frame in out.chunks_exact_mut(self.channels) {
            let weights = self.kernel.at::<TAPS>(fraction);
            let mut first = place + 1 - TAPS / 2;
            for sample in frame {
                let Some(frames) = self.frames[first..].first_chunk() else { break };
                *sample = product::<TAPS>(&weights, frames);
                first += self.capacity;
            }
            let moved = u64::from(fraction) + step.bits();
            place += (moved >> 32) as usize;
            fraction = moved as u32;
        }
        (self.place, self.fraction) = (place, fraction);
    }
}

/// Eight parallel sums vectorise, and round less than one.
#[inline(always)]
fn product<const TAPS: usize>(weights: &[f32; TAPS], frames: &[f32; TAPS]) -> f32 {
    let (weights, _) = weights.as_chunks::<8>();
    let (frames, _) = frames.as_chunks::<8>();
    let mut sums = [0.0_f32; 8];
    for (weights, frames) in weights.iter().zip(frames) {
        for ((sum, weight), frame) in sums.iter_mut().zip(weights).zip(frames) {
            *sum += weight * frame;
        }
    }
    let [a, b, c, d, e, f, g, h] = sums;
    // Via memory: otherwise the compiler uses vectors of two, at 1.7 times the time.
    let [a, b, c, d] = black_box([a + e, b + f, c + g, d + h]);
    (a + b) + (c + d)
}
