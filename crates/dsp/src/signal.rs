//! Test signals.

use core::f64::consts::TAU;
use core::fmt;
use core::str::FromStr;

/// A frequency in whole millihertz.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frequency(u32);

/// Error for an invalid frequency, with the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrequencyError {
    /// Input.
    pub given: String,
}

impl fmt::Display for FrequencyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { given } = self;
        write!(f, "invalid frequency '{given}': must be 0.001 to 96000 Hz, such as 440 or 997.5")
    }
}

impl std::error::Error for FrequencyError {}

impl Frequency {
    /// Maximum frequency in millihertz: 96 kHz.
    const MAX: u32 = 96_000_000;

    /// `None` outside 0.001 Hz to 96 kHz.
    pub const fn from_millihertz(millihertz: u32) -> Option<Self> {
        if millihertz >= 1 && millihertz <= Self::MAX { Some(Self(millihertz)) } else { None }
    }

    /// Value in millihertz.
    pub const fn as_millihertz(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Frequency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} Hz", f64::from(self.0) / 1000.0)
    }
}

impl FromStr for Frequency {
    type Err = FrequencyError;

    /// Hertz, rounded to thousandths: `440`, `997.5`, `440Hz`.
    fn from_str(given: &str) -> Result<Self, FrequencyError> {
        let text = given.trim();
        let number = text.strip_suffix("Hz").or(text.strip_suffix("hz")).unwrap_or(text);
        let hertz: Option<f64> = number.trim_end().parse().ok();
        hertz
            .and_then(|hertz| Self::from_millihertz((hertz * 1000.0).round() as u32))
            .ok_or_else(|| FrequencyError { given: given.to_owned() })
    }
}

/// A sine with exact phase for any duration: it counts in 1 / (1000 × rate) of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sine {
    phase: u64,
    step: u64,
    turn: u64,
}

impl Sine {
    /// Peak level: −18 dBFS, the alignment level of EBU R 68.
    pub const LEVEL_DB: f64 = -18.0;

    /// Starts at phase 0; `rate` is in hertz.
    pub fn new(frequency: Frequency, rate: u32) -> Self {
        let turn = u64::from(rate.max(1)) * 1000;
        Self { phase: 0, step: u64::from(frequency.0) % turn, turn }
    }

    /// Skips `frames`.
    pub fn skip(&mut self, frames: u64) {
        let ahead = u128::from(frames) * u128::from(self.step) + u128::from(self.phase);
        self.phase = (ahead % u128::from(self.turn)) as u64;
    }

    /// Fills interleaved frames of `channels` equal samples.
    pub fn fill(&mut self, channels: usize, samples: &mut [f32]) {
        let peak = 10_f64.powf(Self::LEVEL_DB / 20.0);
        for frame in samples.chunks_mut(channels.max(1)) {
            let angle = self.phase as f64 / self.turn as f64 * TAU;
            frame.fill((peak * angle.sin()) as f32);
            self.phase += self.step;
            if self.phase >= self.turn {
                self.phase -= self.turn;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sine(hertz: &str, rate: u32) -> Sine {
        Sine::new(hertz.parse().unwrap(), rate)
    }

    #[test]
    fn the_peak_is_18_db_below_full_scale() {
        let mut samples = [0.0; 8];
        sine("12000", 48_000).fill(2, &mut samples);
        let peak = 0.125_892_54;
        for (sample, expected) in samples.iter().zip([0.0, 0.0, peak, peak, 0.0, 0.0, -peak]) {
            assert!((sample - expected).abs() < 1e-7, "{samples:?}");
        }
    }

    #[test]
    fn after_ten_years_the_phase_is_the_same_to_the_bit() {
        let mut now = sine("997.003", 44_100);
        let mut later = now;
        later.skip(10 * 31_557_600 * 44_100 * 1000);
        let (mut first, mut last) = ([0.0; 64], [0.0; 64]);
        now.fill(1, &mut first);
        later.fill(1, &mut last);
        assert_eq!(first, last);
    }

    #[test]
    fn skipping_is_the_same_as_filling() {
        let (mut filled, mut skipped) = (sine("440.1", 48_000), sine("440.1", 48_000));
        filled.fill(1, &mut [0.0; 1001]);
        skipped.skip(1001);
        assert_eq!(filled, skipped);
    }

    #[test]
    fn frequencies_are_hertz_to_the_thousandth() {
        assert_eq!("440".parse::<Frequency>().unwrap().as_millihertz(), 440_000);
        assert_eq!("0.001 Hz".parse::<Frequency>().unwrap().as_millihertz(), 1);
        for text in ["", "0", "-1", "96001", "nan", "a"] {
            assert!(text.parse::<Frequency>().is_err(), "{text}");
        }
    }
}
