//! A sound in memory, channel by channel.

use core::ops::Range;

pub(super) use tautline_dsp::align::energy as power;
use tautline_proto::units::Rate;

const DEPTHS: [u32; 5] = [8, 12, 16, 20, 24];

/// `None` unless integers of up to 24 bits.
pub(super) type Bits = Option<u32>;

#[derive(Debug, Clone)]
pub struct Sound {
    /// Samples per channel, full scale being 1.
    pub channels: Vec<Vec<f32>>,
    pub rate: Rate,
}

impl Sound {
    pub fn frames(&self) -> usize {
        self.channels.first().map_or(0, Vec::len)
    }

    pub(super) fn is_silent(&self, frame: usize) -> bool {
        self.channels.iter().all(|channel| channel[frame] == 0.0)
    }

    pub(super) fn sounding(&self) -> Range<usize> {
        let sounds = |frame: &usize| !self.is_silent(*frame);
        let first = (0..self.frames()).find(sounds);
        let last = (0..self.frames()).rfind(sounds);
        first.zip(last).map_or(0..0, |(first, last)| first..last + 1)
    }

    /// Constant frames match anywhere.
    pub(super) fn notifies(&self, frames: Range<usize>) -> bool {
        self.channels.iter().any(|channel| {
            let part = channel.get(frames.clone()).unwrap_or_default();
            part.iter().any(|sample| sample != &part[0])
        })
    }

    pub(super) fn energy(&self, frames: &Range<usize>) -> f64 {
        let frames = frames.start.min(self.frames())..frames.end.min(self.frames());
        self.channels.iter().map(|channel| power(&channel[frames.clone()])).sum()
    }

    pub(super) fn loudest(&self, frames: Range<usize>) -> usize {
        let energy = |channel: &Vec<f32>| power(&channel[frames.clone()]);
        let all = self.channels.iter().map(energy).enumerate();
        all.max_by(|(_, one), (_, other)| one.total_cmp(other)).map_or(0, |(channel, _)| channel)
    }

    pub(super) fn bits(&self) -> Bits {
        let whole = |bits: &u32| {
            let scale = (1_u32 << (bits - 1)) as f32;
            self.channels.iter().flatten().all(|sample| (sample * scale).fract() == 0.0)
        };
        DEPTHS.into_iter().find(|bits| whole(bits))
    }
}

pub(super) fn itself_first(channel: usize, channels: usize) -> impl Iterator<Item = usize> {
    core::iter::once(channel).chain((0..channels).filter(move |other| *other != channel))
}
