//! Plays marks.

use super::{CENTRE, CHIP, MarkStretch, NUMBERS, RunNumber, SPACING, chip, chips_of, fade};

/// Where a mark lies in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlacedMark {
    /// The mark's number.
    pub number: u32,
    /// The frame of the block, counted from 0.
    pub frame: usize,
}

/// Plays marks of a run one after the other.
#[derive(Debug, Clone)]
pub struct Marker {
    run: RunNumber,
    number: u32,
    chips: u128,
    /// The next frame of the mark.
    frame: usize,
    /// By frame of a chip: what is left of it.
    fades: Box<[f64]>,
    peak: f64,
}

impl Marker {
    /// The peak of what [`Marker::fill`] gives, as [`Sine`](crate::signal::Sine) has it: −18 dBFS.
    pub const LEVEL_DB: f64 = crate::signal::Sine::LEVEL_DB;

    /// At the first frame of mark 0 of run zero.
    pub fn new() -> Self {
        Self::of(RunNumber::default())
    }

    /// At the first frame of a run.
    pub fn of(run: RunNumber) -> Self {
        Self::stretched(run, MarkStretch::NONE)
    }

    /// At the first frame of a run of longer marks.
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

    /// With another peak, in dB of full scale.
    pub fn at_level(mut self, decibels: f64) -> Self {
        self.peak = 10_f64.powf(decibels / 20.0);
        self
    }

    /// Fills interleaved frames of `channels` samples, all channels alike, and tells of each mark
    /// that lies in them.
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
