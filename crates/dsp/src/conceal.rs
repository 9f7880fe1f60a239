//! Concealment of missing frames.
//!
//! Each channel is predicted from the last 30 ms. The level holds for 10 ms, then falls to silence
//! at 50 ms. Returning sound is cross-faded for 1 ms, then passes bit-exactly.
//!
//! The work of a call is bounded: at most 16 channels are predicted; other channels fade. Models
//! are fitted at most every 10 ms.

mod bands;
mod history;
mod model;
mod prediction;

use core::f64::consts::PI;

use history::History;
use prediction::{Bench, Prediction};

/// Concealer of one stream.
#[derive(Debug, Clone)]
pub struct Concealer {
    history: History,
    bench: Bench,
    predictions: Box<[Prediction]>,
    predicted: usize,
    held: Box<[f32]>,
    reported: Box<[f32]>,
    /// Gain of held channels, by frame of the hole.
    plain: Box<[f32]>,
    /// Gain of predicted channels, by frame of the hole.
    fall: Box<[f32]>,
    rise: Box<[f32]>,
    /// Frames since models were fitted, and the minimum.
    fresh: usize,
    refit: usize,
    minimum: usize,
    state: ConcealState,
    ending: bool,
    concealed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConcealState {
    New,
    Sound,
    Hole {
        age: usize,
    },
    /// Since sound returned; the hole began `age` frames ago.
    Back {
        age: usize,
        risen: usize,
    },
}

impl Concealer {
    const CHANNELS: usize = 16;

    /// `rate` is in hertz. Only this function allocates.
    ///
    /// A new stream passes bit-exactly.
    pub fn new(channels: usize, rate: u32) -> Self {
        let channels = channels.max(1);
        let frames = |microseconds: u64| (u64::from(rate) * microseconds / 1_000_000) as usize;
        let window = frames(30_000);
        let bench = Bench::new(rate, window, channels.min(Self::CHANNELS));
        let hold = core::iter::repeat_n(1.0, frames(10_000));
        Self {
            history: History::new(channels, window),
            predictions: vec![Prediction::new(&bench); channels.min(Self::CHANNELS)].into(),
            predicted: 0,
            held: vec![0.0; channels].into(),
            reported: vec![0.0; channels].into(),
            plain: half_cosine(frames(667)).collect(),
            fall: hold.chain(half_cosine(frames(40_000))).collect(),
            rise: half_cosine(frames(1000)).map(|gone| 1.0 - gone).collect(),
            fresh: usize::MAX,
            refit: frames(10_000),
            minimum: frames(10_000).max(bench.minimum()),
            bench,
            state: ConcealState::New,
            ending: false,
            concealed: 0,
        }
    }

    /// 1 ms.
    pub fn return_frames(&self) -> usize {
        self.rise.len()
    }

    /// Total frames of holes that were predicted.
    pub const fn concealed(&self) -> u64 {
        self.concealed
    }

    /// Whether sound currently passes bit-exactly.
    pub fn is_transparent(&self) -> bool {
        matches!(self.state, ConcealState::New | ConcealState::Sound)
    }

    /// Holes fade to silence until the next [`Concealer::cut`].
    pub fn end(&mut self) {
        self.ending = true;
    }

    /// The next sound starts like the first.
    pub fn forget(&mut self) {
        (self.state, self.ending) = (ConcealState::New, false);
    }

    /// The next sound is cross-faded with the old.
    pub fn cut(&mut self) {
        if matches!(self.state, ConcealState::Sound | ConcealState::Back { .. }) {
            self.begin();
        }
        self.ending = false;
    }

