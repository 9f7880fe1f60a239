//! One channel that goes on as it was.
//!
//! The tones of music and the pitch of a voice are told apart only by models that reach back some
//! 10 ms, but nearly all of them lie below 5 kHz: so the low band is predicted at about 12 kHz,
//! where that is a sixteenth of the work, and what it leaves of the sound by a short model at the
//! full rate.

use super::bands::Bands;
use super::model::{Fitter, dot};

/// What the predictions of a stream have in common: filter, sizes, memory to begin in.
#[derive(Debug, Clone)]
pub(super) struct Bench {
    bands: Bands,
    fitter: Fitter,
    /// The sound that a prediction learns from, oldest frame first.
    sound: Box<[f32]>,
    low: Box<[f64]>,
    low_order: usize,
    high_order: usize,
    high_window: usize,
}

impl Bench {
    /// The low band's rate, roughly.
    const LOW_RATE: u32 = 12_000;
    /// Frames that the full rate's model is fitted to, at most: 5 ms at 48 kHz.
    const HIGH_WINDOW: usize = 240;
    /// Coefficients of the models of one channel and of all together: low band, full rate.
    const ORDER: (usize, usize) = (128, 32);
    const BUDGET: (usize, usize) = (512, 128);

    /// For sound of `rate` frames in a second, of which up to `window` are learnt from, and so
    /// many channels. Allocates; nothing later does.
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

    pub(super) fn least(&self) -> usize {
        // As many low samples as the frames are made of to which the full rate's model is fitted.
        self.high_window + (Bands::TAPS + 1) * self.bands.factor()
    }

    /// Where to write the sound that is learnt from.
    pub(super) fn sound(&mut self, frames: usize) -> &mut [f32] {
        &mut self.sound[..frames]
    }
}

/// The prediction of one channel.
#[derive(Debug, Clone)]
pub(super) struct Prediction {
    low: PredictedSignal,
    high: PredictedSignal,
    /// Frames told since the low band went on.
    phase: usize,
    /// Gain of a prediction that went higher than the sound was.
    trust: f32,
    /// The loudest the sound was; the prediction goes no higher.
    peak: f32,
}

impl Prediction {
    /// A prediction this much higher than the sound was swings up,
    const TOO_HIGH: f64 = 1.5;
    /// and this remains of its gain after each such sample.
    const DISTRUST: f32 = 0.9;

    /// Allocates; nothing later does.
    pub(super) fn new(bench: &Bench) -> Self {
        Self {
            low: PredictedSignal::new(bench.low_order, bench.low_order.max(Bands::TAPS)),
            high: PredictedSignal::new(bench.high_order, bench.high_order),
            phase: 0,
            trust: 1.0,
            peak: 0.0,
        }
    }

    /// Learns to go on from the first `frames` of the bench's sound, whose greatest sample is
    /// `peak`. With the models of last time unless new ones are to be fitted.
    pub(super) fn begin(&mut self, bench: &mut Bench, frames: usize, peak: f32, fit: bool) {
        let Bench { bands, fitter, sound, low, high_window, .. } = bench;
        let sound = &mut sound[..frames];
        // Models do not depend on the level; scaled, nothing overflows.
        let scale = if peak >= f32::MIN_POSITIVE { peak.recip() } else { 0.0 };
        sound.iter_mut().for_each(|sample| *sample *= scale);
        // What was silent for 2.5 ms is silent: a model that reaches further back would go on with what was before.
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
        // The filter lags, so the low band is predicted up to the end of the sound already. What
        // is wrong with that is left to the model of the rest: sound and prediction meet exactly.
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
        let told = bench.bands.back(self.low.told(), self.phase) + self.high.step();
        self.phase += 1;
        if self.phase == bench.bands.factor() {
            self.phase = 0;
            self.low.step();
        }
        if told.abs() > Self::TOO_HIGH {
            self.trust *= Self::DISTRUST;
        }
        told.clamp(-1.0, 1.0) as f32 * self.trust * self.peak
    }
}

/// A signal predicted from itself.
#[derive(Debug, Clone)]
struct PredictedSignal {
    model: Box<[f64]>,
    /// The newest samples end at `end`. When there is no room behind it, they move to the front.
    samples: Box<[f64]>,
    memory: usize,
    end: usize,
}

impl PredictedSignal {
    /// Samples between two moves.
    const ROOM: usize = 64;
    /// A model that is stable may still swing; a signal within ±1 has no use for more.
    const MOST: f64 = 4.0;

    fn new(order: usize, memory: usize) -> Self {
        Self {
            model: vec![0.0; order].into(),
            samples: vec![0.0; memory + Self::ROOM].into(),
            memory,
            end: memory,
        }
    }

    /// Goes on from the end of `signal`.
    fn begin<T: Copy + Into<f64>>(&mut self, signal: &[T]) {
        let newest = &signal[signal.len().saturating_sub(self.memory)..];
        self.end = self.memory;
        let (silence, memory) = self.samples[..self.end].split_at_mut(self.memory - newest.len());
        silence.fill(0.0);
        memory.iter_mut().zip(newest).for_each(|(into, sample)| *into = (*sample).into());
    }

    fn told(&self) -> &[f64] {
        &self.samples[..self.end]
    }

    fn step(&mut self) -> f64 {
        if self.end == self.samples.len() {
            self.samples.copy_within(self.end - self.memory.., 0);
            self.end = self.memory;
        }
        let told = dot(&self.samples[self.end - self.model.len()..self.end], &self.model);
        // Whatever comes of a sound nobody thought of, it ends here.
        let told = if told.is_nan() { 0.0 } else { told.clamp(-Self::MOST, Self::MOST) };
        self.samples[self.end] = told;
        self.end += 1;
        told
    }
}
