//! Concealment of missing frames.
//!
//! At a hole, each channel is predicted from the last 30 ms of output. The level holds for 10 ms,
//! then falls to silence at 50 ms. Returning sound is cross-faded with the prediction for 1 ms,
//! then passes bit-exactly.
//!
//! The work of a call is bounded: at most sixteen channels are predicted, with fewer coefficients
//! for more channels. Other channels fade, as all do without enough preceding sound or at the end
//! of a source. Models are fitted at most every 10 ms.

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
    /// Number of channels predicted in this hole.
    predicted: usize,
    /// Last frame before this hole.
    held: Box<[f32]>,
    /// Current frame of the concealment.
    reported: Box<[f32]>,
    /// Gain of held channels, by frame of the hole.
    plain: Box<[f32]>,
    /// Gain of predicted channels, by frame of the hole.
    fall: Box<[f32]>,
    /// Share of the returning sound, by frame.
    rise: Box<[f32]>,
    /// Frames since models were fitted, and the minimum before the next fit.
    fresh: usize,
    refit: usize,
    /// Minimum frames to learn a prediction from.
    least: usize,
    state: ConcealState,
    /// The source announced its end.
    ending: bool,
    concealed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConcealState {
    /// No sound yet.
    New,
    Sound,
    /// No sound for this many frames.
    Hole {
        age: usize,
    },
    /// Sound returned this many frames ago; the hole began `age` frames ago.
    Back {
        age: usize,
        risen: usize,
    },
}

impl Concealer {
    /// Maximum number of predicted channels.
    const CHANNELS: usize = 16;

    /// Creates a concealer for `channels` at `rate` frames per second. Allocates here only.
    ///
    /// The very first sound is not faded in: a new stream passes bit-exactly.
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
            least: frames(10_000).max(bench.least()),
            bench,
            state: ConcealState::New,
            ending: false,
            concealed: 0,
        }
    }

    /// Frames after a hole that are cross-faded: 1 ms.
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

    /// Announces the end of the source: holes become a short fade to silence, without prediction,
    /// until the next [`Concealer::cut`].
    pub fn end(&mut self) {
        self.ending = true;
    }

    /// Forgets the previous sound: the next one starts like the first.
    pub fn forget(&mut self) {
        (self.state, self.ending) = (ConcealState::New, false);
    }

    /// Marks a discontinuity: the next sound is cross-faded with the continuation of the old, as
    /// after an empty hole.
    pub fn cut(&mut self) {
        if matches!(self.state, ConcealState::Sound | ConcealState::Back { .. }) {
            self.begin();
        }
        self.ending = false;
    }

    /// Passes interleaved frames of sound, cross-faded after a hole.
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

    /// Adds frames that passed unchanged while [`Self::is_transparent`], instead of
    /// [`Self::sound`]. Callers may collect frames and add them when needed. The newest
    /// [`Self::learns_from`] frames suffice.
    pub fn passed(&mut self, samples: &[f32]) {
        if samples.len() >= self.held.len() {
            self.state = ConcealState::Sound;
        }
        self.remember(samples);
    }

    /// Maximum frames before a hole that a prediction uses.
    pub const fn learns_from(&self) -> usize {
        self.history.room()
    }

    /// Overwrites frames that have no sound with the concealment.
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
            self.tell(age);
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

    /// Starts a hole: learns predictions from the history.
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

    /// Frame of a hole at which everything is silent.
    fn silent_at(&self) -> usize {
        if self.predicted > 0 { self.fall.len() } else { self.plain.len() }
    }

    /// Calculates the frame of a hole that is `age` frames old.
    fn tell(&mut self, age: usize) {
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

/// Half a cosine from nearly 1 to nearly 0.
fn half_cosine(frames: usize) -> impl Iterator<Item = f32> {
    let step = PI / (frames + 1) as f64;
    (1..=frames).map(move |index| (0.5 + 0.5 * (step * index as f64).cos()) as f32)
}

#[cfg(test)]
mod tests;
