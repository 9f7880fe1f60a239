//! Marks for paths that carry little more than a voice.

use core::f64::consts::PI;

use super::SPACING;

/// How many times longer marks are than those that are heard best.
///
/// Those have sound up to a quarter of the rate. What codecs for voices leave of it lies below 3 kHz, so
/// that marks for them are made as if at 8 kHz: 60 ms, in which 120 chips are heard below 2 kHz.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MarkStretch(usize);

/// The rate at which voices are carried.
const VOICE_HERTZ: u32 = 8_000;

impl MarkStretch {
    /// As long as [`SPACING`] says.
    pub const NONE: Self = Self(1);

    /// For voices at this rate.
    pub const fn for_voice(hertz: u32) -> Self {
        let times = (hertz + VOICE_HERTZ / 2) / VOICE_HERTZ;
        Self(if times == 0 { 1 } else { times as usize })
    }

    /// Frames that take the place of one.
    pub const fn frames(self) -> usize {
        self.0
    }

    /// Frames from one mark to the next.
    pub const fn spacing(self) -> usize {
        SPACING * self.0
    }
}

/// Frames kept of a sound, times the stretch, on either side of one that is handed on.
const LOBES: usize = 8;
/// Of half of the rate that is handed on, what is kept.
const KEPT: f64 = 0.85;

/// Hands on every so many frames of a sound without what is above half of their rate.
pub(super) struct Thinner {
    stretch: usize,
    kernel: Box<[f32]>,
    /// The last frames, twice, so that they always lie in a row.
    sound: Box<[f32]>,
    next: usize,
    /// Frames until one is handed on.
    left: usize,
}

impl Thinner {
    pub(super) fn new(stretch: MarkStretch) -> Self {
        let stretch = stretch.frames();
        // The first frame comes when as many have followed as lie before it.
        let side = if stretch == 1 { 0 } else { LOBES * stretch };
        let len = 2 * side + 1;
        let tap = |index: usize| {
            let at = index as f64 - side as f64;
            let phase = PI * KEPT * at / stretch as f64;
            let sinc = if at == 0.0 { 1.0 } else { phase.sin() / phase };
            sinc * (0.5 + 0.5 * (PI * at / (side + 1) as f64).cos())
        };
        let sum: f64 = (0..len).map(tap).sum();
        Self {
            stretch,
            kernel: (0..len).map(|index| (tap(index) / sum) as f32).collect(),
            sound: vec![0.0; 2 * len].into(),
            next: 0,
            left: side + 1,
        }
    }

    /// Takes a frame; hands on one whose place is a multiple of the stretch.
    pub(super) fn take(&mut self, sample: f32) -> Option<f32> {
        if self.stretch == 1 {
            return Some(sample);
        }
        let len = self.kernel.len();
        self.sound[self.next] = sample;
        self.sound[self.next + len] = sample;
        self.next = (self.next + 1) % len;
        self.left -= 1;
        if self.left > 0 {
            return None;
        }
        self.left = self.stretch;
        let sound = &self.sound[self.next..][..len];
        Some(sound.iter().zip(&self.kernel).map(|(sample, tap)| sample * tap).sum())
    }
}
