//! Test material, 48 kHz mono.

use std::f64::consts::TAU;

use crate::RATE;

/// xorshift64*, Vigna 2016.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn noise(&mut self) -> f64 {
        2.0 * self.unit() - 1.0
    }
}

/// Two poles, gain 1 at zero (Klatt, "Software for a cascade/parallel formant synthesizer", 1980).
#[derive(Default)]
struct Resonance {
    before: [f64; 2],
}

impl Resonance {
    fn pass(&mut self, sample: f64, frequency: f64, width: f64) -> f64 {
        let radius = (-TAU / 2.0 * width / RATE as f64).exp();
        let (b, c) = (2.0 * radius * (TAU * frequency / RATE as f64).cos(), -radius * radius);
        let out = (1.0 - b - c) * sample + b * self.before[0] + c * self.before[1];
        self.before = [out, self.before[0]];
        out
    }
}

/// Of a, i, u, e and o, in Hz (Peterson and Barney, 1952, men).
const VOWELS: [[f64; 3]; 5] = [
    [730.0, 1090.0, 2440.0],
    [270.0, 2290.0, 3010.0],
    [300.0, 870.0, 2240.0],
    [530.0, 1840.0, 2480.0],
    [570.0, 840.0, 2410.0],
];

/// 220 ms each: an unvoiced consonant, then a gliding vowel at 95 to 150 Hz.
pub(crate) fn speech(seconds: usize) -> Vec<f32> {
    let mut random = Random(1);
    let mut formants: [Resonance; 4] = Default::default();
    let (mut phase, mut pitch, mut flow, mut dull) = (0.0, 120.0, 0.0, 0.0);
    let syllable = RATE * 22 / 100;
    let out = (0..seconds * RATE).map(|at| {
        let (number, within) = (at / syllable, (at % syllable) as f64 / syllable as f64);
        let (one, next) = (VOWELS[number * 2 % 5], VOWELS[(number * 2 + 2) % 5]);
        let pause = number % 6 == 5;
        let voiced =
            if pause { 0.0 } else { ramp(within, 0.25, 0.35) * ramp(1.0 - within, 0.0, 0.15) };
        let hissed =
            if pause { 0.0 } else { ramp(within, 0.02, 0.06) * ramp(0.3 - within, 0.0, 0.08) };
        phase += pitch / RATE as f64;
        if phase >= 1.0 {
            phase -= 1.0;
            let melody = 122.0 + 27.0 * (TAU * at as f64 / RATE as f64 * 0.37).sin();
            pitch = melody * (1.0 + 0.008 * random.noise());
        }
        // After Rosenberg (1971): rises for 40 % of the period, falls for 16 %.
        let opening = match phase {
            p if p < 0.4 => 0.5 - 0.5 * (TAU / 2.0 * p / 0.4).cos(),
            p if p < 0.56 => (TAU / 4.0 * (p - 0.4) / 0.16).cos(),
            _ => 0.0,
        };
        let pulse = opening - flow;
        flow = opening;
        let mut sound = 14.0 * pulse * voiced + 0.003 * random.noise() * voiced;
        for (index, formant) in formants.iter_mut().enumerate() {
            let glide = (within - 0.25).max(0.0) / 0.75;
            let frequency = match index {
                3 => 3500.0,
                _ => one[index] + (next[index] - one[index]) * glide,
            };
            sound = formant.pass(sound, frequency, [60.0, 90.0, 120.0, 200.0][index]);
        }
        let hiss = random.noise();
        dull += 0.35 * (hiss - dull);
        sound + 0.08 * hissed * (hiss - dull) + 2e-5 * random.noise()
    });
    normal(out.collect())
}

fn ramp(at: f64, begin: f64, end: f64) -> f64 {
    ((at - begin) / (end - begin)).clamp(0.0, 1.0)
}

pub(crate) fn chords(seconds: usize) -> Vec<f32> {
    let roots = [220.0, 174.614, 130.813, 195.998];
    let mut random = Random(2);
    let mut out = vec![0.0; seconds * RATE];
    let length = RATE * 6 / 10;
    for (number, start) in (0..out.len()).step_by(length).enumerate() {
        for interval in [1.0, 1.2599, 1.4983, 2.0] {
            let string = roots[number % 4] * interval;
            for partial in 1..=14_u32 {
                let n = f64::from(partial);
                let frequency = string * n * (1.0 + 0.0003 * n * n).sqrt();
                let (phase, level) = (TAU * random.unit(), 0.3 / n.powf(1.2));
                let decay = 1.2 / (1.0 + 0.25 * n);
                for (at, sample) in out[start..].iter_mut().take(3 * length).enumerate() {
                    let t = at as f64 / RATE as f64;
                    let attack = (t / 0.004).min(1.0);
                    *sample +=
                        level * attack * (-t / decay).exp() * (TAU * frequency * t + phase).sin();
                }
            }
        }
    }
    normal(out)
}

pub(crate) fn drums(seconds: usize) -> Vec<f32> {
    let mut random = Random(3);
    let mut out = vec![0.0; seconds * RATE];
    for (number, start) in (0..out.len()).step_by(RATE * 18 / 100).enumerate() {
        let (mut phase, mut dull) = (0.0, 0.0);
        for (at, sample) in out[start..].iter_mut().take(RATE / 3).enumerate() {
            let t = at as f64 / RATE as f64;
            let (low, high) = if number % 2 == 0 { (55.0, 90.0) } else { (180.0, 60.0) };
            phase += (low + high * (-t / 0.03).exp()) / RATE as f64;
            let hiss = random.noise();
            dull += 0.5 * (hiss - dull);
            let snare = if number % 2 == 0 { 0.05 } else { 0.6 };
            *sample += (TAU * phase).sin() * (-t / 0.09).exp() + snare * dull * (-t / 0.05).exp();
        }
    }
    normal(out)
}

/// To a peak 6 dB below full scale.
fn normal(sound: Vec<f64>) -> Vec<f32> {
    let peak = sound.iter().fold(0.0_f64, |peak, sample| peak.max(sample.abs()));
    sound.iter().map(|sample| (0.5 * sample / peak) as f32).collect()
}
