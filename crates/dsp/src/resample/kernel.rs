//! Windowed sincs, tabulated for fractions between two input frames.

use core::f64::consts::PI;
use std::sync::OnceLock;

use super::Quality;

/// With linear interpolation (docs/internals/decisions/0008-own-resampler.md).
const PHASE_BITS: u32 = 10;
const PHASES: usize = 1 << PHASE_BITS;
const BELOW_BITS: u32 = 32 - PHASE_BITS;

pub(super) const LOW_DELAY_TAPS: usize = 2 * LOW_DELAY.half;
pub(super) const BALANCED_TAPS: usize = 2 * BALANCED.half;
pub(super) const BEST_TAPS: usize = 2 * BEST.half;

/// Σ cosines\[m\] × cos(π m distance / half).
pub(super) struct CosineWindow {
    pub(super) half: usize,
    cosines: &'static [f64],
}

// Each minimises the maximum error over a band. Found by `cargo run --release -p tautline-dsp
// --example resampler_window`.
const LOW_DELAY: CosineWindow = CosineWindow {
    half: 12,
    cosines: &[
        0.4356260979,
        0.5038726039,
        0.0652111125,
        -0.0052746586,
        0.0006337741,
        -0.0000689298,
    ],
};
const BALANCED: CosineWindow = CosineWindow {
    half: 16,
    cosines: &[0.3666244449, 0.4947244684, 0.1342523247, 0.0051022542, -0.0008315385, 0.0001280464],
};
const BEST: CosineWindow = CosineWindow {
    half: 24,
    cosines: &[
        0.3880563096,
        0.5067228749,
        0.1125097340,
        -0.0071443135,
        -0.0004278918,
        0.0003763999,
        -0.0001159018,
        0.0000275705,
        -0.0000047819,
    ],
};

impl Quality {
    /// Delay in input frames, as [`super::Resampler::half`].
    pub const fn half(self) -> usize {
        window(self).half
    }

    /// Weight at `distance` frames from a place; 0 from [`Quality::half`] on.
    pub fn weight(self, distance: f64) -> f64 {
        window(self).weight(distance)
    }
}

const fn window(quality: Quality) -> &'static CosineWindow {
    match quality {
        Quality::LowDelay => &LOW_DELAY,
        Quality::Balanced => &BALANCED,
        Quality::Best => &BEST,
    }
}

impl CosineWindow {
    pub(super) fn weight(&self, distance: f64) -> f64 {
        if distance == 0.0 {
            return 1.0;
        }
        if distance.abs() >= self.half as f64 || distance.fract() == 0.0 {
            return 0.0;
        }
        let angle = PI * distance / self.half as f64;
        (PI * distance).sin() / (PI * distance) * self.at(angle.cos())
    }

    /// Clenshaw's recurrence (Mathematical Tables and Other Aids to Computation 9, 1955).
    fn at(&self, once: f64) -> f64 {
        let Some((first, rest)) = self.cosines.split_first() else { return 0.0 };
        let (mut next, mut after) = (0.0, 0.0);
        for cosine in rest.iter().rev() {
            (next, after) = (cosine + 2.0 * once * next - after, next);
        }
        first + once * next - after
    }
}

pub(super) struct Kernel {
    half: usize,
    /// `2 × half` weights per phase, plus one for interpolation. The first is for the input frame
    /// `half − 1` before the place.
    rows: Box<[f32]>,
}

