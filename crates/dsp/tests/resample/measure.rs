//! Resampler quality, measured with sines.

use std::f64::consts::TAU;

use tautline_dsp::resample::{Quality, Resampler, Step};

pub(crate) struct Fit {
    pub(crate) gain: f64,
    /// In turns from −½ to ½.
    pub(crate) turn: f64,
    /// RMS, relative to the sine.
    pub(crate) rest: f64,
}

impl Fit {
    /// In dB, full band.
    pub(crate) fn distortion_db(&self) -> f64 {
        20.0 * self.rest.log10()
    }

    pub(crate) fn gain_db(&self) -> f64 {
        20.0 * self.gain.log10()
    }
}

/// Below 15 kHz at 48 kHz: the kernel's error, plus roundings of 2^-24.
pub(crate) fn tolerance(quality: Quality) -> f64 {
    match quality {
        Quality::LowDelay => 3e-5,
        Quality::Balanced => 3e-6,
        Quality::Best => 5e-7,
    }
}

fn angle(frequency: f64, frame: usize) -> f64 {
    (frequency * frame as f64).fract() * TAU
}

pub(crate) fn sine(frequency: f64, frames: usize) -> Vec<f32> {
    (0..frames).map(|frame| angle(frequency, frame).sin() as f32).collect()
}

/// Starts at `fraction`.
pub(crate) fn resampled(quality: Quality, step: Step, fraction: u32, input: &[f32]) -> Vec<f32> {
    let mut resampler = Resampler::new(quality, 1, 48);
    resampler.set_fraction(fraction);
    let (mut out, mut rest, mut block) = (vec![], input, [0.0; 48]);
    while let Some((wanted, later)) = rest.split_at_checked(resampler.wants(48, step)) {
        resampler.push(wanted);
        resampler.pull(&mut block, step);
        out.extend_from_slice(&block);
        rest = later;
    }
    out
}

pub(crate) fn fit(samples: &[f32], frequency: f64) -> Fit {
    let waves = |frame| angle(frequency, frame).sin_cos();
    let (mut ss, mut sc, mut cc, mut sy, mut cy) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for (frame, &sample) in samples.iter().enumerate() {
        let ((sin, cos), sample) = (waves(frame), f64::from(sample));
        ss += sin * sin;
        sc += sin * cos;
        cc += cos * cos;
        sy += sin * sample;
        cy += cos * sample;
    }
    let determinant = ss * cc - sc * sc;
    let (a, b) = ((sy * cc - cy * sc) / determinant, (cy * ss - sy * sc) / determinant);
    let error = |(frame, sample): (usize, &f32)| {
        let (sin, cos) = waves(frame);
        (f64::from(*sample) - a * sin - b * cos).powi(2)
    };
    let rest: f64 = samples.iter().enumerate().map(error).sum();
    let gain = a.hypot(b);
    let rest = (rest / samples.len() as f64).sqrt() / (gain / 2_f64.sqrt());
    Fit { gain, turn: b.atan2(a) / TAU, rest }
}

/// 3 s at 48 kHz, to resolve images 5 Hz from the sine.
pub(crate) fn steady(quality: Quality, rate: f64, hertz: f64, step: Step) -> Fit {
    let out = resampled(quality, step, 0, &sine(hertz / rate, 140_000));
    let ratio = step.bits() as f64 / Step::ONE.bits() as f64;
    fit(&out[1000..], hertz / rate * ratio)
}

pub(crate) fn furthest_gain_db(quality: Quality, rate: f64, hertz: f64) -> f64 {
    let input = sine(hertz / rate, 3000);
    let gain = |fraction: u32| {
        let out = resampled(quality, Step::ONE, fraction << 27, &input);
        fit(&out[100..], hertz / rate).gain_db()
    };
    (1..32).map(gain).max_by(|a, b| a.abs().total_cmp(&b.abs())).unwrap_or(0.0)
}
