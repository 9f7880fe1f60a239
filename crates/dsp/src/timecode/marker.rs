//! Plays marks.

use super::{CENTRE, CHIP, NUMBERS, SPACING, chip, chips_of, fade};

/// Where a mark lies in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlacedMark {
    /// The mark's number.
    pub number: u32,
    /// The frame of the block, counted from 0.
    pub frame: usize,
}

/// Plays marks one after the other, from number 0 on.
#[derive(Debug, Clone)]
pub struct Marker {
    number: u32,
    chips: u128,
    /// The next frame of the mark.
    frame: usize,
    /// By frame of a chip: what is left of it.
    fades: [f64; CHIP],
    peak: f64,
}

impl Marker {
    /// The peak of what [`Marker::fill`] gives, as [`Sine`](crate::signal::Sine) has it: −18 dBFS.
    pub const LEVEL_DB: f64 = crate::signal::Sine::LEVEL_DB;

    /// At the first frame of mark 0.
    pub fn new() -> Self {
        Self {
            number: 0,
            chips: chips_of(0),
            frame: 0,
            fades: core::array::from_fn(|frame| fade(frame as f64)),
            peak: 10_f64.powf(Self::LEVEL_DB / 20.0),
        }
    }

    /// Fills interleaved frames of `channels` samples, all channels alike, and tells of each mark
    /// that lies in them.
    pub fn fill(
        &mut self,
        channels: usize,
        samples: &mut [f32],
        mut placed: impl FnMut(PlacedMark),
    ) {
        for (frame, samples) in samples.chunks_mut(channels.max(1)).enumerate() {
            if self.frame == CENTRE {
                placed(PlacedMark { number: self.number, frame });
            }
            let index = self.frame / CHIP;
            let left = self.fades[self.frame % CHIP];
            let (this, next) = (chip(self.chips, index), chip(self.chips, index + 1));
            samples.fill((self.peak * (this * left + next * (1.0 - left))) as f32);
            self.frame += 1;
            if self.frame == SPACING {
                self.frame = 0;
                self.number = (self.number + 1) % NUMBERS;
                self.chips = chips_of(self.number);
            }
        }
    }
}

impl Default for Marker {
    fn default() -> Self {
        Self::new()
    }
}
