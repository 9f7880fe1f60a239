use core::fmt;

use super::{BAND_Q, MAX_BAND_DB, MAX_BANDS, MIN_BAND_HZ};
use crate::gain::Gain;
use crate::signal::Frequency;

/// Error for invalid bands, with the value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum EqualizerError {
    /// Too many bands.
    Bands(usize),
    /// A frequency too low, or too high for the rate in hertz.
    Frequency(Frequency, u32),
    /// A gain out of range.
    Gain(Gain),
    /// A Q out of range.
    Q(f64),
}

impl fmt::Display for EqualizerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bands(count) => write!(f, "too many bands ({count}): maximum {MAX_BANDS}"),
            Self::Frequency(frequency, rate) => write!(
                f,
                "invalid frequency {frequency} of a band: must be at least {MIN_BAND_HZ} Hz and \
                 below {} Hz, half the rate",
                f64::from(*rate) / 2.0
            ),
            Self::Gain(gain) => write!(
                f,
                "invalid gain {gain} of a band: must be -{MAX_BAND_DB}dB to +{MAX_BAND_DB}dB"
            ),
            Self::Q(q) => {
                let [min, max] = BAND_Q;
                write!(f, "invalid Q {q} of a band: must be {min} to {max}")
            }
        }
    }
}

impl std::error::Error for EqualizerError {}