impl Kernel {
    pub(super) fn of(quality: Quality) -> &'static Self {
        static KERNELS: [OnceLock<Kernel>; 3] = [const { OnceLock::new() }; 3];
        KERNELS[quality as usize].get_or_init(|| Self::new(window(quality)))
    }

    /// Angle sums save most sines and cosines.
    fn new(window: &CosineWindow) -> Self {
        let half = window.half;
        // Whole numbers and fractions are exact in 64 bits.
        let frames: Vec<f64> = (0..2 * half).map(|tap| tap as f64 - (half - 1) as f64).collect();
        let columns: Vec<_> = frames.iter().map(|n| (PI * n / half as f64).sin_cos()).collect();
        let mut rows = vec![0.0; (PHASES + 1) * 2 * half].into_boxed_slice();
        for (phase, row) in rows.chunks_exact_mut(2 * half).enumerate() {
            let fraction = phase as f64 / PHASES as f64;
            let (sine, cosine) = (PI * fraction / half as f64).sin_cos();
            // The sign alternates by frame.
            let mut sinc = if half.is_multiple_of(2) { 1.0 } else { -1.0 } * (PI * fraction).sin();
            for ((weight, frame), column) in row.iter_mut().zip(&frames).zip(&columns) {
                let distance = frame - fraction;
                *weight = if phase % PHASES == 0 {
                    window.weight(distance) as f32
                } else {
                    let once = column.1 * cosine + column.0 * sine;
                    (sinc / (PI * distance) * window.at(once)) as f32
                };
                sinc = -sinc;
            }
        }
        Self { half, rows }
    }

    pub(super) fn half(&self) -> usize {
        self.half
    }

    pub(super) fn taps(&self) -> usize {
        2 * self.half
    }

    /// In 2^-32 frames.
    #[inline(always)]
    pub(super) fn at<const TAPS: usize>(&self, fraction: u32) -> [f32; TAPS] {
        let phase = (fraction >> BELOW_BITS) as usize;
        // 22 bits, so exact.
        let below = (fraction & ((1 << BELOW_BITS) - 1)) as f32 / (1_u32 << BELOW_BITS) as f32;
        let rows = &self.rows[phase * TAPS..(phase + 2) * TAPS];
        let (row, next) = (rows.first_chunk::<TAPS>(), rows.last_chunk::<TAPS>());
        let (Some(row), Some(next)) = (row, next) else { return [0.0; TAPS] };
        let mut weights = [0.0; TAPS];
        for ((weight, row), next) in weights.iter_mut().zip(row).zip(next) {
            *weight = row + below * (next - row);
        }
        weights
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights(quality: Quality, fraction: u32) -> Vec<f32> {
        let kernel = Kernel::of(quality);
        match quality {
            Quality::LowDelay => kernel.at::<LOW_DELAY_TAPS>(fraction).into(),
            Quality::Balanced => kernel.at::<BALANCED_TAPS>(fraction).into(),
            Quality::Best => kernel.at::<BEST_TAPS>(fraction).into(),
        }
    }

    #[test]
    fn a_kernel_is_one_at_its_place_and_zero_at_all_other_frames() {
        for quality in Quality::ALL {
            let kernel = Kernel::of(quality);
            let weights = weights(quality, 0);
            for (tap, weight) in weights.iter().enumerate() {
                let expected = if tap == kernel.half() - 1 { 1.0 } else { 0.0 };
                assert_eq!(*weight, expected, "{quality}, tap {tap}");
            }
        }
    }

    #[test]
    fn the_recurrence_is_the_sum_of_the_cosines() {
        for window in Quality::ALL.map(window) {
            for angle in (0..=100).map(|part| PI * f64::from(part) / 100.0) {
                let cosines = window.cosines.iter().enumerate();
                let sum: f64 = cosines.map(|(m, cosine)| cosine * (m as f64 * angle).cos()).sum();
                assert!((window.at(angle.cos()) - sum).abs() < 1e-14, "at {angle}");
            }
        }
    }

    #[test]
    fn a_table_has_the_windowed_sinc_of_every_frame_and_phase() {
        for quality in Quality::ALL {
            let (kernel, window) = (Kernel::of(quality), window(quality));
            for (index, weight) in kernel.rows.iter().enumerate() {
                let (phase, tap) = (index / kernel.taps(), index % kernel.taps());
                let frame = tap as f64 - (kernel.half() - 1) as f64;
                let weighed = window.weight(frame - phase as f64 / PHASES as f64);
                let off = (f64::from(*weight) - weighed).abs();
                assert!(off <= f64::from(f32::EPSILON) / 2.0, "{quality}, {phase}, {tap}: {off}");
            }
        }
    }

    #[test]
    fn a_kernel_is_the_same_from_both_sides() {
        for quality in Quality::ALL {
            for fraction in [1, 1 << 21, 1 << 30, (1 << 30) + 12345, 1 << 31] {
                let one = weights(quality, fraction);
                let mut other = weights(quality, fraction.wrapping_neg());
                other.reverse();
                for (one, other) in one.iter().zip(&other) {
                    assert!((one - other).abs() < 1e-7, "{quality}, {fraction}: {one} {other}");
                }
            }
        }
    }

    #[test]
    fn a_table_takes_at_most_half_a_mebibyte() {
        for quality in Quality::ALL {
            assert!(size_of_val(&*Kernel::of(quality).rows) <= 512 * 1024, "{quality}");
        }
    }
}
