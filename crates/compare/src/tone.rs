//! Measures a sent sine in the recording, with harmonics and noise.

use core::f64::consts::TAU;

use serde::Serialize;

use super::sound::Sound;
use tautline_dsp::align::spectrum::Transform;
use tautline_dsp::fit::{solve, top};

/// Maximum residual of a sent sine: −40 dB.
const SINE: f64 = 1e-4;
/// Maximum residual of a recorded sine: −3 dB.
const HEARD: f64 = 0.5;
const HARMONICS: usize = 10;
const ROUNDS: usize = 8;
const MIN: usize = 4096;

/// Levels are relative to a full-scale sine.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Tone {
    /// Frequency at the nominal rate.
    pub hertz: f64,
    pub level_dbfs: f64,
    /// Everything except the sine and DC, relative to the whole. Median over seconds.
    pub thd_n_db: f64,
    /// Second to tenth harmonic, relative to the sine.
    pub thd_db: f64,
    /// Noise in dBFS: neither the sine nor a harmonic.
    pub noise_dbfs: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TestTone {
    /// Recorded channel, from 0.
    pub channel: usize,
    pub sent: Tone,
    pub received: Option<Tone>,
}

pub(super) fn tones(sent: &Sound, received: &Sound, sources: &[usize]) -> Vec<TestTone> {
    let pairs = sources.iter().enumerate();
    let tone = |(channel, source): (usize, &usize)| {
        let sent = median(sent, *source, SINE)?;
        Some(TestTone { channel, sent, received: median(received, channel, HEARD) })
    };
    pairs.filter_map(tone).collect()
}

/// By residual, over the seconds.
fn median(sound: &Sound, channel: usize, maximum: f64) -> Option<Tone> {
    let sounding = sound.sounding();
    let samples = &sound.channels[channel][sounding];
    let second = (sound.rate.hertz() as usize).min(samples.len());
    if second < MIN {
        return None;
    }
    let mut transform = Transform::new(second);
    let mut all: Vec<Tone> = Vec::new();
    for part in samples.chunks_exact(second) {
        let fitted = fit(part, f64::from(sound.rate.hertz()), &mut transform, maximum);
        if fitted.is_none() && all.is_empty() && maximum == SINE {
            return None;
        }
        all.extend(fitted);
    }
    all.sort_by(|one, other| one.thd_n_db.total_cmp(&other.thd_n_db));
    all.get(all.len().checked_sub(1)? / 2).copied()
}

/// Four-parameter sine fit per IEEE 1057.
fn fit(samples: &[f32], rate: f64, transform: &mut Transform, maximum: f64) -> Option<Tone> {
    let count = samples.len() as f64;
    let mut turn = strongest(samples, transform)?;
    let middle = (count - 1.0) / 2.0;
    let mut sine = [0.0; 4];
    for _ in 0..ROUNDS {
        // Offset, cosine, sine, derivative with respect to frequency.
        let mut rows = [[0.0; 5]; 4];
        for (at, sample) in samples.iter().enumerate() {
            let off = at as f64 - middle;
            let (s, c) = (turn * off).sin_cos();
            let more = off / count * (sine[2] * c - sine[1] * s);
            let terms = [1.0, c, s, more, f64::from(*sample)];
            for (row, term) in rows.iter_mut().zip(terms) {
                row.iter_mut().zip(terms).for_each(|(sum, other)| *sum += term * other);
            }
        }
        // Keeps the equations solvable in the first round.
        (0..4).for_each(|at| rows[at][at] += 1e-12 * count);
        let solution = solve(&mut rows).then(|| rows.map(|row| row[4]))?;
        let faster = if sine == [0.0; 4] { 0.0 } else { solution[3] / count };
        sine = solution;
        turn += faster.clamp(-1.0 / count, 1.0 / count);
    }
    let [offset, cosine, sine, _] = sine;
    let (mut total, mut rest) = (0.0, Vec::with_capacity(samples.len()));
    for (at, sample) in samples.iter().enumerate() {
        let (s, c) = (turn * (at as f64 - middle)).sin_cos();
        let sample = f64::from(*sample) - offset;
        total += sample * sample;
        rest.push(sample - cosine * c - sine * s);
    }
    let alongside: f64 = rest.iter().map(|rest| rest * rest).sum();
    if total <= 0.0 || alongside > maximum * total {
        return None;
    }
    let harmonics: f64 = (2..=HARMONICS)
        .map(|harmonic| harmonic as f64 * turn)
        .filter(|turn| *turn < TAU / 2.0)
        .map(|turn| {
            let (mut real, mut imaginary) = (0.0, 0.0);
            for (at, rest) in rest.iter().enumerate() {
                let (s, c) = (turn * (at as f64 - middle)).sin_cos();
                real += rest * c;
                imaginary += rest * s;
            }
            2.0 * (real * real + imaginary * imaginary) / count
        })
        .sum();
    let decibels = |ratio: f64| 10.0 * ratio.max(1e-20).log10();
    let level = (cosine * cosine + sine * sine) * count / 2.0;
    Some(Tone {
        hertz: turn / TAU * rate,
        level_dbfs: decibels(2.0 * level / count),
        thd_n_db: decibels(alongside / total),
        thd_db: decibels(harmonics / level),
        noise_dbfs: decibels(2.0 * (alongside - harmonics).max(0.0) / count),
    })
}

/// In radians per frame.
fn strongest(samples: &[f32], transform: &mut Transform) -> Option<f64> {
    let count = samples.len() as f64;
    let windowed = samples.iter().enumerate().map(|(at, sample)| {
        f64::from(*sample) * (core::f64::consts::PI * (at as f64 + 0.5) / count).sin().powi(2)
    });
    let mut powers = Vec::new();
    transform.spectra(windowed, core::iter::empty(), |_, one, _| powers.push(one.norm_sqr()));
    let from = 4.min(powers.len());
    let (at, _) = powers.iter().enumerate().skip(from).max_by(|a, b| a.1.total_cmp(b.1))?;
    let [before, here, after] =
        [at - 1, at, (at + 1).min(powers.len() - 1)].map(|k| powers[k].max(1e-300).ln());
    let off = top([before, here, after]);
    (here > 1e-290_f64.ln()).then(|| TAU * (at as f64 + off) / transform.length() as f64)
}
