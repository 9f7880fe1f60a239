//! Finds marks below other sound that hides their signs.
//!
//! Frequencies are weighted by how little other sound they have. A number counts when two readings
//! agree; then each mark is compared at its expected position.

use super::spectrum::{Peak, SIZE, Spectrum, SpectrumShape, Weight};
use super::{CHIP, CHIPS, SPACING, SYNC, SYNC_CHIPS, WORD_BITS, chip, fade};

/// Frame at which an expected mark begins.
pub(super) const MARK_AT: usize = SIZE - super::spectrum::FADE_OUT - SPACING - 2 * AROUND;
/// Maximum distance from that frame.
const AROUND: usize = 3;
pub(super) const HOP: usize = 512;
const FIRST: usize = MARK_AT - HOP;

/// Minimum peak in standard deviations. Noise exceeds it in one search of 30.
const MIN_READ: f64 = 4.0;
/// Minimum peak of an expected mark: in its place, and after a slip.
const MIN_HERE: f64 = 4.0;
const MIN_AWAY: f64 = 7.0;
const FURTHEST: usize = SPACING / 2;
/// Minimum gain relative to the previous marks: of the whole mark, and of each half.
const MIN_WHOLE: f64 = 0.5;
const MIN_HALF: f64 = 0.25;
/// Maximum height of a false peak from tone suppression, relative to the mark's peak.
const ECHO: f32 = 0.5;
pub(super) const MAX_READ: usize = 4;
const DEVIATIONS: f64 = 6.0;
const ARITHMETIC: f64 = 0.002;

pub(super) struct Buried {
    spectrum: Spectrum,
    sync: SpectrumShape,
    mark: SpectrumShape,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct BuriedReading {
    pub(super) at: usize,
    pub(super) word: u32,
    pub(super) gain: f64,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct BuriedMark {
    pub(super) at: f64,
    pub(super) gain: f64,
    pub(super) uncertainty: f64,
}

impl Buried {
    pub(super) fn new() -> Self {
        let (mut spectrum, mut sync) = (Spectrum::new(), SpectrumShape::new());
        spectrum.take(&[0.0; SIZE], reach(SYNC_CHIPS), alone(SYNC.into(), SYNC_CHIPS), &mut sync);
        Self { spectrum, sync, mark: SpectrumShape::new() }
    }

    pub(super) fn read(&mut self, sound: &[f32], mut read: impl FnMut(BuriedReading)) {
        self.spectrum.take(sound, (0, 0), |_| 0.0, &mut self.mark);
        let weight = self.spectrum.weight_of(&self.sync);
        let products = self.spectrum.products(&self.sync, None);
        let maximum =
            products[FIRST..MARK_AT].iter().map(|product| product.re.abs()).fold(0.0, f32::max);
        let minimum = ((MIN_READ * weight.energy.sqrt()) as f32).max(maximum * ECHO);
        let mut at = FIRST;
        for _ in 0..MAX_READ {
            let Some(next) = (at..MARK_AT).find(|at| is_peak(products, *at, minimum)) else {
                return;
            };
            let sync = products[next].re;
            let word = word_in(|frame| products[next + frame].im * sync.signum());
            read(BuriedReading { at: next, word, gain: f64::from(sync) / weight.energy });
            at = next + CHIP;
        }
    }

    /// Around [`MARK_AT`], previously at `gain`.
    pub(super) fn mark(&mut self, sound: &[f32], chips: u128, gain: f64) -> Option<BuriedMark> {
        let Self { spectrum, sync, mark } = self;
        spectrum.take(sound, reach(CHIPS), alone(chips, CHIPS), mark);
        let (whole, first) = (spectrum.weight_of(mark), spectrum.weight_of(sync));
        let products = spectrum.products(mark, Some(sync));
        let sign = gain.signum() as f32;
        let best = |range: core::ops::RangeInclusive<usize>| {
            range.max_by(|a, b| (products[*a].re * sign).total_cmp(&(products[*b].re * sign)))
        };
        let fits = |at: usize, minimum: f64| {
            let [product, half] = [products[at].re, products[at].im].map(|p| f64::from(p * sign));
            let gains = [
                product / whole.energy / MIN_WHOLE,
                half / first.energy / MIN_HALF,
                (product - half) / (whole.energy - first.energy) / MIN_HALF,
            ];
            product >= minimum * whole.energy.sqrt() && gains.iter().all(|part| *part >= gain.abs())
        };
        let here = best(MARK_AT - AROUND..=MARK_AT + AROUND).filter(|at| fits(*at, MIN_HERE));
        let at = here.or_else(|| {
            best(MARK_AT - FURTHEST..=MARK_AT + AROUND).filter(|at| fits(*at, MIN_AWAY))
        })?;
        let Peak { at, product } = spectrum.peak(mark, at);
        let uncertainty = uncertainty(&whole, product);
        Some(BuriedMark { at, gain: product / whole.energy, uncertainty })
    }
}

fn reach(count: usize) -> (i64, i64) {
    (1 - CHIP as i64, (count * CHIP) as i64)
}

/// Faded: an edge would have the highest frequencies.
fn alone(chips: u128, count: usize) -> impl Fn(f64) -> f64 {
    move |at| {
        let index = (at / CHIP as f64).floor();
        let left = fade(at - index * CHIP as f64);
        let of = |index: f64| {
            let is_there = (0.0..count as f64).contains(&index);
            if is_there { chip(chips, index as usize) } else { 0.0 }
        };
        of(index) * left + of(index + 1.0) * (1.0 - left)
    }
}

fn uncertainty(weight: &Weight, product: f64) -> f64 {
    let deviation = weight.energy.sqrt() / product.abs() / weight.square_frequency.sqrt();
    ARITHMETIC + DEVIATIONS * deviation
}

type Product = rustfft::num_complex::Complex<f32>;

fn is_peak(products: &[Product], at: usize, minimum: f32) -> bool {
    let here = products[at].re.abs();
    here >= minimum
        && products[at - CHIP..=at + CHIP].iter().all(|alongside| alongside.re.abs() <= here)
}

fn word_in(sound: impl Fn(usize) -> f32) -> u32 {
    let chip = |index: usize| -> f32 {
        let alongside = |frame: usize| {
            let centre = index * CHIP;
            (sound(centre - frame) + sound(centre + frame)) * fade(frame as f64) as f32
        };
        sound(index * CHIP) + (1..CHIP).map(alongside).sum::<f32>()
    };
    (0..WORD_BITS as usize).fold(0, |word, bit| {
        let index = SYNC_CHIPS + 2 * bit;
        (word << 1) | u32::from(chip(index) > chip(index + 1))
    })
}
