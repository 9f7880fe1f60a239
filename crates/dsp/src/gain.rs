//! Volume: a gain in decibels, changed without clicks.

use core::fmt;
use core::str::FromStr;

use crate::fade::Fade;

/// A gain. Unity is exactly 1.0 and keeps every bit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gain(f32);

/// Error for an invalid gain, with the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GainError {
    /// Input.
    pub given: String,
}

impl fmt::Display for GainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { given } = self;
        write!(
            f,
            "invalid level '{given}': give decibels from -144dB to +40dB, a percentage such as 50%, or -inf for silence"
        )
    }
}

impl std::error::Error for GainError {}

impl Gain {
    /// No change.
    pub const UNITY: Self = Self(1.0);
    /// Silence.
    pub const SILENCE: Self = Self(0.0);
    /// Maximum gain in dB. It limits harmful typing errors.
    pub const MAX_DB: f64 = 40.0;

    /// Minimum gain in dB: 24-bit full scale.
    const MIN_DB: f64 = -144.0;

    /// `None` for NaN and above [`Gain::MAX_DB`]. Minus infinity is silence.
    pub fn from_db(db: f64) -> Option<Self> {
        (db <= Self::MAX_DB).then(|| Self(10_f64.powf(db / 20.0) as f32))
    }

    /// Decibels, for display.
    pub fn as_db(self) -> f64 {
        20.0 * f64::from(self.0).log10()
    }

    /// Factor for samples.
    pub const fn factor(self) -> f32 {
        self.0
    }

    /// Bits for an atomic, as [`Gain::from_bits`] takes them.
    pub const fn to_bits(self) -> u32 {
        self.0.to_bits()
    }

    /// Gain of [`Gain::to_bits`].
    pub const fn from_bits(bits: u32) -> Self {
        Self(f32::from_bits(bits))
    }

    /// The greater gain.
    #[must_use]
    pub const fn max(self, other: Self) -> Self {
        if self.0 >= other.0 { self } else { other }
    }

    /// Gain at `share` (0 to 1) of the way to `other`, linear in amplitude; exact at both ends.
    #[must_use]
    pub fn towards(self, other: Self, share: f32) -> Self {
        if share >= 1.0 { other } else { Self(self.0 + (other.0 - self.0) * share.max(0.0)) }
    }

    /// Multiplies `samples`; does not touch memory at unity.
    #[inline]
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
            return f.write_str("-inf");
        }
        let tenths = (self.as_db() * 10.0).round() / 10.0;
        write!(f, "{}dB", tenths + 0.0)
    }
}

impl FromStr for Gain {
    type Err = GainError;

    /// `-6dB`, `+1.5 dB`, `50%`, `-inf`. 0.5 is ambiguous.
    fn from_str(given: &str) -> Result<Self, GainError> {
        let text = given.trim().to_ascii_lowercase();
        let number = |text: &str| text.trim_end().parse::<f64>().ok();
        let db = if let Some(db) = text.strip_suffix("db") {
            number(db)
        } else if let Some(percent) = text.strip_suffix('%') {
            number(percent).filter(|percent| *percent >= 0.0).map(|it| 20.0 * (it / 100.0).log10())
        } else {
            (text == "-inf").then_some(f64::NEG_INFINITY)
        };
        let db = db.filter(|db| *db >= Self::MIN_DB || *db == f64::NEG_INFINITY);
        db.and_then(Self::from_db).ok_or_else(|| GainError { given: given.to_owned() })
    }
}

/// A gain that changes by a smooth ramp.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Volume {
    current: Gain,
    /// In frames.
    shortest: usize,
    ramp: Option<Ramp>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Ramp {
    from: Gain,
    to: Gain,
    fade: Fade,
}

impl Volume {
    /// Starts without a ramp; each change takes one block.
    pub const fn new(gain: Gain) -> Self {
        Self::over(gain, 0)
    }

    /// Starts without a ramp; each change takes `frames`, at least one block.
    pub const fn over(gain: Gain, frames: usize) -> Self {
        Self { current: gain, shortest: frames, ramp: None }
    }

    /// Gain at the end of the last block.
    pub const fn current(&self) -> Gain {
        self.current
    }

    /// Applies to interleaved frames. A new target starts a ramp. An empty block changes nothing.
    #[inline]
    pub fn apply(&mut self, target: Gain, channels: usize, samples: &mut [f32]) {
        // Nearly every block.
        if self.ramp.is_none() && self.current == target {
            return target.apply(samples);
        }
        self.lead(target, channels, samples);
    }

