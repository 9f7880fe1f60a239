//! Asynchronous resampling: sound of one clock, played by a card of another.
//!
//! Each output frame lies at an exact *place* among the input frames, a whole number and a fraction
//! of 2^-32; the next one lies one [`Step`] further. Nothing is accumulated in floating point, so
//! the place, and with it the instant of every output frame, is known and can be set for as long as
//! the resampler runs:
//!
//! ```text
//! place = frames pushed − ahead + fraction / 2^32
//! ```
//!
//! The sound at a place is the sum of the input frames around it, weighted by a kernel that is zero
//! on every whole number but 0, where it is 1. At fraction 0 this is the input frame itself, so that
//! going from copying to interpolating and back is as continuous as the sound is, and copying (at
//! [`Step::ONE`], fraction 0) is bit-exact and waits for nothing.
//!
//! The kernel is symmetric: all frequencies are delayed alike, by [`Resampler::half`] input frames
//! that must be known beyond the place. It is made for steps within 1000 ppm of one; further off,
//! what lies above the slower rate's half folds back.

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

/// One stream's resampler. See the module for what a place is.
#[derive(Clone)]
pub struct Resampler {
    kernel: &'static Kernel,
    channels: usize,
    longest: usize,
    /// Frames that each channel has room for.
    capacity: usize,
    /// Channel after channel, each `capacity` frames.
    frames: Box<[f32]>,
    /// Where in a channel's frames the next output frame lies; at least `half` frames are before.
    place: usize,
    fraction: u32,
    /// Where in a channel's frames the next pushed frame goes.
    end: usize,
    /// The last `half` frames that were passed, interleaved, and whether they are still to be laid
    /// before the place.
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
    /// A resampler for frames of `channels` samples, with silence before the first. Allocates, and
    /// computes the quality's kernel if nobody has before; nothing later does.
    ///
    /// `longest` is the most frames that are pulled at once: twice as many input frames, as the
    /// greatest step takes, and [`Resampler::half`] more have room. Of a longer block each `longest`
    /// frames must be pushed and pulled by themselves.
    pub fn new(quality: Quality, channels: usize, longest: usize) -> Self {
        prepare();
        let kernel = Kernel::of(quality);
        let (channels, longest) = (channels.max(1), longest.max(1));
        let half = kernel.half();
        // Room for twice what may lie ahead, so that frames are seldom moved to the front.
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

    /// The delay, in input frames: how many must follow an output frame's place, unless the place
    /// is an input frame and they are copied.
    pub fn half(&self) -> usize {
        self.kernel.half()
    }

    /// Frames pushed that lie at or after the place of the next output frame.
    pub fn ahead(&self) -> usize {
        self.end - self.place
    }

    /// How far the next output frame lies after an input frame, in 2^-32 input frames.
    pub fn fraction(&self) -> u32 {
        self.fraction
    }

    /// Moves the next output frame's place within its input frame: a jump in the sound, unless it is
    /// a small one.
    pub fn set_fraction(&mut self, fraction: u32) {
        self.fraction = fraction;
    }

    /// Input frames that must still be pushed before `frames` can be pulled at `step`; for at most
    /// `longest` frames. Copying (at [`Step::ONE`] from fraction 0) needs no frames beyond the last.
    pub fn wants(&self, frames: usize, step: Step) -> usize {
        let needed = match frames.checked_sub(1) {
            None => 0,
            Some(_) if self.copies(step) => frames,
            Some(before) => self.frames_in(before, step) + self.half() + 1,
        };
        needed.saturating_sub(self.ahead())
    }

    /// Takes interleaved input frames; what is left over of a last frame is ignored.
    ///
    /// At most `2 × longest + half` frames lie ahead, more than [`Resampler::wants`] ever says.
    /// Where more are pushed, the oldest are left out of the output: the place moves past them.
    pub fn push(&mut self, input: &[f32]) {
        self.lay_passed();
        for part in input.chunks(self.most_ahead() * self.channels) {
            let count = part.len() / self.channels;
            let from = self.make_room(count);
            for (channel, frames) in self.frames.chunks_exact_mut(self.capacity).enumerate() {
                pick(part, self.channels, channel, &mut frames[from..from + count]);
            }
        }
    }

    /// Takes interleaved input frames that were played as they are, without being pushed and pulled:
    /// what is pushed next follows them, and what lay ahead is forgotten. Cheap: only what the kernel
    /// reaches back to is kept, and laid in its place once it is needed.
    pub fn pass(&mut self, input: &[f32]) {
        let whole = &input[..input.len() / self.channels * self.channels];
        if whole.len() < self.passed.len() {
            // What is passed does not reach back far enough by itself.
            self.lay_passed();
            self.place = self.end;
            self.push(whole);
            self.place = self.end;
            return;
        }
        self.passed.copy_from_slice(&whole[whole.len() - self.passed.len()..]);
        (self.place, self.has_passed) = (self.end, true);
    }

    /// Lays what was passed before the place, if it is not there yet.
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

    /// Gives interleaved output frames, and goes on by `step` with each. At [`Step::ONE`] from
    /// fraction 0 they are the input's bits.
    ///
    /// Input that is wanted and was not pushed is silence, as if it had been pushed.
    pub fn pull(&mut self, out: &mut [f32], step: Step) {
        self.lay_passed();
        for part in out.chunks_mut(self.longest * self.channels) {
            let missing = self.wants(part.len() / self.channels, step);
            if missing > 0 {
                let from = self.make_room(missing);
                for frames in self.frames.chunks_exact_mut(self.capacity) {
                    frames[from..from + missing].fill(0.0);
                }
            }
            if self.copies(step) {
                self.copy(part);
            } else {
                self.interpolate(part, step);
            }
        }
    }

    /// Forgets all frames: as new, with silence before and fraction 0.
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

    /// How many whole input frames the place moves in `frames` output frames.
    fn frames_in(&self, frames: usize, step: Step) -> usize {
        let moved = u128::from(self.fraction) + frames as u128 * u128::from(step.bits());
        (moved >> 32) as usize
    }

    fn most_ahead(&self) -> usize {
        2 * self.longest + self.half()
    }

    /// Makes room for `count` frames at the end, at most [`Self::most_ahead`], and says where it is.
    fn make_room(&mut self, count: usize) -> usize {
        self.place += (self.ahead() + count).saturating_sub(self.most_ahead());
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

    /// By a kernel of so many taps: loops of a length that the compiler knows take half the
    /// instructions.
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

/// The sum of the products. Eight sums side by side are what a compiler makes vectors of, and round
/// less than one.
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
    // By way of memory: seeing how the four are added up, the compiler would make vectors of two all
    // the way up, and shuffle each four frames for it: 1.7 times the time, and twice the instructions.
    let [a, b, c, d] = black_box([a + e, b + f, c + g, d + h]);
    (a + b) + (c + d)
}
