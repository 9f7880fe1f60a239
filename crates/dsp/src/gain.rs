//! Volume: a factor that people give in decibels, changed without clicks.

use core::fmt;
use core::str::FromStr;

/// A gain. Unity is exactly 1.0 and leaves every bit as it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gain(f32);

/// A gain that could not be understood, with what was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GainError {
    /// What was given.
    pub given: String,
}

impl fmt::Display for GainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { given } = self;
        write!(
            f,
            "‘{given}’ is no gain; give decibels up to +40, such as -6dB, or -inf for silence"
        )
    }
}

impl std::error::Error for GainError {}

impl Gain {
    /// No change.
    pub const UNITY: Self = Self(1.0);
    /// Nothing left.
    pub const SILENCE: Self = Self(0.0);
    /// The most that can be asked for, in dB: enough for any microphone, and short of a slip of
    /// the finger that hurts.
    pub const MAX_DB: f64 = 40.0;

    /// A gain in decibels, 20 log₁₀ of the factor; `None` for NaN and above [`Gain::MAX_DB`].
    /// Minus infinity is silence.
    pub fn from_db(db: f64) -> Option<Self> {
        (db <= Self::MAX_DB).then(|| Self(10_f64.powf(db / 20.0) as f32))
    }

    /// In decibels, for people to read.
    pub fn as_db(self) -> f64 {
        20.0 * f64::from(self.0).log10()
    }

    /// The factor that samples are multiplied by.
    pub const fn factor(self) -> f32 {
        self.0
    }

    /// Multiplies `samples`. At unity the memory is not touched.
    pub fn apply(self, samples: &mut [f32]) {
        if self == Self::UNITY {
            return;
        }
        for sample in samples {
            *sample *= self.0;
        }
    }
}

impl Default for Gain {
    fn default() -> Self {
        Self::UNITY
    }
}

impl fmt::Display for Gain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0.0 {
            return f.write_str("-infdB");
        }
        let tenths = (self.as_db() * 10.0).round() / 10.0;
        // Adding zero turns minus zero into zero.
        write!(f, "{}dB", tenths + 0.0)
    }
}

impl FromStr for Gain {
    type Err = GainError;

    /// `-6dB`, `+1.5 dB`, `-inf`; the unit may be left out and its case does not matter.
    fn from_str(given: &str) -> Result<Self, GainError> {
        let text = given.trim();
        let unit = text.len().saturating_sub(2);
        let number = match (text.get(..unit), text.get(unit..)) {
            (Some(number), Some(end)) if end.eq_ignore_ascii_case("db") => number.trim_end(),
            _ => text,
        };
        let db: Option<f64> = number.parse().ok();
        db.and_then(Self::from_db).ok_or_else(|| GainError { given: given.to_owned() })
    }
}

/// A gain that may change while sound passes: each change is spread over one block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Volume {
    current: Gain,
}

impl Volume {
    /// Starts at `gain`, without a ramp.
    pub const fn new(gain: Gain) -> Self {
        Self { current: gain }
    }

    /// The gain that the last block ended with.
    pub const fn current(&self) -> Gain {
        self.current
    }

    /// Applies `target` to a block of interleaved frames of `channels` samples. If it differs from
    /// the gain before, the block ramps linearly and its last frame has the target exactly. An
    /// empty block changes nothing.
    pub fn apply(&mut self, target: Gain, channels: usize, samples: &mut [f32]) {
        let frames = samples.len() / channels.max(1);
        if frames == 0 {
            return;
        }
        let from = core::mem::replace(&mut self.current, target);
        if from == target {
            return target.apply(samples);
        }
        let step = (target.0 - from.0) / frames as f32;
        for (frame, index) in samples.chunks_mut(channels.max(1)).zip(1..) {
            // From the start each time: a running sum would miss the target by its rounding.
            let gain = if index >= frames { target.0 } else { from.0 + step * index as f32 };
            for sample in frame {
                *sample *= gain;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_write_decibels_in_several_ways() {
        for (text, factor) in
            [("0dB", 1.0), ("-0", 1.0), (" +20 DB ", 10.0), ("-20db", 0.1), ("-inf", 0.0)]
        {
            assert_eq!(text.parse::<Gain>().map(Gain::factor), Ok(factor), "{text}");
        }
        assert!(("-6dB".parse::<Gain>().unwrap().factor() - 0.501_187_2).abs() < 1e-7);
    }

    #[test]
    fn what_is_no_gain_is_named_in_the_answer() {
        for text in ["", "dB", "loud", "41dB", "inf", "nan", "6 percent", "µB"] {
            let error = text.parse::<Gain>().unwrap_err();
            assert!(error.to_string().contains(&format!("‘{text}’")), "{error}");
        }
    }

    #[test]
    fn a_gain_prints_as_it_is_parsed() {
        for text in ["-6dB", "0dB", "1.5dB", "-infdB"] {
            let gain: Gain = text.parse().unwrap();
            assert_eq!(gain.to_string(), text);
        }
    }

    #[test]
    fn unity_leaves_every_bit() {
        let odd = [f32::from_bits(0x7fa0_0001), -0.0, f32::MIN_POSITIVE / 2.0, 3.0];
        let mut samples = odd;
        Volume::new(Gain::UNITY).apply(Gain::UNITY, 2, &mut samples);
        assert_eq!(samples.map(f32::to_bits), odd.map(f32::to_bits));
    }

    #[test]
    fn a_change_ramps_over_one_block_and_ends_on_the_target() {
        let mut volume = Volume::new(Gain::SILENCE);
        let mut samples = [1.0; 8];
        volume.apply(Gain::UNITY, 2, &mut samples);
        assert_eq!(samples, [0.25, 0.25, 0.5, 0.5, 0.75, 0.75, 1.0, 1.0]);
        volume.apply(Gain::UNITY, 2, &mut samples);
        assert_eq!(samples[0], 0.25, "the second block is not ramped");
    }

    #[test]
    fn no_ramp_misses_its_target_by_a_rounding() {
        for frames in 1..200 {
            let target: Gain = "-1.7dB".parse().unwrap();
            let mut samples = vec![1.0; frames];
            Volume::new("-33dB".parse().unwrap()).apply(target, 1, &mut samples);
            assert_eq!(samples.last(), Some(&target.factor()), "{frames} frames");
        }
    }

    #[test]
    fn an_empty_block_does_not_swallow_the_ramp() {
        let mut volume = Volume::new(Gain::UNITY);
        volume.apply(Gain::SILENCE, 2, &mut []);
        let mut samples = [1.0; 4];
        volume.apply(Gain::SILENCE, 2, &mut samples);
        assert_eq!(samples, [0.5, 0.5, 0.0, 0.0]);
    }
}
