//! Prediction of one channel.
//!
//! Tones and voice pitch lie below 5 kHz. So the low band is predicted at about 12 kHz, for a
//! sixteenth of the work; a short model at the full rate predicts the rest.

use super::bands::Bands;
use super::model::{Fitter, dot};

#[derive(Debug, Clone)]
pub(super) struct Bench {
    bands: Bands,
    fitter: Fitter,
    sound: Box<[f32]>,
    low: Box<[f64]>,
    low_order: usize,
    high_order: usize,
    high_window: usize,
}

impl Bench {
    const LOW_RATE: u32 = 12_000;
    /// Maximum window at the full rate: 5 ms at 48 kHz.
    const HIGH_WINDOW: usize = 240;
    /// Maximum filter order per channel, and of all channels together: (low band, full rate).
    const ORDER: (usize, usize) = (128, 32);
    const BUDGET: (usize, usize) = (512, 128);

    pub(super) fn new(rate: u32, window: usize, channels: usize) -> Self {
        let factor = ((rate + Self::LOW_RATE / 2) / Self::LOW_RATE).max(1);
        let bands = Bands::new(factor as usize);
        let low = bands.count(window);
        let low_order = Self::ORDER.0.min(Self::BUDGET.0 / channels);
        let high_window = Self::HIGH_WINDOW.min(rate as usize / 200);
        let high_order = Self::ORDER.1.min(Self::BUDGET.1 / channels);
        Self {
            fitter: Fitter::new(low.max(high_window), low_order.max(high_order)),
            sound: vec![0.0; window].into(),
            low: vec![0.0; low + Bands::TAPS].into(),
            bands,
            low_order,
            high_order,
            high_window,
        }
    }

    pub(super) fn minimum(&self) -> usize {
        self.high_window + (Bands::TAPS + 1) * self.bands.factor()
    }

    pub(super) fn sound(&mut self, frames: usize) -> &mut [f32] {
        &mut self.sound[..frames]
    }
}

#[derive(Debug, Clone)]
pub(super) struct Prediction {
    low: PredictedSignal,
    high: PredictedSignal,
    phase: usize,
    /// Falls when a prediction exceeds the sound.
    trust: f32,
    peak: f32,
}

impl Prediction {
    /// Factor above the peak at which a prediction counts as growing.
    const TOO_HIGH: f64 = 1.5;
    const DISTRUST: f32 = 0.9;

    /// Allocates here only.
    pub(super) fn new(bench: &Bench) -> Self {
        Self {
            low: PredictedSignal::new(bench.low_order, bench.low_order.max(Bands::TAPS)),
            high: PredictedSignal::new(bench.high_order, bench.high_order),
            phase: 0,
            trust: 1.0,
            peak: 0.0,
        }
    }

    /// Reuses the last models unless `fit`.
    pub(super) fn begin(&mut self, bench: &mut Bench, frames: usize, peak: f32, fit: bool) {
        let Bench { bands, fitter, sound, low, high_window, .. } = bench;
        let sound = &mut sound[..frames];
        // Models are independent of level; scaling prevents overflow.
        let scale = if peak >= f32::MIN_POSITIVE { peak.recip() } else { 0.0 };
        sound.iter_mut().for_each(|sample| *sample *= scale);
        // A longer model would continue the sound before 2.5 ms of silence.
        let silent = sound[frames - *high_window / 2..].iter().all(|sample| *sample == 0.0);
        (self.peak, self.trust, self.phase) = (peak, if silent { 0.0 } else { 1.0 }, 0);

        let known = bands.count(frames);
        let low = &mut low[..known + Bands::TAPS];
        bands.take(sound, &mut low[..known]);
        if fit {
            for (into, low) in fitter.window(known).iter_mut().zip(&*low) {
                *into = *low as f32;
            }
            fitter.fit(known, &mut self.low.model);
        }
        // The filter lags; the model of the rest absorbs the error.
        self.low.begin(&low[..known]);
        low[known..].fill_with(|| self.low.step());

        let rest = fitter.window(*high_window);
        rest.copy_from_slice(&sound[frames - *high_window..]);
        for (ago, sample) in rest.iter_mut().rev().enumerate() {
            let steps = ago / bands.factor() + 1;
            let phase = steps * bands.factor() - ago - 1;
            *sample -= bands.back(&low[..low.len() - steps], phase) as f32;
        }
        self.high.begin(&*rest);
        if fit {
            fitter.fit(*high_window, &mut self.high.model);
        }
    }

    pub(super) fn next(&mut self, bench: &Bench) -> f32 {
        let reported = bench.bands.back(self.low.reported(), self.phase) + self.high.step();
        self.phase += 1;
        if self.phase == bench.bands.factor() {
            self.phase = 0;
            self.low.step();
        }
        if reported.abs() > Self::TOO_HIGH {
            self.trust *= Self::DISTRUST;
        }
        reported.clamp(-1.0, 1.0) as f32 * self.trust * self.peak
    }
}

#[derive(Debug, Clone)]
struct PredictedSignal {
    model: Box<[f64]>,
    /// Up to `end`.
    samples: Box<[f64]>,
    memory: usize,
    end: usize,
}

impl PredictedSignal {
    const ROOM: usize = 64;
    /// Maximum magnitude of a prediction. Stable models may still grow transiently.
    const MAX: f64 = 4.0;

    fn new(order: usize, memory: usize) -> Self {
        Self {
            model: vec![0.0; order].into(),
            samples: vec![0.0; memory + Self::ROOM].into(),
            memory,
            end: memory,
        }
    }

    fn begin<T: Copy + Into<f64>>(&mut self, signal: &[T]) {
        let newest = &signal[signal.len().saturating_sub(self.memory)..];
        self.end = self.memory;
        let (silence, memory) = self.samples[..self.end].split_at_mut(self.memory - newest.len());
        silence.fill(0.0);
        memory.iter_mut().zip(newest).for_each(|(into, sample)| *into = (*sample).into());
    }

    fn reported(&self) -> &[f64] {
        &self.samples[..self.end]
    }

    fn step(&mut self) -> f64 {
        if self.end == self.samples.len() {
            self.samples.copy_within(self.end - self.memory.., 0);
            self.end = self.memory;
        }
        let reported = dot(&self.samples[self.end - self.model.len()..self.end], &self.model);
        // Final guard for unforeseen sound.
        let reported = if reported.is_nan() { 0.0 } else { reported.clamp(-Self::MAX, Self::MAX) };
        self.samples[self.end] = reported;
        self.end += 1;
        reported
    }
}
