//! Which kernel: how much delay for how little distortion.

use core::fmt;
use core::str::FromStr;

use super::kernel;

/// Which kernel a resampler uses. Distortion and noise are those of full-scale sines up to 15 kHz at
/// 48 kHz; docs/performance.md has the measured figures and 44.1 kHz.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Quality {
    /// 12 frames of delay, a quarter of a millisecond at 48 kHz; below −90 dB.
    #[default]
    LowDelay,
    /// 16 frames of delay, a third of a millisecond; below −115 dB.
    Balanced,
    /// 24 frames of delay, half a millisecond; below −130 dB, and flat to 20 kHz at 44.1 kHz, too.
    Best,
}

impl Quality {
    /// All of them, by rising delay.
    pub const ALL: [Self; 3] = [Self::LowDelay, Self::Balanced, Self::Best];

    /// The delay in input frames, as [`super::Resampler::half`] has it.
    pub const fn half(self) -> usize {
        kernel::window(self).half
    }

    /// What the kernel weighs an input frame with that lies `distance` frames from the place of an
    /// output frame: a sinc under a window of cosines. 1 at 0, and 0 at all other whole numbers and
    /// from [`Quality::half`] on.
    pub fn weight(self, distance: f64) -> f64 {
        kernel::window(self).weight(distance)
    }
}

/// A quality that does not exist, with what was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QualityError {
    /// What was given.
    pub given: String,
}

impl fmt::Display for QualityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "‘{}’ is no resampler; give low-delay, balanced or best", self.given)
    }
}

impl std::error::Error for QualityError {}

impl fmt::Display for Quality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::LowDelay => "low-delay",
            Self::Balanced => "balanced",
            Self::Best => "best",
        })
    }
}

impl FromStr for Quality {
    type Err = QualityError;

    fn from_str(given: &str) -> Result<Self, QualityError> {
        let same = |quality: &Self| quality.to_string() == given.trim();
        Self::ALL.into_iter().find(same).ok_or_else(|| QualityError { given: given.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use super::*;

    #[test]
    fn every_quality_is_read_back_from_its_name() {
        for quality in Quality::ALL {
            assert_eq!(quality.to_string().parse(), Ok(quality));
        }
        let error = "fast".parse::<Quality>().unwrap_err();
        snapshot!(error);
    }

    #[test]
    fn better_takes_longer() {
        assert!(Quality::ALL.map(Quality::half).is_sorted());
    }
}
