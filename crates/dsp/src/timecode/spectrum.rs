//! Sound against what it may hold, each frequency by how little else is there.

use rustfft::num_complex::Complex;
use rustfft::{Fft, FftDirection, algorithm::Radix4};

/// Frames that are looked at.
pub(super) const SIZE: usize = 2048;
/// Frequencies, from the first above zero: marks have hardly any sound above a quarter of the rate.
const BINS: usize = SIZE / 2 * 5 / 8;
/// Frames over which the sound fades in before what is looked for, and out after it: the sharper, the
/// further low tones reach over what is high.
pub(super) const FADE_IN: usize = 896;
pub(super) const FADE_OUT: usize = 96;
/// Frequencies on either side that say how loud it is around one.
const BESIDE: usize = 6;
/// Of what is louder than marks at half of the frequencies, the least that is taken to be at any: where a
/// path lets nothing of a mark through, little else may be there, and counts for nothing.
const LEAST: f32 = 0.3;
/// Of the mean power, what is taken to be at every frequency.
const FLOOR: f32 = 1e-9;

/// Power that stands for none.
const SILENT: f32 = 1e-20;

use super::{CHIP, fade};

type Bins = Box<[Complex<f32>]>;

/// The sound of a while, and products with it.
pub(super) struct Spectrum {
    forward: Radix4<f32>,
    inverse: Radix4<f32>,
    window: Box<[f32]>,
    work: Bins,
    scratch: Bins,
    /// By frequency: the power of a chip.
    chip: Box<[f32]>,
    /// By frequency: one over the power around it.
    weights: Box<[f32]>,
    /// The sound, so weighed.
    sound: Bins,
}

/// What is looked for, by frequency.
pub(super) struct SpectrumShape(Bins);

/// What a shape is against the sound.
#[derive(Debug, Clone, Copy)]
pub(super) struct Weight {
    /// Of the shape, each frequency over the power around it: where the sound has nothing to do with
    /// the shape, a product has this variance.
    pub(super) energy: f64,
    /// Its mean square frequency in radians a frame.
    pub(super) square_frequency: f64,
}

/// A product at its greatest.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peak {
    pub(super) at: f64,
    pub(super) product: f64,
}

impl SpectrumShape {
    pub(super) fn new() -> Self {
        Self(vec![Complex::ZERO; BINS].into())
    }
}

impl Spectrum {
    pub(super) fn new() -> Self {
        let forward = Radix4::new(SIZE, FftDirection::Forward);
        let inverse = Radix4::new(SIZE, FftDirection::Inverse);
        let scratch = forward.get_inplace_scratch_len().max(inverse.get_inplace_scratch_len());
        let rise = |frame: usize, len: usize| {
            let part = (frame as f64 + 0.5) / len as f64;
            (0.5 - 0.5 * (core::f64::consts::PI * part).cos()) as f32
        };
        let window = (0..SIZE).map(|frame| match (frame, SIZE - 1 - frame) {
            (before, _) if before < FADE_IN => rise(before, FADE_IN),
            (_, after) if after < FADE_OUT => rise(after, FADE_OUT),
            _ => 1.0,
        });
        let chip = |bin: usize| {
            let beside = |at: usize| 2.0 * fade(at as f64) * (frequency(bin) * at as f64).cos();
            (1.0 + (1..CHIP).map(beside).sum::<f64>()).powi(2).max(1e-6) as f32
        };
        Self {
            chip: (0..BINS).map(chip).collect(),
            forward,
            inverse,
            window: window.collect(),
            work: vec![Complex::ZERO; SIZE].into(),
            scratch: vec![Complex::ZERO; scratch].into(),
            weights: vec![0.0; BINS].into(),
            sound: vec![Complex::ZERO; BINS].into(),
        }
    }

    /// Takes [`SIZE`] frames of sound, and a shape by frame from its first to the second given; what
    /// lies before frame 0 does so.
    pub(super) fn take(
        &mut self,
        sound: &[f32],
        (first, end): (i64, i64),
        frame: impl Fn(f64) -> f64,
        shape: &mut SpectrumShape,
    ) {
        let Self { work, window, .. } = self;
        for ((work, sample), window) in work.iter_mut().zip(sound).zip(window.iter()) {
            *work = Complex::new(*sample * *window, 0.0);
        }
        // Two real signals are one complex one.
        for at in first..end {
            work[at.rem_euclid(SIZE as i64) as usize].im = frame(at as f64) as f32;
        }
        self.forward.process_with_scratch(&mut self.work, &mut self.scratch);
        for bin in 0..BINS {
            let (here, there) = (self.work[bin + 1], self.work[SIZE - 1 - bin].conj());
            self.sound[bin] = (here + there) / 2.0;
            shape.0[bin] = (here - there) / Complex::new(0.0, 2.0);
        }
        self.weigh();
    }

