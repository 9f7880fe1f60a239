//! Generates marks.

use super::{CENTRE, CHIP, MarkStretch, NUMBERS, RunNumber, SPACING, chip, chips_of, fade};

/// Position of a mark in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlacedMark {
    /// Number of the mark.
    pub number: u32,
    /// Frame of the block, from 0.
    pub frame: usize,
}

/// Generates the marks of a run.
#[derive(Debug, Clone)]
pub struct Marker {
    run: RunNumber,
    number: u32,
    chips: u128,
    frame: usize,
    fades: Box<[f64]>,
    peak: f64,
}

impl Marker {
    /// Peak of [`Marker::fill`]: −18 dBFS.
    pub const LEVEL_DB: f64 = crate::signal::Sine::LEVEL_DB;

    /// Starts at mark 0 of run 0.
    pub fn new() -> Self {
        Self::of(RunNumber::default())
    }

    /// Starts at the first mark of a run.
    pub fn of(run: RunNumber) -> Self {
        Self::stretched(run, MarkStretch::NONE)
    }

    /// Starts at the first mark of a run of stretched marks.
    pub fn stretched(run: RunNumber, stretch: MarkStretch) -> Self {
        let frames = CHIP * stretch.frames();
        let fades = (0..frames).map(|frame| fade(frame as f64 / stretch.frames() as f64));
        Self {
            run,
            number: run.first(),
            chips: chips_of(run, run.first()),
            frame: 0,
            fades: fades.collect(),
            peak: 10_f64.powf(Self::LEVEL_DB / 20.0),
        }
    }

    /// Sets the peak in dBFS.
    pub fn at_level(mut self, decibels: f64) -> Self {
        self.peak = 10_f64.powf(decibels / 20.0);
        self
    }

    /// Passes each mark to `placed`. All `channels` are equal.
    pub fn fill(
        &mut self,
        channels: usize,
        samples: &mut [f32],
        mut placed: impl FnMut(PlacedMark),
    ) {
        let chip_len = self.fades.len();
        let (spacing, centre) = (SPACING / CHIP * chip_len, CENTRE / CHIP * chip_len);
        for (frame, samples) in samples.chunks_mut(channels.max(1)).enumerate() {
            if self.frame == centre {
                placed(PlacedMark { number: self.number, frame });
            }
            let index = self.frame / chip_len;
            let left = self.fades[self.frame % chip_len];
            let (this, next) = (chip(self.chips, index), chip(self.chips, index + 1));
            samples.fill((self.peak * (this * left + next * (1.0 - left))) as f32);
            self.frame += 1;
            if self.frame == spacing {
                self.frame = 0;
                self.number = (self.number + 1) % NUMBERS;
                self.chips = chips_of(self.run, self.number);
            }
        }
    }
}

impl Default for Marker {
    fn default() -> Self {
        Self::new()
    }
}
