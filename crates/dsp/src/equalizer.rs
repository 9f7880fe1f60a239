//! Parametric equalizer.

mod error;
#[cfg(test)]
mod tests;

use biquad::{Coefficients, Type};

pub use self::error::EqualizerError;
use crate::fade::{Fade, mix};
use crate::gain::Gain;
use crate::signal::Frequency;

/// Maximum bands.
pub const MAX_BANDS: usize = 10;
/// Maximum boost and cut of a band in dB.
pub const MAX_BAND_DB: f64 = 24.0;
/// Minimum frequency of a band in hertz: inaudible. Coefficients for far lower frequencies are
/// inexact.
pub const MIN_BAND_HZ: u32 = 10;
/// Minimum and maximum Q of a band.
pub const BAND_Q: [f64; 2] = [0.1, 30.0];

/// Response of a band.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum BandShape {
    /// Gain at the band's frequency.
    Peaking(Gain),
    /// Gain far below the band's frequency; half of it (in dB) at that frequency.
    LowShelf(Gain),
    /// Gain far above the band's frequency; half of it (in dB) at that frequency.
    HighShelf(Gain),
    /// 12 dB per octave.
    HighPass,
    /// 12 dB per octave.
    LowPass,
}

/// One band.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Band {
    /// Response.
    pub shape: BandShape,
    /// Centre of a peak, midpoint of a shelf, cutoff of a pass.
    pub frequency: Frequency,
    /// Quality factor. A peak has a bandwidth of about frequency ÷ Q. The others are steepest
    /// without a resonance at 0.71.
    pub q: f64,
}

/// Coefficients of up to [`MAX_BANDS`] bands in series, for one rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Equalizer {
    bands: [Biquad; MAX_BANDS],
    count: usize,
}

/// `y = b₀x + b₁x₁ + b₂x₂ − a₁y₁ − a₂y₂`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Biquad {
    b: [f64; 3],
    a: [f64; 2],
}

impl Equalizer {
    /// No bands: every bit passes.
    pub const FLAT: Self =
        Self { bands: [Biquad { b: [1.0, 0.0, 0.0], a: [0.0; 2] }; MAX_BANDS], count: 0 };

    /// Calculates the coefficients at `rate` in hertz: Audio EQ Cookbook of R. Bristow-Johnson.
    pub fn new(rate: u32, bands: &[Band]) -> Result<Self, EqualizerError> {
        if bands.len() > MAX_BANDS {
            return Err(EqualizerError::Bands(bands.len()));
        }
        let mut equalizer = Self { count: bands.len(), ..Self::FLAT };
        for (biquad, band) in equalizer.bands.iter_mut().zip(bands) {
            *biquad = Biquad::new(rate, band)?;
        }
        Ok(equalizer)
    }
}

impl Default for Equalizer {
    fn default() -> Self {
        Self::FLAT
    }
}

impl Biquad {
    fn new(rate: u32, band: &Band) -> Result<Self, EqualizerError> {
        let decibels = |gain: Gain| {
            let limit = |db| Gain::from_db(db).map_or(0.0, Gain::factor);
            let valid = limit(-MAX_BAND_DB)..=limit(MAX_BAND_DB);
            let in_range = valid.contains(&gain.factor());
            if in_range { Ok(gain.as_db()) } else { Err(EqualizerError::Gain(gain)) }
        };
        let shape = match band.shape {
            BandShape::Peaking(gain) => Type::PeakingEQ(decibels(gain)?),
            BandShape::LowShelf(gain) => Type::LowShelf(decibels(gain)?),
            BandShape::HighShelf(gain) => Type::HighShelf(decibels(gain)?),
            BandShape::HighPass => Type::HighPass,
            BandShape::LowPass => Type::LowPass,
        };
        let [min, max] = BAND_Q;
        if !(min..=max).contains(&band.q) {
            return Err(EqualizerError::Q(band.q));
        }
        let invalid = EqualizerError::Frequency(band.frequency, rate);
        let millihertz = band.frequency.as_millihertz();
        if millihertz < MIN_BAND_HZ * 1000 {
            return Err(invalid);
        }
        let of_half_rate = f64::from(millihertz) / (f64::from(rate) * 500.0);
        let Coefficients { a1, a2, b0, b1, b2 } =
            Coefficients::from_normalized_params(shape, of_half_rate, band.q)
                .map_err(|_| invalid)?;
        Ok(Self { b: [b0, b1, b2], a: [a1, a2] })
    }

    /// Transposed direct form 2.
    fn run(&self, input: f64, state: &mut [f64; 2]) -> f64 {
        let Self { b, a } = self;
        let output = b[0] * input + state[0];
        state[0] = b[1] * input - a[0] * output + state[1];
        state[1] = b[2] * input - a[1] * output;
        output
    }
}

/// Equalizes frames of `CHANNELS` samples. A change fades from the old to the new response.
#[derive(Debug, Clone)]
pub struct EqualizerFilter<const CHANNELS: usize> {
    now: Cascade<CHANNELS>,
    fade_frames: usize,
    /// New response.
    fade: Option<(Cascade<CHANNELS>, Fade)>,
}

impl<const CHANNELS: usize> EqualizerFilter<CHANNELS> {
    /// Starts with `equalizer`; a change takes `fade` frames.
    pub const fn new(equalizer: Equalizer, fade: usize) -> Self {
        Self { now: Cascade::new(equalizer), fade_frames: fade, fade: None }
    }

    /// Applies `equalizer` to finite interleaved frames. A change during a fade starts after it.
    pub fn apply(&mut self, equalizer: &Equalizer, samples: &mut [f32]) {
        if self.fade.is_none() && *equalizer != self.now.equalizer {
            self.fade = Some((Cascade::new(*equalizer), Fade::new(self.fade_frames)));
        }
        for frame in samples.as_chunks_mut::<CHANNELS>().0 {
            let Some((new, fade)) = &mut self.fade else {
                self.now.run(frame);
                continue;
            };
            let mut faded = *frame;
            self.now.run(frame);
            new.run(&mut faded);
            let share = fade.step();
            frame.iter_mut().zip(faded).for_each(|(old, new)| *old = mix(*old, new, share));
            if fade.left() == 0 {
                self.now = *new;
                self.fade = None;
            }
        }
        self.now.settle();
        if let Some((new, _)) = &mut self.fade {
            new.settle();
        }
    }
}

/// Smaller values are zero (−500 dB): arithmetic on subnormal numbers is slow.
const ZERO: f64 = 1e-25;

#[derive(Debug, Clone, Copy)]
struct Cascade<const CHANNELS: usize> {
    equalizer: Equalizer,
    states: [[[f64; 2]; CHANNELS]; MAX_BANDS],
}

impl<const CHANNELS: usize> Cascade<CHANNELS> {
    const fn new(equalizer: Equalizer) -> Self {
        Self { equalizer, states: [[[0.0; 2]; CHANNELS]; MAX_BANDS] }
    }

    fn run(&mut self, frame: &mut [f32; CHANNELS]) {
        let Equalizer { bands, count } = &self.equalizer;
        let mut sound = frame.map(f64::from);
        for (band, states) in bands[..*count].iter().zip(&mut self.states) {
            for (sound, state) in sound.iter_mut().zip(states) {
                *sound = band.run(*sound, state);
            }
        }
        *frame = sound.map(|sound| sound as f32);
    }

    fn settle(&mut self) {
        for value in self.states.as_flattened_mut().as_flattened_mut() {
            *value = if value.abs() < ZERO { 0.0 } else { *value };
        }
    }
}
