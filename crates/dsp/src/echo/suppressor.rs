//! Suppresses residual echo. The filter has minimum phase, so it adds no delay.

use super::transform::{Bins, Transform, convolve};
use crate::vector::widest;

const TAPS: usize = 128;
const OVER: f32 = 0.5;
/// Minimum gain: −9 dB.
const MIN: f32 = 0.35;

/// Relative power of distortion: −36 dB.
const DISTORTION: f32 = 2.5e-4;

/// Decay per block of echo not yet learned.
const FADES: f32 = 0.5;

pub(super) struct Suppressor {
    hop: usize,
    left: Box<[f32]>,
    echo: Box<[f32]>,
    window: Box<[f32]>,
    windowed: Box<[f32]>,
    spectrum: Bins,
    power: Box<[f32]>,
    expected: Box<[f32]>,
    noise: Box<[f32]>,
    gains: Box<[f32]>,
    before: Box<[f32]>,
    taps: Box<[f32]>,
    acts: [bool; 2],
    past: Box<[f32]>,
    fade: Box<[f32]>,
}

impl Suppressor {
    /// `length` is a power of two.
    pub(super) fn new(length: usize) -> Self {
        let (bins, hop) = (length / 2 + 1, length / 4);
        // Falls fast, to favour the newest samples.
        let falls = length / 8;
        let window = |at: usize| {
            let phase = match length - at {
                left if left <= falls => (left as f32 - 0.5) / falls as f32,
                _ => (at as f32 + 0.5) / (length - falls) as f32,
            };
            (phase * core::f32::consts::FRAC_PI_2).sin()
        };
        let mut identity = vec![0.0; TAPS];
        identity[0] = 1.0;
        Self {
            hop,
            left: vec![0.0; length].into(),
            echo: vec![0.0; length].into(),
            window: (0..length).map(window).collect(),
            windowed: vec![0.0; length].into(),
            spectrum: Bins::new(bins),
            power: vec![0.0; bins].into(),
            expected: vec![0.0; bins].into(),
            noise: vec![0.0; bins].into(),
            gains: vec![1.0; bins].into(),
            before: identity.clone().into(),
            taps: identity.into(),
            acts: [false; 2],
            past: vec![0.0; TAPS - 1 + hop].into(),
            fade: vec![0.0; hop].into(),
        }
    }

    pub(super) fn hop(&self) -> usize {
        self.hop
    }

    pub(super) fn rest(&mut self) {
        self.expected.fill(0.0);
        self.gains.fill(1.0);
        self.acts = [false; 2];
        for taps in [&mut self.before, &mut self.taps] {
            taps.fill(0.0);
            taps[0] = 1.0;
        }
    }

    /// These bins are twice as wide.
    pub(super) fn expect(&mut self, power: impl Iterator<Item = f32>) {
        let scale = self.window.iter().map(|weight| weight * weight).sum::<f32>()
            / self.window.len() as f32;
        for (expected, power) in self.expected.iter_mut().zip(power.step_by(2)) {
            *expected = (0.5 * scale * power).max(FADES * *expected);
        }
    }

    /// `at` is a frame of a hop.
    pub(super) fn filter(
        &mut self,
        at: usize,
        sound: &mut [f32],
        (received, echo): (&[f32], &[f32]),
    ) {
        let count = sound.len();
        let rest = self.left.len() - count;
        self.left.copy_within(count.., 0);
        self.echo.copy_within(count.., 0);
        self.echo[rest..].copy_from_slice(echo);
        for (line, (received, echo)) in self.left[rest..].iter_mut().zip(received.iter().zip(echo))
        {
            *line = received - echo;
        }
        let Self { past, fade, .. } = self;
        for (past, sound) in past[TAPS - 1..].iter_mut().zip(&*sound) {
            *past = if sound.is_finite() { sound.clamp(-4.0, 4.0) } else { 0.0 };
        }
        if self.acts != [false; 2] {
            let (before, now) = (&self.before, &self.taps);
            let fade = &mut fade[..count];
            let past = &past[..TAPS - 1 + count];
            fade.fill(0.0);
            widest(
                #[inline(always)]
                |_| convolve(past, before, fade),
            );
            sound.fill(0.0);
            widest(
                #[inline(always)]
                |_| convolve(past, now, sound),
            );
            for (frame, (sound, before)) in sound.iter_mut().zip(&*fade).enumerate() {
                let share = (at + frame + 1) as f32 / self.hop as f32;
                *sound = before + share * (*sound - before);
            }
        }
        past.copy_within(count..count + TAPS - 1, 0);
    }

