//! Finds marks in sound that hides their signs.
//!
//! Every frequency counts by how little else is there, so that music, which is loud below and soft
//! above, is mostly left out. What one mark still hides is taken from many: a number is believed when
//! two readings agree, and from then on each mark is held against all of its chips, where it must be.

use super::spectrum::{Peak, SIZE, Spectrum, SpectrumShape, Weight};
use super::{CHIP, CHIPS, SPACING, SYNC, SYNC_CHIPS, WORD_BITS, chip, fade};

/// The frame of the sound at which a mark begins that is looked for where it must be: [`SIZE`] frames,
/// of which the last fade out after it.
pub(super) const MARK_AT: usize = SIZE - super::spectrum::FADE_OUT - SPACING - 2 * AROUND;
/// Frames around that at which it may begin.
const AROUND: usize = 3;
/// Frames of sound from one search to the next, and the frame at which a mark begins that is found
/// first.
pub(super) const HOP: usize = 512;
const FIRST: usize = MARK_AT - HOP;

/// Deviations of what else is there by which a sync must stick out to be read: in noise alone, one
/// search of thirty.
const LEAST_READ: f64 = 4.0;
/// The same of a whole mark where it must be, and where it may be after a slip.
const LEAST_HERE: f64 = 4.0;
const LEAST_AWAY: f64 = 7.0;
/// Frames that a slip may have been long.
const FURTHEST: usize = SPACING / 2;
/// The least of the gain of before that the mark must have, and each half of it.
const LEAST_WHOLE: f64 = 0.5;
const LEAST_HALF: f64 = 0.25;
/// What leaves out tones leaves echoes of marks, softer than this part of them.
const ECHO: f32 = 0.5;
/// Syncs that are read in one search.
pub(super) const MOST_READ: usize = 4;
/// As for the sync alone (`sync::DEVIATIONS`).
const DEVIATIONS: f64 = 6.0;
/// What the arithmetic leaves, in frames.
const ARITHMETIC: f64 = 0.002;

/// Looks for marks in [`SIZE`] frames.
pub(super) struct Buried {
    spectrum: Spectrum,
    sync: SpectrumShape,
    mark: SpectrumShape,
}

/// What was read where a mark may be.
#[derive(Debug, Clone, Copy)]
pub(super) struct BuriedReading {
    /// The frame of the sound at which it begins.
    pub(super) at: usize,
    pub(super) word: u32,
    pub(super) gain: f64,
}

/// A mark that is there.
#[derive(Debug, Clone, Copy)]
pub(super) struct BuriedMark {
    /// Where in the sound it begins.
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

    /// Reads what may be marks that begin in a hop before [`MARK_AT`].
    pub(super) fn read(&mut self, sound: &[f32], mut read: impl FnMut(BuriedReading)) {
        self.spectrum.take(sound, (0, 0), |_| 0.0, &mut self.mark);
        let weight = self.spectrum.weight_of(&self.sync);
        let products = self.spectrum.products(&self.sync, None);
        let most =
            products[FIRST..MARK_AT].iter().map(|product| product.re.abs()).fold(0.0, f32::max);
        let least = ((LEAST_READ * weight.energy.sqrt()) as f32).max(most * ECHO);
        let mut at = FIRST;
        for _ in 0..MOST_READ {
            let Some(next) = (at..MARK_AT).find(|at| is_peak(products, *at, least)) else { return };
            let sync = products[next].re;
            let word = word_in(|frame| products[next + frame].im * sync.signum());
            read(BuriedReading { at: next, word, gain: f64::from(sync) / weight.energy });
            at = next + CHIP;
        }
    }

    /// The mark of these chips, which was heard at this gain before, if it begins around
    /// [`MARK_AT`].
    pub(super) fn mark(&mut self, sound: &[f32], chips: u128, gain: f64) -> Option<BuriedMark> {
        let Self { spectrum, sync, mark } = self;
        spectrum.take(sound, reach(CHIPS), alone(chips, CHIPS), mark);
        let (whole, first) = (spectrum.weight_of(mark), spectrum.weight_of(sync));
        let products = spectrum.products(mark, Some(sync));
        let sign = gain.signum() as f32;
        let best = |range: core::ops::RangeInclusive<usize>| {
            range.max_by(|a, b| (products[*a].re * sign).total_cmp(&(products[*b].re * sign)))
        };
        let fits = |at: usize, least: f64| {
            let [product, half] = [products[at].re, products[at].im].map(|p| f64::from(p * sign));
            let gains = [
                product / whole.energy / LEAST_WHOLE,
                half / first.energy / LEAST_HALF,
                (product - half) / (whole.energy - first.energy) / LEAST_HALF,
            ];
            product >= least * whole.energy.sqrt() && gains.iter().all(|part| *part >= gain.abs())
        };
        let here = best(MARK_AT - AROUND..=MARK_AT + AROUND).filter(|at| fits(*at, LEAST_HERE));
        let at = here.or_else(|| {
            best(MARK_AT - FURTHEST..=MARK_AT + AROUND).filter(|at| fits(*at, LEAST_AWAY))
        })?;
        let Peak { at, product } = spectrum.peak(mark, at);
        let uncertainty = uncertainty(&whole, product);
        Some(BuriedMark { at, gain: product / whole.energy, uncertainty })
    }
}

/// Where so many chips are heard.
fn reach(count: usize) -> (i64, i64) {
    (1 - CHIP as i64, (count * CHIP) as i64)
}

/// The first chips without what comes before and after them: with an edge they would have the highest
/// frequencies, and those are where nothing else is.
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

/// The Cramér-Rao bound of a delay: what moves a peak is the noise over how bent it is.
fn uncertainty(weight: &Weight, product: f64) -> f64 {
    let deviation = weight.energy.sqrt() / product.abs() / weight.square_frequency.sqrt();
    ARITHMETIC + DEVIATIONS * deviation
}

type Product = rustfft::num_complex::Complex<f32>;

fn is_peak(products: &[Product], at: usize, least: f32) -> bool {
    let here = products[at].re.abs();
    here >= least && products[at - CHIP..=at + CHIP].iter().all(|beside| beside.re.abs() <= here)
}

/// The word of a mark from the sound by frame of it.
fn word_in(sound: impl Fn(usize) -> f32) -> u32 {
    let chip = |index: usize| -> f32 {
        let beside = |frame: usize| {
            let centre = index * CHIP;
            (sound(centre - frame) + sound(centre + frame)) * fade(frame as f64) as f32
        };
        sound(index * CHIP) + (1..CHIP).map(beside).sum::<f32>()
    };
    (0..WORD_BITS as usize).fold(0, |word, bit| {
        let index = SYNC_CHIPS + 2 * bit;
        (word << 1) | u32::from(chip(index) > chip(index + 1))
    })
}
