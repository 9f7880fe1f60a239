//! Finds a run of samples in a longer run with partly whitened cross-correlation.

use rustfft::num_complex::Complex;
use tautline_dsp::align::Similarity;
use tautline_dsp::align::spectrum::Transform;
use tautline_dsp::fit::{largest, place_of_top};

/// Whitening exponent: 1 (PHAT) weighs noise like sound, 0 leaves low tones broad.
const WHITENED: f64 = 0.7;
/// Minimum energy of a bin relative to the strongest: −60 dB. Weaker bins are ignored.
const ENERGY: f64 = 1e-6;
/// Minimum peak height in standard deviations of random phase. Noise reaches 4.5 in 10,000 lags.
const STANDS_OUT: f64 = 7.0;
/// Alternative threshold for sound with few tones.
const ALIKE: f64 = 0.5;
/// Minimum coefficient without whitening. The residual then has less than half the energy.
const MUCH_ALIKE: f64 = core::f64::consts::FRAC_1_SQRT_2;
/// Maximum height of a second peak: −3 dB. A higher second peak makes the first peak ambiguous.
const SECOND: f64 = core::f64::consts::FRAC_1_SQRT_2;
const CANDIDATES: usize = 8;
/// Minimum fade at both ends of the longer run, in frames.
const RAMP: usize = 256;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Found {
    Lag(Lag),
    Unlike,
    Ambiguous(Vec<f64>),
    AtTheEnd,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Lag {
    pub(super) frames: f64,
    pub(super) confidence_db: f64,
}

pub(super) struct Correlator {
    max_delay: usize,
    transform: Transform,
    window: Vec<f64>,
    ramps: Vec<f64>,
    products: Vec<Complex<f64>>,
    raw: Vec<Complex<f64>>,
    lags: Vec<f64>,
}

impl Correlator {
    /// Lags are up to ± `max_delay`.
    pub(super) fn new(frames: usize, max_delay: usize) -> Self {
        let transform = Transform::new(frames + 2 * max_delay);
        let soft = |part: f64| (core::f64::consts::FRAC_PI_2 * part).sin().powi(2);
        let half = frames as f64 / 2.0;
        let inside = |at: usize, frames: usize| at.min(frames - 1 - at) as f64 + 0.5;
        let window = (0..frames).map(|at| soft(inside(at, frames) / half)).collect();
        let longer = frames + 2 * max_delay;
        let ramp = max_delay.max(RAMP).min(longer / 2) as f64;
        let ramps = (0..longer).map(|at| soft((inside(at, longer) / ramp).min(1.0))).collect();
        let products = Vec::with_capacity(transform.length() / 2 + 1);
        let lags = Vec::with_capacity(2 * max_delay + 1);
        Self { max_delay, transform, window, ramps, products, raw: Vec::new(), lags }
    }

    /// Finds `first` in `second`, which extends `max_delay` frames at both ends.
    pub(super) fn find(&mut self, first: &[f32], second: &[f32]) -> Found {
        let Self { max_delay, transform, window, ramps, products, raw, lags } = self;
        products.clear();
        let one =
            first.iter().zip(window.iter()).map(|(sample, window)| f64::from(*sample) * window);
        let other = second.iter().zip(ramps.iter()).map(|(sample, ramp)| f64::from(*sample) * ramp);
        transform.spectra(one, other, |_, one, other| products.push(one.conj() * other));
        let strongest = products.iter().map(|product| product.norm()).fold(0.0, f64::max);
        if strongest <= 0.0 {
            return Found::Unlike;
        }
        let mut squares = 0.0;
        // DC carries no timing.
        products[0] = Complex::default();
        raw.clone_from(products);
        for product in products.iter_mut() {
            let energy = product.norm();
            let weight = if energy > ENERGY * strongest { energy.powf(-WHITENED) } else { 0.0 };
            *product *= weight;
            squares += 2.0 * product.norm_sqr();
        }
        lags.clear();
        lags.extend(transform.samples(products).take(2 * *max_delay + 1));
        let (top, height) = largest(lags.iter().copied());
        if top == 0 || top == 2 * *max_delay {
            return Found::AtTheEnd;
        }
        let is_alike = alike(first, second, top) >= ALIKE;
        let (rival, second_height) = second_top(lags, top);
        let is_clear = second_height <= SECOND * height;
        let middle = *max_delay as f64;
        if is_alike && is_clear {
            return Found::Lag(lag(lags, top, middle));
        }
        // Whitening amplifies leakage between tones; the plain sound may be clear.
        let plain: Vec<_> = transform.samples(raw).take(2 * *max_delay + 1).collect();
        let (plain_top, plain_height) = largest(plain.iter().copied());
        let is_inside = plain_top > 0 && plain_top < 2 * *max_delay;
        if is_inside
            && alike(first, second, plain_top) >= MUCH_ALIKE
            && second_top(&plain, plain_top).1 <= SECOND * plain_height
        {
            return Found::Lag(lag(&plain, plain_top, middle));
        }
        if height < STANDS_OUT * squares.sqrt() && !is_alike {
            return Found::Unlike;
        }
        if is_clear {
            return Found::Lag(lag(lags, top, middle));
        }
        // Whitening shifts the peaks of a tone.
        let tops: Vec<_> = tops(&plain).map(|at| place_of_top(&plain, at) - middle).collect();
        let both = || [top, rival].map(|at| place_of_top(lags, at) - middle).to_vec();
        Found::Ambiguous(if tops.len() < 2 { both() } else { tops })
    }
}

fn lag(lags: &[f64], top: usize, middle: f64) -> Lag {
    let (height, (_, second)) = (lags[top].abs(), second_top(lags, top));
    Lag {
        frames: place_of_top(lags, top) - middle,
        confidence_db: 20.0 * (height / second.max(1e-9 * height)).log10(),
    }
}

fn alike(first: &[f32], second: &[f32], from: usize) -> f64 {
    let there = second.get(from..from + first.len()).unwrap_or_default();
    Similarity::between(first, there).correlation().abs()
}

fn second_top(lags: &[f64], top: usize) -> (usize, f64) {
    let hill = hill(lags, top);
    let lag = |(at, value): (usize, &f64)| if hill.contains(&at) { 0.0 } else { *value };
    largest(lags.iter().enumerate().map(lag))
}

fn tops(lags: &[f64]) -> impl Iterator<Item = usize> {
    // Correlation may rise beyond the range.
    let inner = lags.windows(3).enumerate().filter(|(_, three)| {
        let [before, here, after] = [three[0].abs(), three[1].abs(), three[2].abs()];
        here >= before && here > after
    });
    let mut tops: Vec<_> = inner.map(|(at, three)| (at + 1, three[1].abs())).collect();
    tops.sort_by(|one, other| other.1.total_cmp(&one.1));
    let minimum = SECOND * tops.first().map_or(0.0, |(_, height)| *height);
    tops.into_iter()
        .take_while(move |(_, height)| *height >= minimum)
        .map(|(at, _)| at)
        .take(CANDIDATES)
}

/// Lags around a peak, up to a sign change or valley.
fn hill(lags: &[f64], top: usize) -> core::ops::Range<usize> {
    let height = lags[top];
    let belongs = |here: f64, further: f64| {
        let (here, further) = (here / height, further / height);
        further > 0.0 && (further <= here || here > SECOND)
    };
    let after = lags[top..].windows(2).take_while(|two| belongs(two[0], two[1])).count();
    let before = lags[..=top].windows(2).rev().take_while(|two| belongs(two[1], two[0])).count();
    top - before..top + after + 1
}
