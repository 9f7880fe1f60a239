//! Acoustic echo cancellation without delay (docs/internals/decisions/0071).
//!
//! A filter (`linear`) subtracts the estimated echo. A suppressor attenuates the rest. A jump of
//! the delay moves the reference.

mod jump;
mod linear;
mod suppressor;
#[cfg(test)]
mod tests;
mod transform;

use jump::JumpFinder;
use linear::{Doubt, Paths, Reference, Shape};
use suppressor::Suppressor;
use transform::Transform;

/// Length of the filter in seconds.
const TAIL: f64 = 0.19;
/// Maximum delay from jumps, in seconds.
const LONGEST_DELAY: f64 = 0.5;
/// Maximum sample of silence: −120 dBFS.
const SILENCE: f32 = 1e-6;
const PIECE: usize = 128;

/// Real-time except `new`.
pub struct EchoCanceller {
    shape: Shape,
    references: Box<[Reference]>,
    microphones: Box<[Microphone]>,
    jumps: JumpFinder,
    transform: Transform,
    short: Transform,
    at: usize,
    /// Frames until the loudspeakers' last sound has passed.
    sounds: usize,
}

struct Microphone {
    paths: Paths,
    suppressor: Suppressor,
    captured: [f32; PIECE],
    echo: [f32; PIECE],
    left: [f32; PIECE],
}

impl core::fmt::Debug for EchoCanceller {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("EchoCanceller").field("shape", &self.shape).finish_non_exhaustive()
    }
}

impl EchoCanceller {
    /// Allocates.
    pub fn new(hertz: u32, microphones: usize, loudspeakers: usize) -> Self {
        crate::vector::prepare();
        let samples = |seconds: f64| (seconds * f64::from(hertz)) as usize;
        let block = samples(0.008).next_power_of_two().max(64);
        let parts = samples(TAIL).div_ceil(block);
        let shape = Shape { block, parts, longest_delay: samples(LONGEST_DELAY) };
        let microphone = |_| Microphone {
            paths: Paths::new(shape, loudspeakers),
            suppressor: Suppressor::new(block),
            captured: [0.0; PIECE],
            echo: [0.0; PIECE],
            left: [0.0; PIECE],
        };
        Self {
            shape,
            references: (0..loudspeakers).map(|_| Reference::new(shape)).collect(),
            microphones: (0..microphones).map(microphone).collect(),
            jumps: JumpFinder::new(hertz as usize, shape.longest_delay),
            transform: Transform::new(block),
            short: Transform::new(block / 2),
            at: 0,
            sounds: 0,
        }
    }

    /// Cancels echo in interleaved sound. `captured` stays bit-exact until something is played.
    pub fn process(&mut self, captured: &mut [f32], played: &[f32]) {
        let (microphones, loudspeakers) = (self.microphones.len(), self.references.len());
        let frames = (captured.len() / microphones).min(played.len() / loudspeakers);
        let hop = (self.shape.block / 4).min(PIECE);
        let mut from = 0;
        while from < frames {
            let count = (frames - from).min(hop - self.at % hop);
            let played = &played[from * loudspeakers..(from + count) * loudspeakers];
            if played.iter().any(|sample| sample.abs() > SILENCE) {
                self.sounds = self.references.first().map_or(0, Reference::reach);
            }
            if self.sounds > 0 {
                self.piece(&mut captured[from * microphones..(from + count) * microphones], played);
                self.sounds = self.sounds.saturating_sub(count);
                if self.sounds == 0 {
                    self.at = 0;
                    self.microphones.iter_mut().for_each(|one| one.suppressor.rest());
                }
            }
            from += count;
        }
    }

    fn piece(&mut self, captured: &mut [f32], played: &[f32]) {
        let (count, loudspeakers) = (self.microphones.len(), self.references.len());
        let frames = captured.len() / count;
        for (frame, played) in played.chunks_exact(loudspeakers).enumerate() {
            for (reference, sample) in self.references.iter_mut().zip(played) {
                reference.push(self.at + frame, sane(*sample));
            }
        }
        let until = self.at + frames;
        for (channel, microphone) in self.microphones.iter_mut().enumerate() {
            let samples = &mut captured[channel..];
            microphone.piece(samples, count, &self.references, self.at..until);
            let Microphone { paths, suppressor, .. } = microphone;
            let parts = paths.parts() * until / self.shape.block;
            paths.update(&self.references, &mut self.transform, parts);
            if until.is_multiple_of(suppressor.hop()) {
                suppressor.next_hop(&mut self.short);
            }
        }
        self.at = until;
        if until == self.shape.block {
            self.at = 0;
            self.next_block();
        }
    }

    fn next_block(&mut self) {
        for reference in &mut self.references {
            reference.next_block(&mut self.transform);
        }
        let mut doubt = Doubt::Good;
        for (index, microphone) in self.microphones.iter_mut().enumerate() {
            let paths = &mut microphone.paths;
            let found = paths.watch();
            if index == 0 {
                let (captured, estimated) = paths.newest(0, self.shape.block);
                self.jumps.push(captured, estimated);
                doubt = found;
            }
        }
        let jump = if doubt == Doubt::Jumped { self.jumps.search() } else { None };
        if let Some(jump) = jump {
            self.follow(jump);
        }
        for Microphone { paths, suppressor, .. } in &mut self.microphones {
            paths.next_block(&self.references, &mut self.transform);
            suppressor.expect(paths.expected());
        }
    }

    fn follow(&mut self, jump: i64) {
        for reference in &mut self.references {
            let delay = (reference.delay as i64 + jump).max(0) as usize;
            reference.set_delay(delay, &mut self.transform);
        }
        for microphone in &mut self.microphones {
            microphone.paths.moved();
        }
    }
}

impl Microphone {
    fn piece(
        &mut self,
        samples: &mut [f32],
        step: usize,
        references: &[Reference],
        place: core::ops::Range<usize>,
    ) {
        let Self { paths, suppressor, captured, echo, left } = self;
        let count = place.len();
        let (captured, echo, left) =
            (&mut captured[..count], &mut echo[..count], &mut left[..count]);
        let samples_of = samples.iter().step_by(step);
        captured.iter_mut().zip(samples_of).for_each(|(to, from)| *to = sane(*from));
        if samples.iter().step_by(step).any(|sample| sane(*sample) != *sample) {
            paths.spoil();
        }
        paths.estimate(references, place.start, captured, echo);
        let samples_of = samples.iter().step_by(step);
        for (left, (sample, echo)) in left.iter_mut().zip(samples_of.zip(&*echo)) {
            *left = sample - echo;
        }
        let newest = paths.newest(place.start, place.end);
        suppressor.filter(place.start % suppressor.hop(), left, newest);
        samples.iter_mut().step_by(step).zip(&*left).for_each(|(sample, left)| *sample = *left);
    }
}

fn sane(sample: f32) -> f32 {
    if sample.is_finite() { sample.clamp(-4.0, 4.0) } else { 0.0 }
}
