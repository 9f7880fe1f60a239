//! Which kernel: how much delay for how little distortion.

use core::str::FromStr;

crate::named_enum! {
    /// Which kernel a resampler uses, by rising delay. Distortion and noise are those of full-scale sines up to 15 kHz
    /// at 48 kHz; docs/performance.md has the measured figures and 44.1 kHz.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub enum Quality {
        /// 12 frames of delay, a quarter of a millisecond at 48 kHz; below −90 dB.
        #[default]
        LowDelay = "low-delay",
        /// 16 frames of delay, a third of a millisecond; below −115 dB.
        Balanced = "balanced",
        /// 24 frames of delay, half a millisecond; below −130 dB, and flat to 20 kHz at 44.1 kHz, too.
        Best = "best",
    }
}

impl FromStr for Quality {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, String> {
        Self::named(given.trim())
            .ok_or_else(|| format!("‘{given}’ is no resampler; give low-delay, balanced or best"))
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