    pub(super) fn next_hop(&mut self, transform: &mut Transform) {
        self.before.copy_from_slice(&self.taps);
        self.acts[0] = self.acts[1];
        let Self { windowed, window, spectrum, power, gains, noise, expected, .. } = self;
        let mut spectrum_of = |samples: &[f32], spectrum: &mut Bins| {
            for (to, (sample, weight)) in windowed.iter_mut().zip(samples.iter().zip(window.iter()))
            {
                *to = sample * weight;
            }
            transform.forward(windowed, spectrum);
        };
        spectrum_of(&self.echo, spectrum);
        power.iter_mut().zip(spectrum.power()).for_each(|(to, power)| *to = power);
        spectrum_of(&self.left, spectrum);
        // Louder near sound masks the residual echo.
        let residual = |k: usize| expected[k] + DISTORTION * power[k];
        let echo: f32 = (0..power.len()).map(residual).sum();
        let over = OVER * (echo / (spectrum.power().sum::<f32>() + 1e-20)).min(1.0).sqrt().sqrt();
        let mut minimum = 1.0_f32;
        for (k, left) in spectrum.power().enumerate() {
            // Falls immediately, rises 3 dB in 0.25 s.
            noise[k] = if left < noise[k] || noise[k] == 0.0 {
                noise[k] + 0.3 * (left - noise[k])
            } else {
                (noise[k] * 1.008).min(left)
            };
            let residual = residual(k);
            let floor = (noise[k] / (left + 1e-20)).sqrt().clamp(MIN, 1.0);
            let gain = match residual > 0.0 {
                true => (1.0 - over * residual / (left + 1e-20)).max(floor),
                false => 1.0,
            };
            let step = if gain < gains[k] { 0.7 } else { 0.5 };
            gains[k] += step * (gain - gains[k]);
            if gains[k] > 0.999 {
                gains[k] = 1.0;
            }
            minimum = minimum.min(gains[k]);
        }
        self.acts[1] = minimum < 1.0;
        if minimum < 1.0 {
            self.make_taps(transform);
        } else {
            self.taps.fill(0.0);
            self.taps[0] = 1.0;
        }
    }

    fn make_taps(&mut self, transform: &mut Transform) {
        let Self { spectrum, windowed, gains, taps, .. } = self;
        spectrum.im.fill(0.0);
        // There are fewer taps than bins.
        for k in 0..gains.len() {
            let (low, high) = (gains[k.saturating_sub(1)], gains[(k + 1).min(gains.len() - 1)]);
            spectrum.re[k] = (0.25 * low + 0.5 * gains[k] + 0.25 * high).ln();
        }
        transform.inverse(spectrum, windowed);
        let half = windowed.len() / 2;
        windowed[1..half].iter_mut().for_each(|sample| *sample *= 2.0);
        windowed[half + 1..].fill(0.0);
        transform.forward(windowed, spectrum);
        for (re, im) in spectrum.re.iter_mut().zip(&mut spectrum.im) {
            let (size, (sin, cos)) = (re.exp(), im.sin_cos());
            (*re, *im) = (size * cos, size * sin);
        }
        transform.inverse(spectrum, windowed);
        for (at, (tap, sample)) in taps.iter_mut().zip(windowed.iter()).enumerate() {
            let fades = (TAPS - at) as f32 / (TAPS / 2) as f32;
            *tap = sample * fades.min(1.0);
        }
    }
}
