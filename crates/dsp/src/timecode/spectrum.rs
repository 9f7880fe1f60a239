//! Compares sound with shapes, weighting frequencies by how little other sound they have.

use rustfft::num_complex::Complex;
use rustfft::{Fft, FftDirection, algorithm::Radix4};

pub(super) const SIZE: usize = 2048;
/// Bins used. Marks have hardly any sound above a quarter of the rate.
const BINS: usize = SIZE / 2 * 5 / 8;
/// Frames of a fade. Sharper fades spread low tones to high frequencies.
pub(super) const FADE_IN: usize = 896;
pub(super) const FADE_OUT: usize = 96;
/// Bins averaged on either side.
const BESIDE: usize = 6;
/// Minimum power relative to the median, so that blocked frequencies do not get a high weight.
const MIN: f32 = 0.3;
/// Added power relative to the mean.
const FLOOR: f32 = 1e-9;

const SILENT: f32 = 1e-20;

use super::{CHIP, fade};

type Bins = Box<[Complex<f32>]>;

pub(super) struct Spectrum {
    forward: Radix4<f32>,
    inverse: Radix4<f32>,
    window: Box<[f32]>,
    work: Bins,
    scratch: Bins,
    chip: Box<[f32]>,
    /// Inverse local power.
    weights: Box<[f32]>,
    sound: Bins,
}

pub(super) struct SpectrumShape(Bins);

#[derive(Debug, Clone, Copy)]
pub(super) struct Weight {
    /// Variance of a product with unrelated sound.
    pub(super) energy: f64,
    /// In (radians per frame)².
    pub(super) square_frequency: f64,
}

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
            let alongside = |at: usize| 2.0 * fade(at as f64) * (frequency(bin) * at as f64).cos();
            (1.0 + (1..CHIP).map(alongside).sum::<f64>()).powi(2).max(1e-6) as f32
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

    /// Frames before 0 wrap around.
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
        let minimum = *louder.select_nth_unstable_by(BINS / 2, f32::total_cmp).1 * MIN;
        for (weight, chip) in weights.iter_mut().zip(&self.chip) {
            *weight = 1.0 / (*weight + minimum * chip);
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

    /// Products with two shapes, or with one and the weighted sound alone, by starting frame.
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

fn frequency(bin: usize) -> f64 {
    core::f64::consts::TAU * (bin + 1) as f64 / SIZE as f64
}

/// Zeros beyond the ends.
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
