//! Concealment: what is played in place of frames that are missing.
//!
//! The last 30 ms given out are kept. Where a hole begins, each channel's next samples are
//! predicted from them, for 10 ms at their own level and then ever softer, until silence after
//! 50 ms. Sound that comes back is cross-faded with the prediction for a millisecond; from then on
//! it passes bit for bit again.
//!
//! The work of a call is bounded whatever the number of channels: sixteen channels at most are
//! predicted, with fewer coefficients the more they are; the others fade, as everything does where
//! there is too little sound to learn from or none to come. Models are fitted at most once in
//! 10 ms.

mod bands;
mod history;
mod model;
mod prediction;

use core::f64::consts::PI;

use history::History;
use prediction::{Bench, Prediction};

/// Conceals the holes of one stream.
#[derive(Debug, Clone)]
pub struct Concealer {
    history: History,
    bench: Bench,
    /// Of the first channels.
    predictions: Box<[Prediction]>,
    /// How many of them are predicted in the present hole.
    predicted: usize,
    /// The last frame before the present hole.
    held: Box<[f32]>,
    /// The frame that goes on in the place of sound.
    told: Box<[f32]>,
    /// Gain of what is held in a hole, frame by frame.
    plain: Box<[f32]>,
    /// Gain of what is predicted in a hole, frame by frame.
    fall: Box<[f32]>,
    /// Share of the sound that comes back, frame by frame.
    rise: Box<[f32]>,
    /// Frames that passed since models were fitted, and after how many they are fitted again.
    fresh: usize,
    refit: usize,
    /// Frames that a prediction needs to learn from.
    least: usize,
    state: ConcealState,
    /// The source said that it ends.
    ending: bool,
    concealed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConcealState {
    /// No sound came yet.
    New,
    Sound,
    /// Since so many frames there is no sound.
    Hole {
        age: usize,
    },
    /// Sound came back so many frames ago; the hole began `age` frames ago.
    Back {
        age: usize,
        risen: usize,
    },
}

impl Concealer {
    /// Channels that are predicted, at most.
    const CHANNELS: usize = 16;

    /// For frames of `channels` samples, `rate` of them in a second. Allocates; nothing later
    /// does.
    ///
    /// The first sound of all is not faded in: a stream that begins comes out bit for bit.
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
            told: vec![0.0; channels].into(),
            plain: half_cosine(frames(667)).collect(),
            fall: hold.chain(half_cosine(frames(40_000))).collect(),
            rise: half_cosine(frames(1000)).map(|gone| 1.0 - gone).collect(),
            fresh: usize::MAX,
            refit: frames(10_000),
            least: frames(10_000).max(bench.least()),
            bench,
            state: ConcealState::New,
            ending: false,
            concealed: 0,
        }
    }

    /// Frames after a hole that are not as they came: a millisecond.
    pub fn return_frames(&self) -> usize {
        self.rise.len()
    }

    /// Frames of holes in which the sound went on as predicted, since the beginning.
    pub const fn concealed(&self) -> u64 {
        self.concealed
    }

    /// Whether sound now passes bit for bit.
    pub fn is_transparent(&self) -> bool {
        matches!(self.state, ConcealState::New | ConcealState::Sound)
    }

    /// The source ends: holes from now on are its silence, so they begin with a short fade and
    /// nothing is predicted, until the next [`Concealer::cut`].
    pub fn end(&mut self) {
        self.ending = true;
    }

    /// What was is not to be heard again: the next sound begins as the first of all.
    pub fn forget(&mut self) {
        (self.state, self.ending) = (ConcealState::New, false);
    }

    /// What comes does not follow what was: the next sound is cross-faded with what the old one
    /// would have become, as after a hole of no length.
    pub fn cut(&mut self) {
        if matches!(self.state, ConcealState::Sound | ConcealState::Back { .. }) {
            self.begin();
        }
        self.ending = false;
    }

    /// These interleaved frames are sound: they pass, cross-faded at first if there was a hole.
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
                self.tell(age);
                for (sample, told) in frame.iter_mut().zip(&self.told) {
                    *sample = *sample * rise + told * (1.0 - rise);
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

    /// These frames were sound and passed as they are, while [`Self::is_transparent`]: what
    /// [`Self::sound`] would have done, for whoever keeps frames himself and tells of them once they
    /// are needed. Of more than [`Self::learns_from`] the newest say as much.
    pub fn passed(&mut self, samples: &[f32]) {
        if samples.len() >= self.held.len() {
            self.state = ConcealState::Sound;
        }
        self.remember(samples);
    }

    /// The most frames before a hole that anything is learnt from.
    pub const fn learns_from(&self) -> usize {
        self.history.room()
    }

    /// There is no sound for these frames: overwrites them with what it would have become.
    pub fn conceal(&mut self, samples: &mut [f32]) {
        let channels = self.held.len();
        if matches!(self.state, ConcealState::Sound | ConcealState::Back { .. })
            && samples.len() >= channels
        {
            self.begin();
        }
        let mut told = 0;
        for frame in samples.chunks_exact_mut(channels) {
            let ConcealState::Hole { age } = self.state else { break };
            if age >= self.silent_at() {
                break;
            }
            self.tell(age);
            frame.copy_from_slice(&self.told);
            self.state = ConcealState::Hole { age: age + 1 };
            told += 1;
        }
        let (sound, silence) = samples.split_at_mut(told * channels);
        self.remember(sound);
        silence.fill(0.0);
        if !silence.is_empty() {
            self.history.forget();
        }
        self.concealed += if self.predicted > 0 { told as u64 } else { 0 };
    }

    fn has_risen(&self) -> bool {
        matches!(self.state, ConcealState::Back { risen, .. } if risen == self.rise.len())
    }

    fn remember(&mut self, samples: &[f32]) {
        self.history.push(samples);
        self.fresh = self.fresh.saturating_add(samples.len() / self.held.len());
    }

    /// A hole begins: learns from the history how to go on.
    fn begin(&mut self) {
        self.state = ConcealState::Hole { age: 0 };
        self.history.last_frame(&mut self.held);
        let known = self.history.known();
        if self.ending || known < self.least {
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

    /// The frame of a hole at which all is silent.
    fn silent_at(&self) -> usize {
        if self.predicted > 0 { self.fall.len() } else { self.plain.len() }
    }

    /// Tells the frame of a hole that is `age` frames old.
    fn tell(&mut self, age: usize) {
        let plain = self.plain.get(age).copied().unwrap_or(0.0);
        for (told, held) in self.told.iter_mut().zip(&self.held).skip(self.predicted) {
            *told = held * plain;
        }
        let predicted = self.told.iter_mut().zip(&mut self.predictions).take(self.predicted);
        match self.fall.get(age) {
            Some(gain) => predicted.for_each(|(told, p)| *told = p.next(&self.bench) * gain),
            None => predicted.for_each(|(told, _)| *told = 0.0),
        }
    }
}

/// Half a cosine from nearly 1 to nearly 0.
fn half_cosine(frames: usize) -> impl Iterator<Item = f32> {
    let step = PI / (frames + 1) as f64;
    (1..=frames).map(move |index| (0.5 + 0.5 * (step * index as f64).cos()) as f32)
}

#[cfg(test)]
mod tests;