    /// Cross-fades interleaved frames after a hole.
    pub fn sound(&mut self, samples: &mut [f32]) {
        let channels = self.held.len();
        let mut faded = 0;
        if !self.is_transparent() {
            for frame in samples.chunks_exact_mut(channels) {
                let (age, risen) = match self.state {
                    ConcealState::Hole { age } => (age, 0),
                    ConcealState::Back { age, risen } => (age, risen),
                    ConcealState::New | ConcealState::Sound => break,
                };
                let Some(&rise) = self.rise.get(risen) else { break };
                self.notify(age);
                for (sample, reported) in frame.iter_mut().zip(&self.reported) {
                    *sample = *sample * rise + reported * (1.0 - rise);
                }
                self.state = ConcealState::Back { age: age + 1, risen: risen + 1 };
                faded += channels;
            }
        }
        if samples.len() >= faded + channels || self.has_risen() {
            self.state = ConcealState::Sound;
        }
        self.remember(samples);
    }

    /// Records frames that passed unchanged while [`Self::is_transparent`]. The newest
    /// [`Self::learns_from`] suffice.
    pub fn passed(&mut self, samples: &[f32]) {
        if samples.len() >= self.held.len() {
            self.state = ConcealState::Sound;
        }
        self.remember(samples);
    }

    /// Frames before a hole that a prediction uses.
    pub const fn learns_from(&self) -> usize {
        self.history.room()
    }

    /// Overwrites frames that have no sound.
    pub fn conceal(&mut self, samples: &mut [f32]) {
        let channels = self.held.len();
        if matches!(self.state, ConcealState::Sound | ConcealState::Back { .. })
            && samples.len() >= channels
        {
            self.begin();
        }
        let mut reported = 0;
        for frame in samples.chunks_exact_mut(channels) {
            let ConcealState::Hole { age } = self.state else { break };
            if age >= self.silent_at() {
                break;
            }
            self.notify(age);
            frame.copy_from_slice(&self.reported);
            self.state = ConcealState::Hole { age: age + 1 };
            reported += 1;
        }
        let (sound, silence) = samples.split_at_mut(reported * channels);
        self.remember(sound);
        silence.fill(0.0);
        if !silence.is_empty() {
            self.history.forget();
        }
        self.concealed += if self.predicted > 0 { reported as u64 } else { 0 };
    }

    fn has_risen(&self) -> bool {
        matches!(self.state, ConcealState::Back { risen, .. } if risen == self.rise.len())
    }

    fn remember(&mut self, samples: &[f32]) {
        self.history.push(samples);
        self.fresh = self.fresh.saturating_add(samples.len() / self.held.len());
    }

    fn begin(&mut self) {
        self.state = ConcealState::Hole { age: 0 };
        self.history.last_frame(&mut self.held);
        let known = self.history.known();
        if self.ending || known < self.minimum {
            self.predicted = 0;
            return;
        }
        let fit = self.fresh >= self.refit;
        if fit {
            self.fresh = 0;
        }
        self.predicted = self.predictions.len();
        for (channel, prediction) in self.predictions.iter_mut().enumerate() {
            let peak = self.history.channel(channel, self.bench.sound(known));
            prediction.begin(&mut self.bench, known, peak, fit);
        }
    }

    fn silent_at(&self) -> usize {
        if self.predicted > 0 { self.fall.len() } else { self.plain.len() }
    }

    fn notify(&mut self, age: usize) {
        let plain = self.plain.get(age).copied().unwrap_or(0.0);
        for (reported, held) in self.reported.iter_mut().zip(&self.held).skip(self.predicted) {
            *reported = held * plain;
        }
        let predicted = self.reported.iter_mut().zip(&mut self.predictions).take(self.predicted);
        match self.fall.get(age) {
            Some(gain) => {
                predicted.for_each(|(reported, p)| *reported = p.next(&self.bench) * gain)
            }
            None => predicted.for_each(|(reported, _)| *reported = 0.0),
        }
    }
}

fn half_cosine(frames: usize) -> impl Iterator<Item = f32> {
    let step = PI / (frames + 1) as f64;
    (1..=frames).map(move |index| (0.5 + 0.5 * (step * index as f64).cos()) as f32)
}

#[cfg(test)]
mod tests;