    fn weigh(&mut self) {
        // Two running means, one after the other, are a triangle.
        let mean = self.sound.iter().map(Complex::norm_sqr).sum::<f32>() / BINS as f32;
        let (mut once, mut twice) = ([0.0_f32; BINS], [0.0_f32; BINS]);
        let sound = &self.sound;
        smooth(|bin| sound[bin].norm_sqr(), &mut once);
        smooth(|bin| once[bin], &mut twice);
        let weights = &mut self.weights;
        for (weight, power) in weights.iter_mut().zip(twice) {
            *weight = (power + FLOOR * mean).max(SILENT);
        }
        let mut louder = once;
        for ((louder, power), chip) in louder.iter_mut().zip(weights.iter()).zip(&self.chip) {
            *louder = power / chip;
        }
        let least = *louder.select_nth_unstable_by(BINS / 2, f32::total_cmp).1 * LEAST;
        for (weight, chip) in weights.iter_mut().zip(&self.chip) {
            *weight = 1.0 / (*weight + least * chip);
        }
        for (sound, weight) in self.sound.iter_mut().zip(weights) {
            *sound *= *weight;
        }
    }

    pub(super) fn weight_of(&self, shape: &SpectrumShape) -> Weight {
        let (mut energy, mut square) = (0.0, 0.0);
        for (bin, (shape, weight)) in shape.0.iter().zip(&self.weights).enumerate() {
            let here = f64::from(shape.norm_sqr() * weight);
            energy += 2.0 * here;
            square += 2.0 * here * frequency(bin).powi(2);
        }
        Weight { energy, square_frequency: square / energy.max(f64::MIN_POSITIVE) }
    }

    /// Products of the sound with two shapes, or with one and, as it is weighed, alone: by the frame at
    /// which they begin, the first as real part and the second as imaginary.
    pub(super) fn products(
        &mut self,
        first: &SpectrumShape,
        second: Option<&SpectrumShape>,
    ) -> &[Complex<f32>] {
        let i = Complex::<f32>::i();
        self.work.fill(Complex::ZERO);
        for bin in 0..BINS {
            let sound = self.sound[bin];
            let first = sound * first.0[bin].conj();
            let second = second.map_or(sound, |second| sound * second.0[bin].conj());
            self.work[bin + 1] = first + i * second;
            self.work[SIZE - 1 - bin] = first.conj() + i * second.conj();
        }
        self.inverse.process_with_scratch(&mut self.work, &mut self.scratch);
        &self.work
    }

    /// The greatest product near a frame, which is less than a frame away from it.
    pub(super) fn peak(&self, shape: &SpectrumShape, near: usize) -> Peak {
        let near = near as f64;
        let mut best = Peak { at: near, product: 0.0 };
        let mut at = near;
        for _ in 0..3 {
            let (product, slope, bend) = self.product_at(shape, at);
            if product.abs() > best.product.abs() {
                best = Peak { at, product };
            }
            if product * bend >= 0.0 {
                break;
            }
            at = (at - slope / bend).clamp(near - 1.0, near + 1.0);
        }
        best
    }

    /// The product between frames, its slope and how that changes.
    fn product_at(&self, shape: &SpectrumShape, at: f64) -> (f64, f64, f64) {
        let turn = Complex::from_polar(1.0, frequency(0) * at);
        let mut phase = turn;
        let (mut value, mut slope, mut bend) = (0.0, 0.0, 0.0);
        for (bin, (sound, shape)) in self.sound.iter().zip(&shape.0).enumerate() {
            let product = sound * shape.conj();
            let here = Complex::new(f64::from(product.re), f64::from(product.im)) * phase;
            let frequency = frequency(bin);
            value += 2.0 * here.re;
            slope -= 2.0 * here.im * frequency;
            bend -= 2.0 * here.re * frequency * frequency;
            phase *= turn;
        }
        (value, slope, bend)
    }
}

/// In radians a frame.
fn frequency(bin: usize) -> f64 {
    core::f64::consts::TAU * (bin + 1) as f64 / SIZE as f64
}

/// The mean of what is within [`BESIDE`] of each; at the ends, as if there were nothing beyond.
fn smooth(power: impl Fn(usize) -> f32, means: &mut [f32; BINS]) {
    let mut sum: f64 = (0..BESIDE).map(|bin| f64::from(power(bin))).sum();
    for (bin, mean) in means.iter_mut().enumerate() {
        if bin + BESIDE < BINS {
            sum += f64::from(power(bin + BESIDE));
        }
        if bin > BESIDE {
            sum -= f64::from(power(bin - BESIDE - 1));
        }
        *mean = sum.max(0.0) as f32 / (2 * BESIDE + 1) as f32;
    }
}
