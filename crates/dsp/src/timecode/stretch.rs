//! Marks for voice paths.

use core::f64::consts::PI;

use super::SPACING;

/// Voice codecs keep only sound below 3 kHz, so voice marks are made as if at 8 kHz.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MarkStretch(usize);

const VOICE_HERTZ: u32 = 8_000;

impl MarkStretch {
    /// Length of [`SPACING`].
    pub const NONE: Self = Self(1);

    /// Stretch for voice at this rate.
    pub const fn for_voice(hertz: u32) -> Self {
        let times = (hertz + VOICE_HERTZ / 2) / VOICE_HERTZ;
        Self(if times == 0 { 1 } else { times as usize })
    }

    /// Frames per unstretched frame.
    pub const fn frames(self) -> usize {
        self.0
    }

    /// Frames per mark.
    pub const fn spacing(self) -> usize {
        SPACING * self.0
    }
}

/// Lobes per side, times the stretch.
const LOBES: usize = 8;
const KEPT: f64 = 0.85;

/// Low-pass at half the output rate.
pub(super) struct Thinner {
    stretch: usize,
    kernel: Box<[f32]>,
    /// Stored twice, so contiguous.
    sound: Box<[f32]>,
    next: usize,
    left: usize,
}

impl Thinner {
    pub(super) fn new(stretch: MarkStretch) -> Self {
        let stretch = stretch.frames();
        // The first frame is output once as many frames have followed as precede it.
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

    /// A frame at multiples of the stretch.
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