    fn lead(&mut self, target: Gain, channels: usize, samples: &mut [f32]) {
        let frames = samples.len() / channels.max(1);
        if frames == 0 {
            return;
        }
        if self.ramp.map_or(self.current, |ramp| ramp.to) != target {
            let frames = frames.max(self.shortest);
            self.ramp = Some(Ramp { from: self.current, to: target, fade: Fade::new(frames) });
        }
        let Some(mut ramp) = self.ramp else { return target.apply(samples) };
        let ramped = frames.min(ramp.fade.left()) * channels.max(1);
        let (ramped, rest) = samples.split_at_mut(ramped);
        for frame in ramped.chunks_mut(channels.max(1)) {
            self.current = ramp.from.towards(ramp.to, ramp.fade.step());
            for sample in frame {
                *sample *= self.current.0;
            }
        }
        self.ramp = (ramp.fade.left() > 0).then_some(ramp);
        target.apply(rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_write_decibels_in_several_ways() {
        for (text, factor) in [
            ("0dB", 1.0),
            (" +20 DB ", 10.0),
            ("-20db", 0.1),
            ("-inf", 0.0),
            ("50%", 0.5),
            ("0 %", 0.0),
        ] {
            assert_eq!(text.parse::<Gain>().map(Gain::factor), Ok(factor), "{text}");
        }
        assert!(("-6dB".parse::<Gain>().unwrap().factor() - 0.501_187_2).abs() < 1e-7);
    }

    #[test]
    fn invalid_gain_is_named_in_the_error() {
        let invalid = [
            "",
            "dB",
            "%",
            "0.5",
            "-6",
            "0",
            "loud",
            "41dB",
            "-1%",
            "10001%",
            "inf",
            "nan",
            "6 percent",
            "µB",
        ];
        for given in invalid {
            assert_eq!(given.parse::<Gain>(), Err(GainError { given: given.to_owned() }));
        }
    }

    #[test]
    fn a_gain_prints_as_it_is_parsed() {
        for text in ["-6dB", "0dB", "1.5dB", "-inf"] {
            let gain: Gain = text.parse().unwrap();
            assert_eq!(gain.to_string(), text);
        }
    }

    #[test]
    fn gain_between_two_is_linear_and_exact_at_the_ends() {
        let (quiet, loud) = ("-20dB".parse::<Gain>().unwrap(), Gain::UNITY);
        assert_eq!((quiet.towards(loud, 0.0), quiet.towards(loud, 1.0)), (quiet, loud));
        assert_eq!((quiet.towards(loud, -3.0), quiet.towards(loud, 3.0)), (quiet, loud));
        assert!((quiet.towards(loud, 0.5).factor() - 0.55).abs() < 1e-6);
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
        assert_eq!(samples, [0.15625, 0.15625, 0.5, 0.5, 0.84375, 0.84375, 1.0, 1.0]);
        volume.apply(Gain::UNITY, 2, &mut samples);
        assert_eq!(samples[0], 0.15625, "the second block is not ramped");
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

    #[test]
    fn a_long_ramp_goes_on_from_block_to_block_wherever_they_end() {
        let (mut whole, mut pieces) = (vec![1.0; 500], vec![1.0; 600]);
        let quiet: Gain = "-30dB".parse().unwrap();
        Volume::over(Gain::UNITY, 500).apply(quiet, 1, &mut whole);
        let mut volume = Volume::over(Gain::UNITY, 500);
        pieces.chunks_mut(7).for_each(|piece| volume.apply(quiet, 1, piece));
        assert!(pieces.starts_with(&whole));
        assert!(pieces[499..].iter().all(|sample| *sample == quiet.factor()));
        assert_eq!(volume.current(), quiet);
    }

    #[test]
    fn a_ramp_that_is_called_back_turns_without_a_step() {
        let mut volume = Volume::over(Gain::UNITY, 480);
        let mut samples = vec![1.0; 48 * 30];
        for (number, block) in samples.chunks_mut(48).enumerate() {
            let target = if number == 5 { Gain::SILENCE } else { Gain::UNITY };
            volume.apply(target, 1, block);
        }
        let steepest = samples.windows(2).map(|pair| (pair[1] - pair[0]).abs());
        assert!(steepest.fold(0.0, f32::max) <= 1.5 / 480.0 + 1e-6);
        assert!(samples.iter().any(|sample| *sample < 0.99), "it had begun");
        assert_eq!(samples.last(), Some(&1.0));
    }

    #[test]
    fn a_ramp_bends_the_sound_less_than_a_soft_tone_does() {
        let mut samples = vec![1.0; 2000];
        let mut volume = Volume::over(Gain::UNITY, 480);
        volume.apply(Gain::UNITY, 1, &mut samples[..500]);
        volume.apply(Gain::SILENCE, 1, &mut samples[500..]);
        let bend = |three: &[f32]| (three[0] - 2.0 * three[1] + three[2]).abs();
        let sharpest = samples.windows(3).map(bend).fold(0.0, f32::max);
        assert!(sharpest <= 6.1 / (480.0 * 480.0) + 1e-6, "{sharpest}");
    }
}
