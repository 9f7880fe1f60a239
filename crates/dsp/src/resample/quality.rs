//! Kernel choice: delay against distortion.

use core::str::FromStr;

crate::named_enum! {
    /// Qualities by ascending delay. Distortion and noise are for full-scale sines up to 15 kHz at
    /// 48 kHz (docs/performance.md).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub enum Quality {
        /// 12 frames of delay, 0.25 ms at 48 kHz; below −90 dB.
        #[default]
        LowDelay = "low-delay",
        /// 16 frames of delay, 0.33 ms; below −115 dB.
        Balanced = "balanced",
        /// 24 frames of delay, 0.5 ms; below −130 dB, and flat to 20 kHz even at 44.1 kHz.
        Best = "best",
    }
}

impl FromStr for Quality {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, String> {
        Self::named(given.trim()).ok_or_else(|| {
            format!("invalid resampler '{given}': must be low-delay, balanced or best")
        })
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
