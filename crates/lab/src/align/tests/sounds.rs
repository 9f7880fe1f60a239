use core::f64::consts::{PI, TAU};

use fastrand::Rng;

/// Frames summed per side: −92 dB error up to 20 kHz at 48 kHz.
const HALF: i64 = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    White,
    Pink,
    Music,
    Narrow,
}

impl Kind {
    pub(super) const ALL: [Self; 4] = [Self::White, Self::Pink, Self::Music, Self::Narrow];

    pub(super) fn sound(self, frames: usize, rng: &mut Rng) -> Vec<f64> {
        match self {
            Self::White => low_passed(&noise(frames, rng), 20_000.0),
            Self::Pink => pink(&low_passed(&noise(frames, rng), 20_000.0)),
            Self::Narrow => low_passed(&noise(frames, rng), 4000.0),
            Self::Music => music(frames, rng),
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Way {
    pub(super) delay: f64,
    pub(super) drift: f64,
    pub(super) gain: f64,
}

impl Way {
    pub(super) fn delay_at(&self, frame: f64) -> f64 {
        self.delay + self.drift * frame
    }

    pub(super) fn second(&self, sound: &[f64]) -> Vec<f64> {
        let place = |at: usize| (at as f64 - self.delay) / (1.0 + self.drift);
        (0..sound.len()).map(|at| self.gain * between(sound, place(at))).collect()
    }
}

pub(super) fn with_noise(sound: &[f64], below_db: f64, rng: &mut Rng) -> Vec<f32> {
    let power = sound.iter().map(|sample| sample * sample).sum::<f64>() / sound.len() as f64;
    let level = power.sqrt() * 10.0_f64.powf(-below_db / 20.0);
    let noise = noise(sound.len(), rng);
    sound.iter().zip(noise).map(|(sample, noise)| (sample + level * noise) as f32).collect()
}

fn noise(frames: usize, rng: &mut Rng) -> Vec<f64> {
    (0..frames).map(|_| (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (TAU * rng.f64()).cos()).collect()
}

fn between(sound: &[f64], place: f64) -> f64 {
    let whole = place.floor();
    let part = place - whole;
    let turned = (PI * part).sin();
    let mut sum = 0.0;
    for tap in 1 - HALF..=HALF {
        let Some(sample) = usize::try_from(whole as i64 + tap).ok().and_then(|at| sound.get(at))
        else {
            continue;
        };
        let off = tap as f64 - part;
        let sine = if tap % 2 == 0 { -turned } else { turned };
        let sinc = if off == 0.0 { 1.0 } else { sine / (PI * off) };
        sum += sample * sinc * window(off / HALF as f64);
    }
    sum
}

fn sinc(at: f64, cut: f64) -> f64 {
    if at == 0.0 { cut } else { (PI * cut * at).sin() / (PI * at) }
}

/// Blackman-Harris over −1 to 1.
fn window(at: f64) -> f64 {
    if at.abs() >= 1.0 {
        return 0.0;
    }
    let cosine = (PI * at).cos();
    let (twice, thrice) = (2.0 * cosine * cosine - 1.0, (4.0 * cosine * cosine - 3.0) * cosine);
    0.35875 + 0.48829 * cosine + 0.14128 * twice + 0.01168 * thrice
}

pub(super) fn low_passed(sound: &[f64], hertz: f64) -> Vec<f64> {
    let cut = hertz / 24_000.0;
    let taps: Vec<_> = (-HALF..=HALF)
        .map(|tap| sinc(tap as f64, cut) * window(tap as f64 / (HALF + 1) as f64))
        .collect();
    let value = |at: usize| {
        let from = at as i64 - HALF;
        let inside = taps.iter().enumerate().filter_map(|(tap, weight)| {
            let sample = sound.get(usize::try_from(from + tap as i64).ok()?)?;
            Some(weight * sample)
        });
        inside.sum()
    };
    (0..sound.len()).map(value).collect()
}

/// Paul Kellet's filter: −3 dB per octave.
fn pink(white: &[f64]) -> Vec<f64> {
    let mut state = [0.0; 3];
    white
        .iter()
        .map(|white| {
            for (state, (keeps, takes)) in state.iter_mut().zip([
                (0.99765, 0.099_046),
                (0.963, 0.296_516_4),
                (0.57, 1.052_691_3),
            ]) {
                *state = keeps * *state + takes * white;
            }
            state.iter().sum::<f64>() + white * 0.1848
        })
        .collect()
}

fn music(frames: usize, rng: &mut Rng) -> Vec<f64> {
    let mut all = vec![0.0; frames];
    let mut at = 0;
    while at < frames {
        let pitch = 80.0 * 2.0_f64.powf(rng.f64() * 3.5);
        let phases: Vec<_> = (0..12).map(|_| TAU * rng.f64()).collect();
        for (index, sample) in all[at..].iter_mut().take(12_000).enumerate() {
            let time = index as f64 / 48_000.0;
            let loud = (time / 0.002).min(1.0) * (-time / 0.06).exp();
            let partials = phases.iter().enumerate().map(|(partial, phase)| {
                let partial = (partial + 1) as f64;
                (TAU * pitch * partial * time + phase).sin() / partial
            });
            *sample += loud * partials.sum::<f64>();
        }
        at += rng.usize(1000..4000);
    }
    let mut at = rng.usize(0..6000);
    let beats = low_passed(&noise(frames, rng), 16_000.0);
    while at < frames {
        for (index, sample) in all[at..].iter_mut().take(6000).enumerate() {
            *sample += beats[at + index] * (-(index as f64) / 700.0).exp();
        }
        at += rng.usize(4000..9000);
    }
    all
}
