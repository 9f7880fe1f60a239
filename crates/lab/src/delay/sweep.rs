//! Sweeps, for acoustic paths (speaker to microphone).
//!
//! Linear, 0.5 to 20 % of the rate, under a raised cosine: the autocorrelation is low outside
//! [`LOBE`]. Correlation gains 35 dB over noise. An echo within the lobe shifts the peak.
//!
//! Only time identifies a sweep, so the delay must be less than [`spacing`].

use rustfft::num_complex::Complex;
use tautline_dsp::align::energy;
use tautline_dsp::align::spectrum::Transform;
use tautline_dsp::fit::{largest, place_of_top};
use tautline_dsp::timecode::PlacedMark;
use tautline_proto::units::Rate;

/// Frames per sweep, half of it sound: 0.68 s at 48 and 96 kHz, at least 0.67 s.
pub(super) fn spacing(rate: Rate) -> usize {
    (rate.hertz() as usize * 2 / 3).next_power_of_two()
}

const FROM: f64 = 0.005;
const TO: f64 = 0.2;
/// Frames around the autocorrelation's peak.
const LOBE: usize = 40;
/// Minimum height of the peak over all values outside the lobe.
pub(super) const MIN_CLEAR_DB: f64 = 3.0;
const FINE: usize = 4;
/// Position error in standard deviations of the noise, and of interpolation in frames.
const DEVIATIONS: f64 = 6.0;
const INTERPOLATED: f64 = 0.01;

fn sweep(length: usize) -> Vec<f32> {
    let sample = |frame: usize| {
        let at = frame as f64 / length as f64;
        let turns = length as f64 * (FROM * at + (TO - FROM) / 2.0 * at * at);
        let [turn, fade] = [turns, at].map(|turns| core::f64::consts::TAU * turns);
        (turn.sin() * (0.5 - 0.5 * fade.cos())) as f32
    };
    (0..length).map(sample).collect()
}

pub(super) struct Sweeper {
    sweep: Box<[f32]>,
    spacing: usize,
    peak: f32,
    number: u32,
    frame: usize,
}

impl Sweeper {
    pub(super) fn at_level(rate: Rate, decibels: f64) -> Self {
        let spacing = spacing(rate);
        let peak = 10_f64.powf(decibels / 20.0) as f32;
        Self { sweep: sweep(spacing / 2).into(), spacing, peak, number: 0, frame: 0 }
    }

    /// A sweep's position is its first frame. Real-time safe.
    pub(super) fn fill(
        &mut self,
        channels: usize,
        samples: &mut [f32],
        mut placed: impl FnMut(PlacedMark),
    ) {
        for (frame, samples) in samples.chunks_mut(channels.max(1)).enumerate() {
            if self.frame == 0 {
                placed(PlacedMark { number: self.number, frame });
            }
            samples.fill(self.peak * self.sweep.get(self.frame).copied().unwrap_or(0.0));
            self.frame += 1;
            if self.frame == self.spacing {
                self.frame = 0;
                self.number = (self.number + 1) % tautline_dsp::timecode::NUMBERS;
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct FoundSweep {
    pub(super) frame: i64,
    pub(super) fraction: f64,
    pub(super) uncertainty: f64,
    pub(super) confidence: f64,
    /// Gain: 1 is full scale; negative if the polarity is inverted.
    pub(super) gain: f64,
    pub(super) clear_db: f64,
}

pub(super) struct SweepFinder {
    sweep: Box<[f32]>,
    spacing: usize,
    energy: f64,
    /// RMS frequency, radians per frame: sharpness of the peak.
    sharpness: f64,
    transform: Transform,
    fine: Transform,
    sound: Vec<f32>,
    first: i64,
    best_unclear_db: Option<f64>,
}

impl SweepFinder {
    pub(super) fn at(rate: Rate) -> Self {
        let spacing = spacing(rate);
        let sweep = sweep(spacing / 2);
        let mut transform = Transform::new(spacing + sweep.len());
        let fine = Transform::new(transform.length() * FINE);
        let length = transform.length() as f64;
        let (mut power, mut weighed) = (0.0, 0.0);
        let samples = || sweep.iter().map(|sample| f64::from(*sample));
        transform.spectra(samples(), core::iter::empty(), |bin, value, _| {
            let turn = core::f64::consts::TAU * bin as f64 / length;
            power += value.norm_sqr();
            weighed += value.norm_sqr() * turn * turn;
        });
        let energy = samples().map(|sample| sample * sample).sum();
        let sharpness = (weighed / power).sqrt();
        let sweep = sweep.into();
        // Silence keeps a first sweep off the edge.
        let before = 2 * LOBE;
        let (sound, first, best_unclear_db) = (vec![0.0; before], -(before as i64), None);
        Self { sweep, spacing, energy, sharpness, transform, fine, sound, first, best_unclear_db }
    }

    pub(super) const fn spacing(&self) -> usize {
        self.spacing
    }

    pub(super) fn push(&mut self, samples: &[f32], mut found: impl FnMut(FoundSweep)) {
        self.sound.extend_from_slice(samples);
        while self.sound.len() >= self.spacing + self.sweep.len() {
            let mut passed = self.spacing / 2;
            match self.search() {
                Some(sweep) if sweep.clear_db >= MIN_CLEAR_DB => {
                    passed += (sweep.frame - self.first) as usize;
                    found(sweep);
                }
                Some(FoundSweep { clear_db, .. }) => {
                    let best = self.best_unclear_db.map_or(clear_db, |best| best.max(clear_db));
                    self.best_unclear_db = Some(best);
                }
                None => {}
            }
            let passed = passed.min(self.sound.len());
            self.sound.drain(..passed);
            self.first += passed as i64;
        }
    }

    pub(super) fn best_unclear_db(&self) -> Option<f64> {
        self.best_unclear_db
    }

    /// Best position within a spacing; `None` in silence or at an end.
    fn search(&mut self) -> Option<FoundSweep> {
        let length = self.transform.length();
        let mut product = vec![Complex::default(); length / 2 + 1];
        let sound =
            self.sound[..self.spacing + self.sweep.len()].iter().map(|sample| f64::from(*sample));
        let sweep = self.sweep.iter().map(|sample| f64::from(*sample));
        self.transform.spectra(sound, sweep, |bin, received, meant| {
            product[bin] = received * meant.conj();
        });
        let lags: Vec<f64> = self.fine.samples(&product).take(self.spacing * FINE).collect();
        let (at, _) = largest(lags.iter().copied());
        let lobe = LOBE * FINE;
        if at < lobe || at + lobe >= lags.len() {
            return None;
        }
        let peak = lags[at];
        let outside = || lags[..at - lobe].iter().chain(&lags[at + lobe..]);
        let (_, maximum) = largest(outside().copied());
        let mean = outside().map(|lag| lag * lag).sum::<f64>() / outside().count() as f64;
        if peak == 0.0 {
            return None;
        }
        let place = place_of_top(&lags, at) / FINE as f64;
        let frame = place.round();
        let here = &self.sound[frame as usize..][..self.sweep.len()];
        let fits = peak / length as f64;
        Some(FoundSweep {
            frame: self.first + frame as i64,
            fraction: place - frame,
            uncertainty: DEVIATIONS * mean.sqrt() / (peak.abs() * self.sharpness) + INTERPOLATED,
            confidence: (fits.abs() / (self.energy * energy(here)).sqrt()).min(1.0),
            gain: fits / self.energy,
            clear_db: 20.0 * (peak.abs() / maximum.max(f64::MIN_POSITIVE)).log10(),
        })
    }
}
